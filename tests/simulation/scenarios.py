"""Small programs whose results must be the same on Linux and on the simulated kernel.

Each takes the system calls and returns what it has seen. Run as a module, this prints what all of
them see on the real system, each in a process of its own.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
from typing import TYPE_CHECKING, Any, NoReturn

from tests.support.limits import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

IN, OUT, ERR, HUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLERR, select.EPOLLHUP


def failure(call: Callable[..., object], *args: Any) -> str:
    """Return which error a call raises, "" for none."""
    try:
        call(*args)
    except OSError as problem:
        return f"{type(problem).__name__} {errno.errorcode[problem.errno or 0]}"
    return ""


def fork(s: Any, run: Callable[[], object]) -> int:
    """Start a child that calls something and ends."""

    def child() -> NoReturn:
        run()
        s.exit_now(0)
        raise AssertionError

    return int(s.fork(child))


def record(number: int, frame: object) -> None:
    """Handle a signal."""


def pipe_data_and_end(s: Any) -> list[object]:
    """A pipe ends when its last writer has closed it."""
    reader, writer = s.pipe2(os.O_NONBLOCK)
    empty = failure(s.read, reader, 1)
    s.write(writer, b"abc")
    other = s.dup(writer)
    s.close(writer)
    first, still = s.read(reader, 2), s.read(reader, 9)
    open_still = failure(s.read, reader, 1)
    s.close(other)
    return [empty, first, still, open_still, s.read(reader, 1), s.read(reader, 1)]


def pipe_broken(s: Any) -> list[object]:
    """A pipe without readers fails."""
    reader, writer = s.pipe2(0)
    s.close(reader)
    return [failure(s.write, writer, b"x"), failure(s.write, reader, b"x")]


def pipe_full(s: Any) -> list[object]:
    """A non-blocking pipe takes what there is room for."""
    reader, writer = s.pipe2(os.O_NONBLOCK)
    taken = s.write(writer, bytes(100_000))
    full = failure(s.write, writer, b"x")
    s.read(reader, 4096)
    return [taken, full, s.write(writer, bytes(4096)), failure(s.write, writer, b"x")]


def pipe_sizes(s: Any) -> list[object]:
    """A pipe can be made larger."""
    _, writer = s.pipe2(os.O_NONBLOCK)
    s.set_pipe_size(writer, 1 << 18)
    return [s.write(writer, bytes(1 << 19))]


def pipe_directions(s: Any) -> list[object]:
    """Each end of a pipe goes one way."""
    reader, writer = s.pipe2(0)
    return [failure(s.read, writer, 1), failure(s.write, reader, b"x"), failure(s.close, 999)]


def pipe_blocking(s: Any) -> list[object]:
    """A blocking write goes on until all is read."""
    reader, writer = s.pipe2(0)
    pid = fork(s, lambda: [s.close(reader), s.write(writer, bytes(200_000))])
    s.close(writer)
    total = 0
    while block := s.read(reader, 65536):
        total += len(block)
    return [total, s.waitpid(pid, 0) == (pid, 0)]


def pipe_events(s: Any) -> list[object]:
    """What epoll says of pipes."""
    reader, writer = s.pipe2(os.O_NONBLOCK)
    epoll = s.epoll()
    epoll.register(reader, IN)
    seen = [epoll.poll(0)]
    s.write(writer, b"x")
    seen += [epoll.poll(0), epoll.poll(0)]
    s.close(writer)
    seen.append(epoll.poll())
    s.read(reader, 9)
    seen.append(epoll.poll())
    return [[events for _, events in one] for one in seen]


def pipe_writer_events(s: Any) -> list[object]:
    """What epoll says of the writing end."""
    reader, writer = s.pipe2(os.O_NONBLOCK)
    epoll = s.epoll()
    epoll.register(writer, OUT)
    seen = [epoll.poll(0)]
    s.write(writer, bytes(65536))
    seen.append(epoll.poll(0))
    s.read(reader, 65536)
    seen.append(epoll.poll(0))
    s.close(reader)
    seen.append(epoll.poll(0))
    return [[events for _, events in one] for one in seen]


def epoll_errors(s: Any) -> list[object]:
    """What epoll refuses."""
    reader, writer = s.pipe2(0)
    epoll = s.epoll()
    epoll.register(reader, IN)
    file = s.open_fd("/tmp", os.O_RDONLY)
    null = s.open_fd("/dev/null", os.O_RDWR)
    return [
        failure(epoll.register, reader, IN),
        failure(epoll.register, file, IN),
        failure(epoll.register, null, IN),
        failure(epoll.register, 999, IN),
        failure(epoll.modify, writer, OUT),
        failure(epoll.unregister, writer),
        failure(epoll.unregister, 999),
    ]


def epoll_forgets_closed(s: Any) -> list[object]:
    """A closed descriptor is forgotten once nobody has it."""
    reader, writer = s.pipe2(0)
    epoll = s.epoll()
    epoll.register(reader, IN)
    other = s.dup(reader)
    s.write(writer, b"x")
    s.close(reader)
    first = epoll.poll(0) == [(reader, IN)]
    s.close(other)
    return [first, epoll.poll(0)]


def epoll_modify(s: Any) -> list[object]:
    """The events of a descriptor can be changed."""
    one, other = s.socketpair(socket.SOCK_STREAM)
    epoll = s.epoll()
    epoll.register(one.fileno(), IN)
    seen = [epoll.poll(0)]
    epoll.modify(one.fileno(), IN | OUT)
    seen.append(epoll.poll(0))
    other.send(b"x")
    seen.append(epoll.poll(0))
    epoll.unregister(one.fileno())
    seen.append(epoll.poll(0.001))
    return [[events for _, events in found] for found in seen]


def poll_events(s: Any) -> list[object]:
    """What poll says."""
    reader, writer = s.pipe2(0)
    poll = s.poll()
    poll.register(reader, select.POLLIN)
    poll.register(writer, select.POLLOUT)
    first = poll.poll(0)
    s.close(writer)
    return [[event for _, event in first], [event for _, event in poll.poll(None)]]


def poll_times_out(s: Any) -> list[object]:
    """Poll waits for so long."""
    reader, _writer = s.pipe2(0)
    poll = s.poll()
    poll.register(reader, select.POLLIN)
    began = s.monotonic()
    return [poll.poll(50), s.monotonic() - began > 0.049]


def socket_stream(s: Any) -> list[object]:
    """A stream: data, half an end, an end."""
    one, other = s.socketpair(socket.SOCK_STREAM)
    one.send(b"abc")
    one.send(b"def")
    seen: list[object] = [other.recv(4), other.recv(4)]
    one.shutdown(socket.SHUT_WR)
    seen += [other.recv(4), failure(one.send, b"x")]
    other.send(b"back")
    seen.append(one.recv(9))
    other.close()
    one.setblocking(False)
    return [*seen, one.recv(1), failure(one.send, b"x"), other.fileno()]


def socket_peer_gone(s: Any) -> list[object]:
    """A peer that has not read all resets the connection."""
    seen: list[object] = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        one, other = s.socketpair(kind)
        one.send(b"unread")
        other.close()
        seen += [failure(one.recv, 1), one.recv(1), failure(one.send, b"x")]
    return seen


def socket_packets(s: Any) -> list[object]:
    """Packets keep their limits."""
    one, other = s.socketpair(socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    one.send(b"abc")
    one.send(b"defgh")
    seen: list[object] = [other.recv(9), other.recv(2), failure(other.recv, 9)]
    view = bytearray(4)
    one.sendmsg([b"xy", b"z"])
    seen += [other.recv_into(view), bytes(view)]
    with one:
        pass
    return [*seen, other.recv(9), failure(other.send, b"x")]


def socket_full(s: Any) -> list[object]:
    """How much a socket takes, in large pieces and in small ones, and when it can be written."""
    seen: list[object] = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        for size, least, most in ((1, 150, 600), (65536, 2, 4)):
            one, other = s.socketpair(kind | socket.SOCK_NONBLOCK)
            count = 0
            while not failure(one.send, bytes(size)):
                count += 1
            epoll = s.epoll()
            epoll.register(one.fileno(), OUT)
            seen += [least <= count <= most, failure(one.send, bytes(size)), epoll.poll(0)]
            while not failure(other.recv, size):
                pass
            seen.append([event for _, event in epoll.poll(0)])
    return seen


def socket_fds_unread(s: Any) -> list[object]:
    """Descriptors that nobody takes are closed."""
    one, other = s.socketpair(socket.SOCK_STREAM)
    seen: list[object] = []
    for end in (lambda: other.recv(9), other.close):
        reader, writer = s.pipe2(0)
        s.send_fds(one, [b"these"], [writer])
        s.close(writer)
        end()
        seen.append(s.read(reader, 1))
    return seen


def socket_events(s: Any) -> list[object]:
    """What epoll says of sockets."""
    seen: list[object] = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        one, other = s.socketpair(kind)
        epoll = s.epoll()
        epoll.register(one.fileno(), IN | OUT)
        seen.append([events for _, events in epoll.poll(0)])
        other.send(b"x")
        seen.append([events for _, events in epoll.poll(0)])
        other.shutdown(socket.SHUT_WR)
        seen.append([events for _, events in epoll.poll(0)])
        other.close()
        seen.append([events for _, events in epoll.poll(0)])
        one.recv(5)
        seen.append([events for _, events in epoll.poll(0)])
    return seen


def socket_reset_events(s: Any) -> list[object]:
    """What epoll says of a peer that has not read all."""
    one, other = s.socketpair(socket.SOCK_STREAM)
    one.send(b"x")
    other.close()
    epoll = s.epoll()
    epoll.register(one.fileno(), IN | OUT)
    return [[events for _, events in epoll.poll(0)]]


def socket_fds(s: Any) -> list[object]:
    """Descriptors go over a socket."""
    one, other = s.socketpair(socket.SOCK_SEQPACKET)
    reader, writer = s.pipe2(0)
    s.send_fds(one, [b"these"], [writer])
    s.close(writer)
    data, fds, _, _ = s.recv_fds(other, 99, 3)
    s.write(fds[0], b"over")
    s.close(fds[0])
    return [data, len(fds), s.read(reader, 9), s.read(reader, 9)]


def socket_detached(s: Any) -> list[object]:
    """A descriptor can be given away, and taken again."""
    one, other = s.socketpair(socket.SOCK_STREAM)
    fd = one.detach()
    again = s.socket(fileno=fd)
    again.send(b"x")
    reader, _ = s.pipe2(0)
    return [one.fileno(), other.recv(1), again.fileno() == fd, failure(s.close, 999), reader > 0]


def ports(s: Any) -> list[object]:
    """A port is held by a socket that does not listen, and another one can listen."""

    def bound(port: int, reuse: bool = True, address: str = "") -> Any:
        one = s.socket(socket.AF_INET, socket.SOCK_STREAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        one.bind((address, port))
        return one

    hold = bound(0)
    port = hold.getsockname()[1]
    listener = bound(port)
    listener.listen(5)
    seen: list[object] = [port > 0, failure(bound, port), failure(bound, port, False)]
    seen.append(failure(bound, port, False, "127.77.85.69"))
    listener.close()
    seen += [failure(bound, port, False), failure(bound, port, False, "127.77.85.69")]
    second, third = bound(port), bound(port)
    second.listen(1)
    seen += [failure(third.listen, 1), failure(bound, port)]
    for one in (second, third, hold):
        one.close()
    return [*seen, failure(bound, port, False)]


def listening_rows(s: Any) -> list[object]:
    """Sockets that listen are in /proc/net/tcp."""
    one = s.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.bind(("", 0))
    port = one.getsockname()[1]
    seen: list[object] = []
    for _ in range(2):
        with s.open_file("/proc/net/tcp", encoding="ascii") as file:
            rows = [line.split() for line in file][1:]
        ours = [row for row in rows if row[1].endswith(f":{port:04X}")]
        seen.append([(row[3], row[7] == str(s.getuid()), len(row) > 9) for row in ours])
        one.listen(1)
    return seen


def files(s: Any) -> list[object]:
    """Files are made, written, read and removed."""
    folder = f"/tmp/scenario-{s.urandom(8).hex()}"
    path = f"{folder}/file"
    seen: list[object] = [failure(s.mkdir, folder, 0o700), failure(s.mkdir, folder)]
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    fd = s.open_fd(path, flags, 0o600)
    seen += [s.write(fd, b"0123456789"), failure(s.open_fd, path, flags), failure(s.read, fd, 1)]
    s.truncate(fd, 4)
    more = s.open_fd(path, os.O_WRONLY | os.O_APPEND)
    s.write(more, b"ab")
    seen.append(s.fstat(fd).st_size)
    with s.open_file(path, "rb") as file:
        seen.append(file.read())
    with s.open_file(path, "w", encoding="utf-8") as text:
        text.write("one\ntwo\n")
    with s.open_file(path, encoding="utf-8") as text:
        seen.append([*text])
    seen += [s.listdir(folder), s.exists(path), s.isdir(folder), s.isdir(path)]
    s.unlink(path)
    seen += [failure(s.stat, path), failure(s.unlink, path), failure(s.listdir, path)]
    seen += [failure(s.open_fd, folder, os.O_WRONLY), failure(s.open_fd, f"{folder}/a/b", flags)]
    s.write(fd, b"gone")
    return [*seen, s.fstat(fd).st_nlink, failure(s.open_file, path)]


def memory_file(s: Any) -> list[object]:
    """A file in memory is opened by another process by its link in /proc."""
    fd = s.memfd_create("error.json", os.MFD_CLOEXEC)
    path = f"/proc/{s.getpid()}/fd/{fd}"

    def write() -> None:
        with s.open_file(path, "w", encoding="utf-8") as file:
            file.write("hello")

    s.waitpid(fork(s, write), 0)
    again = s.open_fd(path, os.O_RDONLY)
    return [s.read(again, 99), s.read(fd, 2), s.lseek(fd, 0, os.SEEK_SET), s.read(fd, 99)]


def shared_offset(s: Any) -> list[object]:
    """A fork shares offsets and O_NONBLOCK, but no descriptors."""
    fd = s.memfd_create("x", 0)
    reader, writer = s.pipe2(0)
    s.write(fd, b"abcdef")
    s.lseek(fd, 0, os.SEEK_SET)

    def child() -> None:
        s.read(fd, 2)
        s.set_blocking(reader, False)
        s.close(writer)
        s.close(fd)

    s.waitpid(fork(s, child), 0)
    return [s.read(fd, 9), failure(s.read, reader, 1), s.write(writer, b"x")]


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


SCENARIOS = {
    name: one
    for name, one in [*globals().items()]
    if callable(one) and one.__module__ == __name__ and name not in {"failure", "fork", "record"}
}


def plain(found: object) -> Any:
    """Return what a scenario has seen as JSON has it."""
    return json.loads(json.dumps(found, default=lambda one: one.decode("latin-1")))


def main() -> None:
    """Print what all scenarios see on the real system."""
    from dsrun.launcher.common import system

    seen = {}
    for name, scenario in SCENARIOS.items():
        reader, writer = os.pipe()
        if os.fork() == 0:
            signal.alarm(30)
            os.write(writer, json.dumps(plain(scenario(system))).encode())
            os._exit(0)
        os.close(writer)
        with system.open_file(reader, "rb") as file:
            seen[name] = json.loads(file.read() or b'"failed"')
        os.wait()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
