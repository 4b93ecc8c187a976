"""Scenarios of processes, signals and threads; see `scenarios.py`."""

from __future__ import annotations

import os
import select
import signal
import socket
from typing import Any

from tests.simulation.scenario_parts import IN, PAUSE, failure, fork, record
from tests.support.limits import NEVER


def wait_for_children(s: Any) -> list[object]:
    """Children are waited for."""
    none = failure(s.waitpid, -1, os.WNOHANG)
    reader, writer = s.pipe2(0)

    def child() -> None:
        s.close(writer)
        s.read(reader, 1)
        s.exit_now(7)

    pid = fork(s, child)
    alive = s.waitpid(-1, os.WNOHANG)
    s.close(writer)
    found, status = s.waitpid(pid, 0)
    return [none, alive, found == pid, status, failure(s.waitpid, pid, 0), failure(s.kill, pid, 0)]


def killed_child(s: Any) -> list[object]:
    """A killed child stays as a zombie until it is waited for."""
    pid = fork(s, lambda: s.sleep(NEVER))
    fd = s.pidfd_open(pid)
    epoll = s.epoll()
    epoll.register(fd, IN)
    seen: list[object] = [epoll.poll(0)]
    s.pidfd_send_signal(fd, signal.SIGKILL)
    seen.append([event for _, event in epoll.poll()])
    with s.open_file(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        seen.append(file.read().rpartition(b")")[2].split()[0])
    seen += [failure(s.kill, pid, signal.SIGTERM), s.waitpid(-1, 0)[1]]
    seen += [failure(s.pidfd_send_signal, fd, 9), failure(s.pidfd_open, pid)]
    return seen


def default_actions(s: Any) -> list[object]:
    """What signals do by default."""
    seen: list[object] = []
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        pid = fork(s, lambda: s.sleep(NEVER))
        s.kill(pid, number)
        seen.append(s.waitpid(pid, 0)[1])
    pid = fork(s, lambda: [s.kill(s.getpid(), signal.SIGURG), s.kill(s.getpid(), signal.SIGTERM)])
    return [*seen, s.waitpid(pid, 0)[1]]


def child_signal(s: Any) -> list[object]:
    """SIGCHLD comes over the wakeup descriptor."""
    reader, writer = s.pipe2(os.O_NONBLOCK)
    s.set_wakeup_fd(writer, warn_on_full_buffer=False)
    s.set_handler(signal.SIGCHLD, record)
    pid = fork(s, lambda: None)
    epoll = s.epoll()
    epoll.register(reader, IN)
    while not (ready := epoll.poll()):
        pass
    found = s.getsignal(signal.SIGCHLD) == record
    return [ready == [(reader, IN)], s.read(reader, 9), s.waitpid(-1, 0) == (pid, 0), found]


def blocked_signals(s: Any) -> list[object]:
    """Blocked signals wait, and are taken one by one."""
    s.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGUSR1})
    me = s.getpid()
    for number in (signal.SIGUSR1, signal.SIGCHLD, signal.SIGUSR1):
        s.kill(me, number)
    both = {signal.SIGCHLD, signal.SIGUSR1}
    seen = [s.sigtimedwait(both, 0) for _ in range(3)]
    late = s.sigtimedwait(both, 0.01)
    pid = fork(s, lambda: None)
    told = s.sigtimedwait({signal.SIGCHLD}, 100)
    return [
        [one and one.si_signo for one in seen],
        seen[0].si_pid == me,
        late,
        told.si_pid == pid,
        sorted(map(int, s.pthread_sigmask(signal.SIG_SETMASK, []))),
    ]


def ignored_signals(s: Any) -> list[object]:
    """An ignored signal does nothing; ignored SIGCHLD leaves no zombies."""
    s.set_handler(signal.SIGUSR1, signal.SIG_IGN)
    s.kill(s.getpid(), signal.SIGUSR1)
    s.set_handler(signal.SIGCHLD, signal.SIG_IGN)
    fork(s, lambda: None)
    return [failure(s.waitpid, -1, 0), failure(s.set_handler, signal.SIGKILL, record)]


