"""The workers of a node as real processes on a real loop: their output, exits and end."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.node.machine import descendants, processes
from dsrun.launcher.node.workers.group import WorkerGroup
from dsrun.launcher.node.workers.group_state import DRAIN, ORPHAN_GRACE, StopPolicy
from dsrun.launcher.node.workers.log_writer import LogWriter
from dsrun.launcher.node.workers.logs import RankLog
from dsrun.launcher.node.workers.spawn import Process, SpawnFailed, WorkerSpec, spawn

from ...support.clock import Clock
from ...support.limits import HANG, NEVER
from ...support.recorder import Recorder
from ...support.specs import ENV, bomb, python, shell

if TYPE_CHECKING:
    from collections.abc import Callable


# -- a group -------------------------------------------------------------------------------------


class Watched:
    """A group on a real loop, and its events.

    Attributes:
        says: stop the loop once every worker has written this.
    """

    def __init__(
        self, *specs: WorkerSpec, policy: StopPolicy | None = None, credit: int = 1 << 30
    ) -> None:
        self.loop = Loop()
        self.output: dict[tuple[int, int], bytes] = {}
        self.exits: dict[int, tuple[int, bool]] = {}
        self.notes: list[str] = []
        self.took: list[int] = []
        self.left: list[int] | None = None
        self.says: bytes | None = None
        self.group = WorkerGroup(self.loop, policy or StopPolicy(), self, credit=credit)
        self.loop.on_signals(
            [signal.SIGCHLD], lambda _number: self.group.on_reaped(processes.reap())
        )
        self.group.start(specs, None)

    def worker_wrote(self, rank: int, stream: int, data: bytes) -> None:
        self.output[rank, stream] = self.output.get((rank, stream), b"") + data
        ranks = [process.spec.rank for process in self.group.processes]
        if self.says is not None and all(
            self.says in self.output.get((rank, 1), b"") for rank in ranks
        ):
            self.loop.stop()

    def worker_exited(self, process: Process) -> None:
        assert process.status is not None
        code = os.waitstatus_to_exitcode(process.status)
        self.exits[process.spec.rank] = (code, process.signalled)

    def group_ended(self, left: list[int]) -> None:
        self.left = left
        self.loop.stop()

    def orphans_stopped(self, names: str) -> None:
        self.notes.append(names)

    def input_taken(self, size: int) -> None:
        self.took.append(size)

    def until(self, text: bytes) -> None:
        """Run until every worker has written this, or nothing is left."""
        self.says = text
        self._run()
        self.says = None

    def to_the_end(self) -> None:
        """Run until nothing is left."""
        self._run()
        assert self.left == []

    def _run(self) -> None:
        late = self.loop.call_later(HANG, lambda: pytest.fail(f"late: {self.output} {self.exits}"))
        self.loop.run()
        late.cancel()


pytestmark = pytest.mark.usefixtures("adopting")


def test_exits_are_told_once_each_with_all_output() -> None:
    watched = Watched(
        shell("echo out; echo err >&2; exit 7", 4),
        python("import os; os.kill(os.getpid(), 9)", 5),
        python("print('x' * 300000, end='')", 6),
    )
    watched.to_the_end()
    assert watched.exits == {4: (7, False), 5: (-9, False), 6: (0, False)}
    assert watched.output == {(4, 1): b"out\n", (4, 2): b"err\n", (6, 1): b"x" * 300000}
    assert watched.notes == []


def test_a_worker_that_cannot_start_leaves_those_before_it_running() -> None:
    with pytest.raises(SpawnFailed, match="/no/such: No such file"):
        Watched(shell("exit 0"), WorkerSpec(1, [b"/no/such"], ENV, b"/"))
    assert os.waitpid(-1, 0)[1] == 0


TRAP = """
import os, signal, sys, time
def on_term(number, frame):
    os.write(1, b'term\\n')
    {then}
