"""What the simulated kernel does beyond what one process of Linux can see."""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common import system as real
from tests.simulation.history import Event, as_text
from tests.simulation.kernel import Host, Kernel, Process
from tests.simulation.kernel.host import FIRST_PID
from tests.simulation.kernel.network import GIVE_UP
from tests.simulation.kernel.scheduler import MANY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOP = Path(__file__).parents[2]


class World:
    """A kernel with two hosts, and what it records."""

    def __init__(self, seed: int = 0, pids: int = 4096) -> None:
        self.kernel = Kernel(seed, pids)
        self.events: list[Event] = []
        self.kernel.record = self._record
        self.a, self.b = self.kernel.host("a"), self.kernel.host("b")
        self.s: Any = SimpleNamespace(**self.kernel.calls())

    def _record(self, kind: str, host: str, fields: dict[str, Any]) -> None:
        self.events.append(Event(self.kernel.now, host, kind, fields))

    def start(self, run: Callable[[], object], host: Host | None = None, **how: Any) -> Process:
        """Start a process, on the first host."""
        return self.kernel.spawn(host or self.a, run, **how)

    def run(self, seconds: float | None = None) -> None:
        """Run to the end, or for so long; no program may fail."""
        if seconds is None:
            self.kernel.run()
        else:
            self.kernel.run(self.kernel.now + seconds)
        assert self.kernel.crashes == []