def stopped_child(s: Any) -> list[object]:
    """A stopped process does nothing, and goes on."""
    reader, writer = s.pipe2(0)
    other, back = s.pipe2(0)

    def child() -> None:
        s.close(writer)
        while block := s.read(reader, 1):
            s.write(back, block)

    pid = fork(s, child)
    s.kill(pid, signal.SIGSTOP)
    s.write(writer, b"x")
    poll = s.poll()
    poll.register(other, select.POLLIN)
    silent = poll.poll(50)
    with s.open_file(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        state = file.read().rpartition(b")")[2].split()[0]
    s.kill(pid, signal.SIGTERM)
    still = s.waitpid(pid, os.WNOHANG)
    s.kill(pid, signal.SIGCONT)
    return [silent, state, still, s.waitpid(pid, 0)[1]]


def stopped_and_killed(s: Any) -> list[object]:
    """SIGKILL ends a stopped process."""
    pid = fork(s, lambda: s.sleep(NEVER))
    s.kill(pid, signal.SIGSTOP)
    s.kill(pid, signal.SIGKILL)
    return [s.waitpid(pid, 0)[1]]


def orphans(s: Any) -> list[object]:
    """A subreaper becomes the parent of orphans, and the wait status is its own to have."""
    s.prctl(36, 1)
    reader, writer = s.pipe2(0)
    report, told = s.pipe2(0)

    def grandchild() -> None:
        s.close(writer)
        s.read(reader, 1)
        s.write(told, b"%d" % (s.getppid() == top))
        s.exit_now(5)

    top = s.getpid()
    child = fork(s, lambda: fork(s, grandchild))
    first = s.waitpid(-1, 0) == (child, 0)
    with s.open_file("/proc/thread-self/children", "rb") as file:
        adopted = [int(one) for one in file.read().split()]
    s.close(writer)
    pid, status = s.waitpid(-1, 0)
    return [first, adopted == [pid], status, s.read(report, 1)]


def death_signal(s: Any) -> list[object]:
    """A process is signalled when its parent ends."""
    s.prctl(36, 1)
    reader, writer = s.pipe2(0)

    def grandchild() -> None:
        s.prctl(1, signal.SIGKILL)
        s.write(writer, b"x")
        s.sleep(NEVER)

    def child() -> None:
        fork(s, grandchild)
        s.read(reader, 1)

    pid = fork(s, child)
    statuses = [s.waitpid(-1, 0) for _ in range(2)]
    return [statuses[0] == (pid, 0), statuses[1][1]]


def sessions(s: Any) -> list[object]:
    """A group is signalled as a whole."""
    reader, writer = s.pipe2(0)

    def leader() -> None:
        s.setsid()
        fork(s, lambda: s.sleep(NEVER))
        s.write(writer, b"x")
        s.sleep(NEVER)

    pid = fork(s, leader)
    s.close(writer)
    s.read(reader, 1)
    s.killpg(pid, signal.SIGTERM)
    end = s.read(reader, 1)
    return [
        end,
        s.waitpid(pid, 0)[1],
        failure(s.killpg, 3_999_999, 9),
        failure(s.kill, 3_999_999, 9),
    ]


def threads(s: Any) -> list[object]:
    """Threads hand over by conditions."""
    ready, seen = s.condition(), []

    def run() -> None:
        with ready:
            seen.append("thread")
            ready.notify()

    with ready:
        thread = s.thread(run, "x")
        ready.wait_for(lambda: seen)
        seen.append("main")
    thread.join()
    with ready:
        late = ready.wait(0.01)
    return [seen, late, thread.is_alive(), failure(s.getpid)]


def inherited(s: Any) -> list[object]:
    """What is said of descriptors of a fork."""
    one, other = s.socketpair(socket.SOCK_STREAM)

    def child() -> None:
        with other:
            other.send(b"from child")

    with other:
        pid = fork(s, child)
    seen = [one.recv(99), one.recv(99)]
    s.waitpid(pid, 0)
    return [*seen, other.fileno(), s.isatty(one.fileno())]


def stop_ends_wait(s: Any) -> list[object]:
    """A stop ends the wait of an epoll whose time is over, before it looks."""
    reader, writer = s.pipe2(0)
    report, told = s.pipe2(0)

    def child() -> None:
        epoll = s.epoll()
        epoll.register(reader, IN)
        s.write(told, b".")
        found = [epoll.poll(PAUSE), epoll.poll(0)]
        s.write(told, b"%d %d" % (len(found[0]), len(found[1])))

    pid = fork(s, child)
    s.read(report, 1)
    s.sleep(PAUSE / 4)
    s.kill(pid, signal.SIGSTOP)
    s.sleep(2 * PAUSE)
    s.write(writer, b"x")
    s.kill(pid, signal.SIGCONT)
    return [s.read(report, 99), s.waitpid(pid, 0)[1]]


def sleep_is_not_ended_by_signals(s: Any) -> list[object]:
    """A handler, or a stop, does not shorten a sleep."""
    s.set_handler(signal.SIGUSR1, record)
    me, began = s.getpid(), s.monotonic()
    pid = fork(s, lambda: [s.sleep(PAUSE / 4), s.kill(me, signal.SIGUSR1)])
    s.sleep(PAUSE)
    return [s.monotonic() - began >= PAUSE, s.waitpid(pid, 0) == (pid, 0)]


def waits_by_group(s: Any) -> list[object]:
    """Children are waited for by their group."""
    reader, writer = s.pipe2(0)
    report, told = s.pipe2(0)

    def apart() -> None:
        s.setsid()
        s.write(told, b".")
        s.close(writer)
        s.read(reader, 1)
        s.exit_now(4)

    here = fork(s, lambda: s.exit_now(3))
    other = fork(s, apart)
    s.read(report, 1)
    first = s.waitpid(0, 0) == (here, 3 << 8)
    s.close(writer)
    none = failure(s.waitpid, 0, 0)
    return [first, none, s.waitpid(-other, 0) == (other, 4 << 8)]


def processes_of_proc(s: Any) -> list[object]:
    """What /proc says of a child, of its child, and of a zombie."""
    reader, _writer = s.pipe2(0)
    report, told = s.pipe2(0)

    def child() -> None:
        s.setsid()
        s.write(told, b"%d" % fork(s, lambda: s.read(reader, 1)))
        s.read(reader, 1)

    def fields(pid: int) -> list[bytes]:
        with s.open_file(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return list(file.read().rpartition(b")")[2].split())

    pid = fork(s, child)
    below = int(s.read(report, 99))
    with s.open_file(f"/proc/{pid}/task/{pid}/children", "rb") as file:
        seen: list[object] = [file.read().split() == [b"%d" % below]]
    found = fields(below)
    seen += [int(one) == pid for one in found[1:4]] + [found[17], len(found) >= 50]
    seen += [str(below) in s.listdir("/proc"), s.stat(f"/proc/{pid}").st_uid == s.getuid()]
    s.kill(below, signal.SIGKILL)
    s.kill(pid, signal.SIGKILL)
    info = s.poll()
    fd = s.pidfd_open(pid)
    info.register(fd, select.POLLIN)
    info.poll(None)
    seen.append(fields(pid)[0])
    with s.open_file(f"/proc/{pid}/cmdline", "rb") as file:
        seen.append(file.read())
    seen.append(failure(s.open_file, f"/proc/{pid}/environ", "rb"))
    s.waitpid(pid, 0)
    return [*seen, failure(s.stat, f"/proc/{pid}"), failure(s.listdir, f"/proc/{pid}/fd")]


def signals_of_proc(s: Any) -> list[object]:
    """/proc/PID/status says which signals are caught, ignored and blocked."""
    s.set_handler(signal.SIGUSR1, record)
    s.set_handler(signal.SIGUSR2, signal.SIG_IGN)
    s.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    with s.open_file("/proc/self/status", "rb") as file:
        rows = dict(line.split(b":\t", 1) for line in file if b":\t" in line)
    bits = {name: int(rows[name], 16) for name in (b"SigCgt", b"SigIgn", b"SigBlk")}
    return [
        [bits[name] >> number - 1 & 1 for number in (10, 12, 1, 13)]
        for name in (b"SigCgt", b"SigIgn", b"SigBlk")
    ]


def stops_are_told(s: Any) -> list[object]:
    """A parent gets SIGCHLD when a child stops, goes on, and ends."""
    s.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    pid, seen = fork(s, lambda: s.sleep(NEVER)), []
    for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL):
        s.kill(pid, number)
        told = s.sigtimedwait({signal.SIGCHLD}, NEVER)
        seen.append((told.si_signo, told.si_pid == pid))
    return [*seen, s.waitpid(-1, os.WNOHANG) == (pid, 9)]


def unblocked_signal_acts(s: Any) -> list[object]:
    """A signal that is pending acts as soon as it is not blocked."""

    def child() -> None:
        s.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        s.kill(s.getpid(), signal.SIGTERM)
        s.pthread_sigmask(signal.SIG_SETMASK, [])
        s.exit_now(1)

    return [s.waitpid(fork(s, child), 0)[1]]