signal.signal(signal.SIGTERM, on_term)
os.write(1, b'ready\\n')
while True: time.sleep(0.02)
"""


def test_the_first_step_is_the_signal() -> None:
    watched = Watched(*(python(TRAP.format(then="sys.exit(3)"), rank) for rank in range(2)))
    watched.until(b"ready")
    watched.group.stop(signal.SIGTERM, 60.0)
    watched.group.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.exits == {0: (3, True), 1: (3, True)}
    assert watched.output == {(0, 1): b"ready\nterm\n", (1, 1): b"ready\nterm\n"}


def test_the_last_step_is_sigkill_after_one_grace_for_all() -> None:
    timed = Timed(*(python(TRAP.format(then="pass"), rank) for rank in range(3)))
    timed.prints(b"ready", 3)
    timed.group.stop(signal.SIGTERM, 10.0)
    timed.clock.go(9.9)
    timed.prints(b"term", 3)
    assert len(timed.group.running()) == 3
    timed.clock.go(0.2)
    *exits, ended = timed.ended()
    found = [(one.spec.rank, one.status) for name, one in exits if name == "worker_exited"]
    assert sorted(found) == [(rank, signal.SIGKILL) for rank in range(3)]
    assert (len(exits), ended) == (3, ("group_ended", []))


def test_a_second_stop_shortens_the_grace_and_never_lengthens_it() -> None:
    watched = Watched(python(TRAP.format(then="pass")))
    watched.until(b"ready")
    watched.group.stop(signal.SIGTERM, 60.0)
    watched.until(b"term")
    watched.group.stop(signal.SIGTERM, 0.1)
    watched.group.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.output[0, 1] == b"ready\nterm\n"
    assert watched.exits == {0: (-9, True)}


def test_another_signal_is_passed_on_as_well() -> None:
    watched = Watched(
        shell(
            "trap 'echo int' INT; trap 'echo term; exit 4' TERM; echo ready; "
            "while :; do sleep 600 & wait $!; done",
            0,
        )
    )
    watched.until(b"ready")
    watched.group.stop(signal.SIGINT, 60.0)
    watched.until(b"int")
    watched.group.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.exits == {0: (4, True)}


def test_a_stopped_worker_is_woken_to_be_stopped() -> None:
    watched = Watched(python(TRAP.format(then="sys.exit(0)")))
    watched.until(b"ready")
    pid = watched.group.processes[0].pid
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    watched.group.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.exits == {0: (0, True)}


def test_signals_for_the_workers_reach_each_once_and_end_nothing() -> None:
    text = """
    import os, signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    os.write(1, b'ready\\n')
    signal.sigwait([signal.SIGUSR1])
    os.write(1, b'usr1\\n')
    """
    watched = Watched(python(text, 0), python(text, 1))
    watched.until(b"ready")
    watched.group.signal_all(signal.SIGUSR1)
    watched.to_the_end()
    assert watched.exits == {0: (0, False), 1: (0, False)}
    assert watched.output == {(0, 1): b"ready\nusr1\n", (1, 1): b"ready\nusr1\n"}


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.dup2(os.open('/dev/null', os.O_RDWR), 1)
        time.sleep(600)
    os._exit(0)
os.wait()
print('ready', flush=True)
{then}
"""


def test_daemonised_grandchildren_are_swept_and_named() -> None:
    watched = Watched(python(DAEMON.format(then="")))
    watched.to_the_end()
    assert watched.exits == {0: (0, False)}
    (note,) = watched.notes
    assert note.startswith(sys.executable)


def test_a_failed_workers_daemons_are_swept_without_a_word() -> None:
    watched = Watched(python(DAEMON.format(then="sys.exit(5)")))
    watched.to_the_end()
    assert watched.exits == {0: (5, False)}
    assert watched.notes == []