@pytest.fixture(params=range(4))
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Return a world, for some seeds."""
    world = World(request.param)
    yield world
    world.kernel.close()


def test_has_every_call_and_no_other() -> None:
    """All calls of `system` are there, so that nothing of a world reaches the real system."""
    names = {
        name
        for name, one in vars(real).items()
        if not name.startswith("_")
        and callable(one)
        and (not isinstance(one, FunctionType) or one.__module__ != "typing")
    }
    assert set(Kernel(0).calls()) == names - {"use", "suppress"}


def test_real_module_takes_the_calls(world: World) -> None:
    """The calls can be put in place of the real ones, and back."""
    seen: list[object] = []

    def run() -> None:
        seen.append(real.getpid())
        try:
            real.sleep(100)
        finally:
            seen.append("end")
            real.exit_now(1)

    with world.kernel.installed(real):
        process = world.start(run)
        world.run(1)
        gc.disable()
    assert (seen, gc.isenabled()) == ([process.pid, "end"], True)
    assert real.getpid() == os.getpid()


def test_killed_code_has_no_more_effects(world: World) -> None:
    """Whatever a killed process has in `finally`, nothing of it reaches the system."""
    s, seen = world.s, []

    def run() -> None:
        try:
            s.sleep(100)
        except BaseException:
            seen.append("unwound")
            s.write(1, b"never")
            seen.append("never")
        finally:
            s.exit_now(0)

    reader = world.start(lambda: None)
    world.run()
    process = world.start(run)
    world.run(1)
    world.kernel.signals.send(process, signal.SIGKILL)
    world.run()
    assert (seen, process.status, reader.status) == (["unwound"], signal.SIGKILL, 0)


def test_exec_runs_another_program(world: World) -> None:
    """An exec closes what is to be closed and keeps what is ignored; what is missing fails."""
    s, seen = world.s, []

    def program() -> int:
        seen.append(sorted(s.listdir("/proc/self/fd")))
        seen.extend(s.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2))
        with s.open_file("/proc/self/environ", "rb") as file:
            seen.append(file.read())
        return 7

    def programs(process: Process, argv: Any, env: Any) -> Callable[[], object]:
        if argv[0] != b"good":
            raise FileNotFoundError(errno.ENOENT, "gone")
        assert (process.argv[0], env) == (b"program", {b"A": b"1"})
        return program

    def run() -> None:
        s.pipe2(os.O_CLOEXEC)
        s.pipe2(0)
        s.set_handler(signal.SIGUSR1, signal.SIG_IGN)
        s.set_handler(signal.SIGUSR2, lambda *_: None)
        try:
            s.execvpe("bad", ["bad"], {})
        except FileNotFoundError as problem:
            seen.append(problem.filename)
        try:
            s.execvpe(b"good", [b"good", "x"], {"A": b"1"})
        finally:
            s.exit_now(1)

    world.kernel.programs = programs
    process = world.start(run)
    world.run()
    assert seen == ["bad", ["2", "3"], signal.SIG_IGN, signal.SIG_DFL, b"A=1\0"]
    assert (process.status, process.argv) == (7 << 8, [b"good", b"x"])


def test_a_program_that_fails_is_told(world: World) -> None:
    """An exception of a program ends it, goes to its standard error, and to the world."""
    s, seen = world.s, []

    def parent() -> None:
        reader, writer = s.pipe2(0)

        def child() -> None:
            s.dup2(writer, 2)
            raise ValueError("broken")

        pid = s.fork(child)
        s.close(writer)
        while block := s.read(reader, 9999):
            seen.append(block)
        seen.append(s.waitpid(pid, 0)[1])

    world.start(parent)
    world.kernel.run()
    assert seen.pop() == 1 << 8
    assert b"ValueError: broken" in b"".join(seen)
    assert [str(problem) for _, problem in world.kernel.crashes] == ["broken"]


def test_stopped_process_finds_its_events_later(world: World) -> None:
    """A stop ends a wait whose time is over before it looks; the next one finds all."""
    s, seen = world.s, []

    def run() -> None:
        reader, writer = s.pipe2(0)
        epoll = s.epoll()
        epoll.register(reader, select.EPOLLIN)
        s.fork(lambda: [s.sleep(2), s.write(writer, b"x")])
        seen.append(epoll.poll(5))
        seen.append(s.monotonic() - began)
        seen.append([event for _, event in epoll.poll(0)])

    process = world.start(run)
    world.run(1)
    began = world.a.monotonic() - world.kernel.now
    world.a.signal(process.pid, signal.SIGSTOP)
    assert process.state == "T"
    world.run(9)
    assert (seen, process.state) == ([], "T")
    world.a.signal(process.pid, signal.SIGCONT)
    world.run()
    assert (seen[0], seen[2], seen[1] > 10) == ([], [1], True)


def test_frozen_disk_holds_even_a_killed_process(world: World) -> None:
    """SIGKILL ends it when the disk answers again, and nothing tells before."""
    s, disk = world.s, world.a.files.mount("/data")
    world.a.files.folder("/data", 0o777).mode |= 0o777
    process = world.start(lambda: [s.sleep(1), s.open_fd("/data/x", os.O_WRONLY | os.O_CREAT)])
    disk.freeze()
    world.run(5)
    assert process.state == "D"
    world.a.kill(process.pid)
    world.run(5)
    assert (process.state, process.alive) == ("D", True)
    disk.thaw()
    world.run()
    assert (process.status, world.a.files.get("/data/x")) == (signal.SIGKILL, None)


def test_full_disk(world: World) -> None:
    """Nothing can be written to a full disk, and what was there stays."""
    s, seen = world.s, []

    def run() -> None:
        fd = s.open_fd("/tmp/x", os.O_WRONLY | os.O_CREAT)
        s.write(fd, b"abc")
        world.a.files.main.full = True
        with pytest.raises(OSError, match="No space"):
            s.write(fd, b"def")
        seen.append(s.stat("/tmp/x").st_size)

    world.start(run)
    world.run()
    assert seen == [3]
    assert world.kernel.leaks()["files"] == ["a: /tmp/x"]


def test_other_users_processes_are_protected(world: World) -> None:
    """Signals and /proc have the rights of Linux."""
    s, stranger = world.s, world.a.add_stranger(1001, "other")

    def run() -> None:
        with pytest.raises(PermissionError):
            s.kill(stranger.pid, signal.SIGTERM)
        with pytest.raises(PermissionError):
            s.open_file(f"/proc/{stranger.pid}/environ", "rb")
        with pytest.raises(PermissionError):
            s.listdir(f"/proc/{stranger.pid}/fd")
        with pytest.raises(PermissionError):
            s.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        assert s.stat(f"/proc/{stranger.pid}").st_uid == 1001

    world.start(run)
    world.run()
    assert stranger.alive
    assert [one["pid"] for one in world.events if one.kind == "signalled"] == []


def test_pids_are_used_again() -> None:
    """Pids are few, and come again, but never while one is in use."""
    world = World(1, pids=320)
    s, pids = world.s, []

    def run() -> None:
        for _ in range(50):
            pids.append(s.fork(lambda: None))
            s.waitpid(pids[-1], 0)

    process = world.start(run)
    world.run()
    assert len({*pids}) == 19
    assert process.pid not in pids
    while len(world.a.processes) < world.a.most_processes:
        world.a.add_stranger(0, "x")
    with pytest.raises(BlockingIOError):
        world.a.add_stranger(0, "x")


def test_power_off_is_silent(world: World) -> None:
    """Who has a link to a host without power hears nothing."""
    s, seen = world.s, []
    ours, theirs = world.kernel.link(world.a, world.b)

    def read() -> None:
        while block := s.read(0, 99):
            seen.append(block)
        seen.append(b"end")

    world.start(read, fds={0: ours})
    process = world.start(lambda: [s.write(0, b"hello"), s.sleep(100)], world.b, fds={0: theirs})
    world.run(10)
    world.b.power_off()
    world.run()
    assert b"".join(seen) == b"hello"
    assert (world.b.processes, process.state) == ({}, "X")
    assert [one.kind for one in world.events if one.host == "b"] == ["spawned"]


@pytest.mark.parametrize("size", [1, 5000, 1_000_000])
def test_link_carries_all(world: World, size: int) -> None:
    """A link carries all bytes in their order, in pieces, and then its end."""
    s = world.s
    data = world.kernel.random.randbytes(size)
    got, ours, theirs = bytearray(), *world.kernel.link(world.a, world.b)

    def read() -> None:
        while block := s.read(0, 65536):
            got.extend(block)

    world.start(read, fds={0: ours})
    world.start(lambda: s.write(1, data), world.b, fds={1: theirs})
    world.run()
    assert bytes(got) == data
    assert world.kernel.now > 0.0002


def test_end_of_a_reader_breaks_the_link(world: World) -> None:
    """Who writes to an end that was closed gets an error, a little later."""
    s, ours, theirs = world.s, *world.kernel.network.channel(world.a, world.b)
    seen: list[object] = []

    def write() -> None:
        poll = s.poll()
        poll.register(1, 0)
        seen.extend(event for _, event in poll.poll(None))
        with pytest.raises(BrokenPipeError):
            s.write(1, b"x")

    world.start(write, fds={1: ours})
    world.start(lambda: s.sleep(1), world.b, fds={0: theirs})
    world.run()
    assert seen == [select.POLLERR]


def talker(world: World, until: float) -> tuple[list[Any], Callable[[], None], Callable[[], None]]:
    """Return programs for both ends of a link: one counts each second, the other listens."""
    s, seen = world.s, []

    def listen() -> None:
        try:
            while block := s.read(0, 99):
                seen.extend(block)
            seen.append("end")
        except ConnectionError as problem:
            seen.append(type(problem).__name__)

    def talk() -> None:
        for number in range(int(until)):
            s.write(1, bytes([number]))
            s.sleep(1)

    return seen, listen, talk


@pytest.mark.parametrize("direction", ["in", "both"])
def test_cut_and_mended_link_goes_on(world: World, direction: str) -> None:
    """What was sent while a host was cut off arrives when it is not."""
    seen, listen, talk = talker(world, 9)
    ours, theirs = world.kernel.link(world.a, world.b)
    world.start(listen, fds={0: ours})
    world.start(talk, world.b, fds={1: theirs})
    world.run(2.5)
    world.kernel.network.cut(world.a, direction)
    world.run(3)
    assert seen == [0, 1, 2]
    world.kernel.network.mend(world.a)
    world.run(0.5)
    assert seen[:6] == [0, 1, 2, 3, 4, 5]
    world.run()
    assert seen == [*range(9), "end"]


def test_cut_one_way(world: World) -> None:
    """A host that nothing can leave still hears."""
    s, seen = world.s, list[bytes]()
    keep: Callable[[bytes], object] = seen.append
    ours, theirs = world.kernel.link(world.a, world.b)
    world.start(lambda: [s.write(0, b"x"), keep(s.read(0, 9))], fds={0: ours})
    world.start(lambda: [keep(s.read(0, 9)), s.write(0, b"y")], world.b, fds={0: theirs})
    world.kernel.network.cut(world.b, "out")
    world.run(100)
    assert seen == [b"x"]
    world.kernel.network.mend(world.b)
    world.run()
    assert seen == [b"x", b"y"]


@pytest.mark.parametrize(
    ("connections", "end"), [("reset", ["ConnectionResetError"]), ("silent", [])]
)
def test_cut_link_does_not_survive(world: World, connections: str, end: list[object]) -> None:
    """After a cut a connection may fail, or stay silent for ever."""
    seen, listen, _ = talker(world, 0)
    ours, theirs = world.kernel.link(world.a, world.b)
    world.start(listen, fds={0: ours})
    world.start(lambda: world.s.sleep(1), world.b, fds={1: theirs})
    world.kernel.network.cut(world.b)
    world.run(5)
    assert seen == []
    world.kernel.network.mend(world.b, connections)
    world.run()
    assert seen == end


def test_half_open_link(world: World) -> None:
    """An end that is silenced vanishes without a word; writes fill the window and wait."""
    s, seen = world.s, []
    ours, theirs = world.kernel.link(world.a, world.b)

    def run() -> None:
        s.set_blocking(0, False)
        try:
            while taken := s.write(0, bytes(65536)):
                seen.append(taken)
        except BlockingIOError:
            seen.append("full")

    world.kernel.network.silence(theirs)
    world.start(lambda: None, world.b, fds={0: theirs})
    world.run()
    world.start(run, fds={0: ours})
    world.run()
    assert seen[-1] == "full"
    assert sum(seen[:-1]) == 1 << 18


def test_silent_link_ends_for_who_writes(world: World) -> None:
    """TCP gives up in the end; who only reads waits on."""
    s, (seen, listen, _) = world.s, talker(world, 0)
    ours, theirs = world.kernel.link(world.a, world.b)

    def write() -> None:
        s.write(0, b"x")
        listen()
        with pytest.raises(BrokenPipeError):
            s.write(0, b"y")
        seen.append(s.monotonic())

    world.kernel.network.silence(theirs)
    began = world.kernel.now
    world.start(write, fds={0: ours})
    world.start(listen, world.b, fds={0: theirs})
    world.run(GIVE_UP - 1)
    assert seen == []
    world.run(2)
    assert seen[0] == "end"
    assert len(seen) == 2, "the other end waits"
    assert world.kernel.now >= began + GIVE_UP


def test_stalled_link(world: World) -> None:
    """What is written to a stalled end waits."""
    seen, listen, talk = talker(world, 5)
    ours, theirs = world.kernel.link(world.a, world.b)
    world.start(listen, fds={0: ours})
    world.start(talk, world.b, fds={1: theirs})
    world.kernel.network.stall(theirs)
    world.run(10)
    assert seen == []
    world.kernel.network.stall(theirs, stalled=False)
    world.run()
    assert seen == [*range(5), "end"]


def test_clocks_differ(world: World) -> None:
    """Hosts have clocks of their own; the time of day may jump, the monotonic clock does not."""
    s, seen = world.s, dict[str, Any]()

    def run() -> None:
        first = (s.monotonic(), s.time())
        s.sleep(10)
        seen[s.uname().nodename] = (first[0], s.monotonic() - first[0], s.time() - first[1])

    world.start(run)
    world.start(run, world.b)
    world.kernel.at(5, lambda: world.b.jump(-3600))
    world.run()
    assert seen["a"][0] != seen["b"][0]
    assert 10 < min(seen["a"][1:]) <= max(seen["a"][1:]) < 10.1
    assert 10 < seen["b"][1] < 10.1
    assert -3590 <= seen["b"][2] < -3589


def test_threads_end_with_their_process(world: World) -> None:
    """The end of the main thread is that of the process."""
    s, seen = world.s, list[str]()
    keep: Callable[[str], object] = seen.append

    def run() -> None:
        s.thread(lambda: [s.sleep(5), keep("never")])
        s.sleep(1)

    process = world.start(run)
    world.run()
    assert (seen, process.status) == ([], 0)


def test_leaks_are_named(world: World) -> None:
    """What is left at the end is named."""
    s, holder = world.s, world.a.add_stranger(1001, "store")
    port = world.a.hold_port(holder)
    process = world.start(lambda: s.sleep(1e9), role="worker", name="rank 0")
    world.run(1)
    left = world.kernel.leaks()
    assert left["processes"] == [f"a: worker rank 0 (pid {process.pid}, S)"]
    assert left["ports"] == [f"a: {port}"]
    assert process.descriptors == 0


def test_limits_that_are_not_reached_are_forgotten() -> None:
    """Waits that end before their limits leave nothing that grows."""
    world = World()
    s = world.s

    def echo(reader: int, writer: int) -> None:
        epoll = s.epoll()
        epoll.register(reader, select.EPOLLIN)
        for _ in range(MANY):
            epoll.poll(1e6)
            s.write(writer, s.read(reader, 1))

    def run() -> None:
        (here, there), (back, forth) = s.pipe2(0), s.pipe2(0)
        s.fork(lambda: echo(here, forth))
        s.write(there, b"x")
        echo(back, there)

    world.start(run)
    world.kernel.run(1e5)
    assert (world.kernel.crashes, world.kernel.leaks()["processes"]) == ([], [])
    assert world.kernel.planned <= MANY


def test_slow_disk(world: World) -> None:
    """Each access to a slow disk takes a while, in which SIGKILL has no effect."""
    s, disk = world.s, world.a.files.mount("/slow")
    world.a.files.put("/slow/x", b"abc")
    disk.slow = 10.0
    process = world.start(lambda: [s.stat("/slow/x") for _ in range(99)])
    world.run(100)
    assert process.state == "D"
    world.a.kill(process.pid)
    assert process.state == "D"
    world.run()
    assert process.status == signal.SIGKILL


def test_power_on_is_another_boot(world: World) -> None:
    """A host that starts again has its files and another boot id, and nothing else."""
    s, seen, host = world.s, list[str](), world.a

    def run() -> None:
        seen.extend(s.listdir("/tmp"))
        s.open_fd("/tmp/x", os.O_CREAT)
        with s.open_file("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            seen.append(file.read())
        s.socket().bind(("", 4711))
        s.sleep(1000)

    world.start(run)
    world.run(100)
    host.power_off()
    host.power_on()
    world.start(run)
    world.run(100)
    assert (len(seen), seen[1], seen[0] != seen[2]) == (3, "x", True)
    assert world.kernel.leaks()["ports"] == ["a: 4711"]


def test_calls_are_traced() -> None:
    """Whoever looks for an error sees each system call."""
    kernel, seen = Kernel(0), list[object]()
    kernel.trace = lambda process, name, args: seen.append((process, name, args))
    calls = kernel.calls()
    process = kernel.spawn(kernel.host("a"), lambda: calls["kill"](calls["getpid"](), 0))
    kernel.run()
    assert seen == [(process, "getpid", ()), (process, "kill", (process.pid, 0))]


def busy(seed: int) -> str:
    """Return the log of a world in which much goes on at once."""
    world = World(seed)
    s = world.s

    def work(depth: int) -> object:
        _, writer = s.pipe2(0)
        pids = [
            s.fork(lambda: [work(depth - 1) if depth else s.sleep(0.001), s.write(writer, b"x")])
            for _ in range(3)
        ]
        epoll = s.epoll()
        for pid in pids:
            epoll.register(s.pidfd_open(pid), select.EPOLLIN)
        s.kill(pids[s.urandom(1)[0] % 3], signal.SIGTERM)
        while pids:
            epoll.poll(0.001)
            pid, _ = s.waitpid(-1, os.WNOHANG)
            pids = [one for one in pids if one != pid]
        return None

    world.start(lambda: work(3))
    world.start(lambda: work(2), world.b)
    world.run()
    return as_text(world.events)


def test_same_seed_same_log() -> None:
    """A seed decides everything, in any process; another seed is another order."""
    code = "from tests.simulation.test_kernel import busy; print(busy(7), end='')"
    path = f"{TOP}:{TOP / 'tests/import'}"
    logs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": path, "PYTHONHASHSEED": seed},
            cwd=TOP,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(logs[0].splitlines()) > 50
    assert busy(7) == busy(7) == logs[0] == logs[1] != busy(8)


def test_a_pid_that_is_still_the_number_of_a_group_is_not_used_again() -> None:
    host = Kernel(1, FIRST_PID + 5).host("a")
    one, other = host.add(None), host.add(None)
    free = [pid for pid in range(FIRST_PID, FIRST_PID + 5) if pid not in host.processes]
    one.pgid, other.pgid, other.sid = free
    with pytest.raises(BlockingIOError):
        host.add(None)