def test_daemons_are_asked_before_they_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsrun.launcher.node.workers.group_state.ORPHAN_GRACE", NEVER)
    text = """
    import os, signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    if os.fork() == 0:
        os.setsid()
        signal.sigwait([signal.SIGTERM])
        os.write(1, b'asked')
    """
    watched = Watched(python(text))
    watched.to_the_end()
    assert watched.output == {(0, 1): b"asked"}


def test_daemons_that_ignore_sigterm_are_killed() -> None:
    text = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + DAEMON.format(then="")
    watched = Watched(python(text))
    watched.to_the_end()
    assert watched.exits == {0: (0, False)}


def test_daemons_are_swept_when_the_job_is_stopped() -> None:
    watched = Watched(python(DAEMON.format(then="time.sleep(600)")))
    watched.until(b"ready")
    watched.group.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.exits == {0: (-15, True)}


@pytest.mark.parametrize("seats", [80, 300])
def test_a_fork_bomb_is_ended(tmp_path: Path, seats: int) -> None:
    watched = Watched(python(bomb(tmp_path, seats)))
    watched.until(b"full")
    watched.group.stop(signal.SIGTERM, 0.1)
    watched.to_the_end()
    assert watched.exits == {0: (-9, True)}


HOPPER = """
import os, signal, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b'ready')
    end = time.monotonic() + 1200
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        os.setsid()
    os._exit(0)
signal.pause()
"""
"""A worker with a child that keeps replacing itself with a child of its own."""


def test_a_process_that_goes_on_as_its_own_child_is_ended_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(descendants, "PATIENCE", NEVER)
    watched = Watched(python(HOPPER))
    watched.until(b"ready")
    watched.group.stop(signal.SIGTERM, 0.1)
    watched.to_the_end()


def test_the_background_may_stay_when_asked_for() -> None:
    watched = Watched(python(DAEMON.format(then="")), policy=StopPolicy(allow_background=True))
    watched.to_the_end()
    assert watched.notes == []
    (daemon,) = processes.children()
    os.kill(daemon, signal.SIGKILL)
    assert os.waitpid(daemon, 0)[1] == signal.SIGKILL


def test_a_shell_and_its_program_are_signalled_together() -> None:
    watched = Watched(shell("echo ready; sleep 600; exit 3"), policy=StopPolicy(group=True))
    watched.until(b"ready")
    watched.group.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.exits == {0: (-15, True)}


# -- credit and input ---------------------------------------------------------------------------


def test_output_waits_for_credit_and_memory_stays_bounded() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watched = Watched(python("import os\nfor _ in range(512): os.write(1, b'x' * 65536)"), credit=1)
    got = 0
    while watched.left is None:
        watched.loop.call_later(0.0, lambda: watched.group.grant(1 << 20))
        watched.until(b"x")
        got += len(watched.output.pop((0, 1), b""))
    assert got == 512 * 65536
    assert watched.exits == {0: (0, False)}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


def test_input_is_passed_on_and_ended() -> None:
    watched = Watched(shell("cat; echo end", keep_stdin=True), shell("cat", 1))
    data = bytes(range(256)) * 4096
    watched.group.feed(data)
    watched.group.feed(b"")
    watched.to_the_end()
    assert watched.output == {(0, 1): data + b"end\n"}
    assert sum(watched.took) == len(data)


def test_input_that_nobody_reads_is_dropped() -> None:
    watched = Watched(shell("exec <&-; echo ready; sleep 0.2", keep_stdin=True))
    watched.until(b"ready")
    watched.group.feed(b"x" * 300000)
    watched.to_the_end()
    assert sum(watched.took) == 300000


# -- phases, on a clock that the test moves -------------------------------------------------------


class Timed:
    """A group with real workers on a clock that the test moves; its events."""

    def __init__(self, *specs: WorkerSpec, credit: int = 1 << 20, **more: Any) -> None:
        self.clock = Clock()
        heard = Recorder()
        self.events: list[Any] = heard.calls
        policy = StopPolicy(**more)
        self.group = WorkerGroup(self.clock.loop, policy, heard, self._excluded, credit=credit)
        self.excluded: set[int] = set()
        self.group.start(specs, None)

    def _excluded(self) -> set[int]:
        return self.excluded

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds, without moving the clock."""
        last = time.monotonic() + HANG
        while not condition():
            assert time.monotonic() < last, self.events
            time.sleep(0.001)
            self.clock.go(0.0)
            self.group.on_reaped(processes.reap())

    def prints(self, text: bytes, times: int = 1) -> None:
        """Wait until this has been printed so many times."""
        self.until(lambda: b"".join(blocks(self)).count(text) >= times)

    def ended(self) -> list[Any]:
        """Wait for the end; return all events except output."""
        self.until(lambda: self.group.over)
        assert self.events[-1][0] == "group_ended"
        return [one for one in self.events if one[0] != "worker_wrote"]


@pytest.mark.parametrize("second", [5.0, 50.0])
def test_the_earlier_deadline_counts(second: float) -> None:
    timed = Timed(python(TRAP.format(then="pass")))
    timed.prints(b"ready")
    timed.group.stop(signal.SIGTERM, 10.0)
    timed.group.stop(signal.SIGTERM, second)
    due = min(second, 10.0)
    timed.clock.go(due - 0.1)
    timed.prints(b"term")
    assert timed.group.running()
    timed.clock.go(0.2)
    exited, ended = timed.ended()
    assert ended == ("group_ended", [])
    name, process = exited
    assert (name, process.status, process.signalled) == ("worker_exited", signal.SIGKILL, True)


def test_a_group_that_is_over_acts_no_more() -> None:
    """Its timers are cancelled: other workers may run when they would be due."""
    timed = Timed(shell("exit 0"))
    timed.group.stop(signal.SIGTERM, 10.0)
    timed.ended()
    assert timed.group.over
    other = spawn(shell("exec sleep 600"))
    timed.group.stop(signal.SIGTERM, 0.0)
    timed.group.grant(5)
    timed.clock.go(1000.0)
    assert processes.started(other.pid)
    assert sum(one[0] == "group_ended" for one in timed.events) == 1
    os.kill(other.pid, signal.SIGKILL)
    os.waitpid(other.pid, 0)
    for fd in (other.stdin, other.stdout, other.stderr):
        os.close(fd)


def test_children_that_are_excluded_are_neither_waited_for_nor_ended() -> None:
    other = spawn(shell("exec sleep 600"))
    timed = Timed(shell("exec sleep 600"))
    timed.excluded.add(other.pid)
    timed.group.stop(signal.SIGKILL, 0.0)
    timed.clock.go(0.1)
    timed.ended()
    assert processes.children() == [other.pid]
    assert processes.started(other.pid)
    os.kill(other.pid, signal.SIGKILL)
    os.waitpid(other.pid, 0)
    for fd in (other.stdin, other.stdout, other.stderr):
        os.close(fd)


def test_orphans_have_a_moment_between_sigterm_and_sigkill() -> None:
    text = """
    import os, signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.write(1, b'ready')
    if os.fork() == 0:
        os.setsid()
        signal.sigwait([signal.SIGTERM])
        os.write(1, b'asked')
        signal.pause()
    """
    timed = Timed(python(text))
    timed.prints(b"asked")
    timed.clock.go(ORPHAN_GRACE - 0.1)
    timed.group.on_reaped(processes.reap())
    assert not timed.group.over
    assert len(processes.children()) == 1
    timed.clock.go(0.2)
    exited, stopped, ended = timed.ended()
    assert f"{sys.executable} -I -S" in stopped[1]
    assert [exited[0], stopped[0], ended] == [
        "worker_exited",
        "orphans_stopped",
        ("group_ended", []),
    ]


def test_an_open_pipe_is_waited_for_so_long() -> None:
    """What may stay keeps the workers' standard output."""
    timed = Timed(shell("sleep 600 & exit 0"), allow_background=True)
    timed.until(lambda: not timed.group.running())
    timed.clock.go(DRAIN - 0.1)
    assert not timed.group.over
    timed.clock.go(0.2)
    assert timed.group.over
    assert timed.group.may_stay()
    (left,) = processes.children()
    os.kill(left, signal.SIGKILL)
    os.waitpid(left, 0)


def test_a_reader_that_has_stalled_is_waited_for_unless_the_job_is_stopped() -> None:
    timed = Timed(shell("echo text; exit 3"), credit=0)
    timed.until(lambda: not timed.group.running() or timed.events)
    timed.group.grant(0)
    timed.clock.go(100.0)
    timed = Timed(python("print('x' * 65536 + 'y' * 65536, end='')"), credit=1)
    timed.prints(b"x")
    assert timed.group.credit <= 0
    timed.clock.go(100.0)
    assert not timed.group.over
    timed.group.stop(signal.SIGTERM, 10.0)
    timed.until(lambda: not timed.group.running())
    timed.clock.go(DRAIN + 0.1)
    timed.ended()


def test_what_is_known_of_failed_workers(tmp_path: Path) -> None:
    """Only of the first ones, and of none that was stopped."""
    specs = [shell(f"echo {rank} >&2; exit {rank}", rank) for rank in range(7)]
    paths = {r: {1: f"{tmp_path}/{r}.out", 2: f"{tmp_path}/{r}.err"} for r in range(7)}
    clock, heard = Clock(), Recorder()
    group = WorkerGroup(clock.loop, StopPolicy(), heard, lambda: {logs.pid}, credit=1 << 20)
    logs = LogWriter(
        paths, lambda warn: {r: RankLog(paths[r], created, warn) for r in range(7)}, print, NEVER
    )
    group.start(specs, logs)
    last = time.monotonic() + HANG
    while not group.over:
        assert time.monotonic() < last
        time.sleep(0.001)
        clock.go(0.0)
        ended = processes.reap()
        group.on_reaped(ended)
        for pid in ended:
            logs.on_reaped(pid)
    found = group.failures()
    assert found.tails == {str(rank): ["", f"{rank}\n"] for rank in range(1, 5)}
    assert found.recorded == {str(rank): ["", ""] for rank in range(1, 5)}
    assert found.logs == {str(rank): paths[rank][2] for rank in range(1, 5)}
    assert Path(paths[6][2]).read_text() == "6\n"


def test_what_a_worker_said_that_had_raised_an_exception_before_it_was_stopped() -> None:
    says = "echo 'Traceback (most recent call last):' >&2; echo ValueError >&2"
    later = "trap 'echo late >&2; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    timed = Timed(shell(f"{says}; {later}", 0), shell(later, 1))
    timed.prints(b"ready", 2)
    timed.group.stop(signal.SIGTERM, NEVER)
    timed.until(lambda: not timed.group.running())
    text = "Traceback (most recent call last):\nValueError\n"
    assert timed.group.failures().tails == {"0": ["ready\n", text]}
    timed.clock.go(DRAIN + 0.1)
    timed.ended()


def created(path: str) -> int:
    """Open a new file."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)


def blocks(timed: Timed) -> list[bytes]:
    """Return the blocks of output so far."""
    return [one[3] for one in timed.events if one[0] == "worker_wrote"]


def test_credit_is_counted_to_the_byte() -> None:
    """With any credit a whole block is read; without any, nothing is."""
    timed = Timed(shell("read a; echo one; read a; echo two", keep_stdin=True), credit=4)
    timed.group.feed(b"\n")
    timed.until(lambda: blocks(timed) == [b"one\n"])
    assert timed.group.credit == 0
    timed.group.feed(b"\n")
    timed.group.feed(b"")
    timed.until(lambda: not timed.group.running())
    timed.clock.go(DRAIN + 0.1)
    assert blocks(timed) == [b"one\n"]
    assert not timed.group.over
    timed.group.grant(1)
    timed.until(lambda: blocks(timed) == [b"one\n", b"two\n"])
    assert timed.group.credit == -3
    timed.group.grant(3)
    timed.clock.go(DRAIN + 0.1)
    assert not timed.group.over
    timed.group.grant(1)
    timed.ended()


def test_without_more_output_no_credit_is_needed_to_go_on() -> None:
    timed = Timed(shell("printf one; read a; printf two", keep_stdin=True), credit=4)
    timed.until(lambda: blocks(timed) == [b"one"])
    assert timed.group.credit == 1
    timed.group.feed(b"\n")
    timed.until(lambda: blocks(timed) == [b"one", b"two"])
    timed.group.grant(1)
    assert timed.group.credit == -1
    timed.group.stop(signal.SIGTERM, 10.0)
    timed.until(lambda: not timed.group.running())
    timed.clock.go(DRAIN + 0.1)
    timed.ended()


def test_a_pipe_that_is_closed_later_is_waited_for_no_longer() -> None:
    timed = Timed(shell("(read a; exec sleep 600 >&- 2>&-) <go & exit 0"), allow_background=True)
    timed.until(lambda: not timed.group.running())
    for pid in processes.children():
        os.kill(pid, signal.SIGKILL)
    timed.ended()


def test_what_has_become_another_users_is_left_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be signalled from here, so it is not waited for."""
    timed = Timed(shell("exec sleep 600", 0), shell("exec sleep 600", 1))
    foreign, other = (one.pid for one in timed.group.processes)
    sent = processes.send

    def send(pid: int, number: int, *, group: bool = False) -> bool:
        return pid != foreign and sent(pid, number, group=group)

    monkeypatch.setattr(processes, "send", send)
    timed.group.stop(signal.SIGTERM, 10.0)
    timed.until(lambda: not processes.started(other))
    timed.until(lambda: len(timed.group.running()) == 1)
    timed.clock.go(DRAIN + 0.1)
    assert timed.ended()[-1] == ("group_ended", [foreign])
    os.kill(foreign, signal.SIGKILL)
    os.waitpid(foreign, 0)


def test_what_sigkill_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Timed(python(TRAP.format(then="pass")))
    timed.prints(b"ready")
    (pid,) = (one.pid for one in timed.group.processes)
    monkeypatch.setattr(processes, "send", lambda *_, **__: True)
    monkeypatch.setattr(descendants, "kill_all", lambda _: {pid})
    timed.group.stop(signal.SIGTERM, 10.0)
    timed.clock.go(10.1)
    timed.clock.go(descendants.GIVE_UP - 0.2)
    assert not timed.group.over
    timed.clock.go(0.3)
    assert timed.events[-1] == ("group_ended", [pid])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize(("group", "code"), [(False, 3), (True, -signal.SIGTERM)])
def test_the_signal_is_for_the_leader_or_for_its_process_group(group: bool, code: int) -> None:
    text = """
    import os, signal, sys
    if os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[1:] else signal.SIG_DFL)
        os._exit(3 if os.wait()[1] == 0 else 4)
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
    os.write(1, b'ready')
    signal.pause()
    """
    timed = Timed(python(text), group=group)
    timed.prints(b"ready")
    (child,) = processes_below(timed.group.processes[0].pid)
    if not group:
        os.kill(child, signal.SIGUSR1)
    else:
        timed.group.stop(signal.SIGTERM, 10.0)
    events = timed.ended()
    assert events[0][0] == "worker_exited"
    assert os.waitstatus_to_exitcode(events[0][1].status) == code
    assert not processes.started(child)


def processes_below(parent: int) -> list[int]:
    """Return the children of a process."""
    return [pid for pid in processes.pids() if processes.parent(pid) == parent]
