"""Scenarios of pipes, sockets, files and what waits for them; see `scenarios.py`."""

from __future__ import annotations

import errno
import os
import select
import socket
from typing import Any

from tests.simulation.scenario_parts import IN, OUT, failure, fork, wait_for_events


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
        seen.append(failure(one.shutdown, socket.SHUT_WR))
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


def tcp_connection(s: Any) -> list[object]:
    """Data goes both ways, and the end is seen; nobody listens any more at the port."""
    listener = s.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("", 0))
    listener.listen(5)
    port = listener.getsockname()[1]

    def connected() -> Any:
        line = s.socket(socket.AF_INET, socket.SOCK_STREAM)
        line.setblocking(False)
        begun = failure(line.connect, ("127.0.0.1", port))
        wait_for_events(s, line.fileno(), OUT)
        return line, begun, line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    one, begun, error = connected()
    seen: list[object] = [begun, error]
    s.write(one.fileno(), b"h")
    other = listener.accept()[0]
    seen.append(s.read(other.fileno(), 9))
    s.write(other.fileno(), b"w")
    other.close()
    one.setblocking(True)
    seen += [s.read(one.fileno(), 9), s.read(one.fileno(), 9)]
    unseen = connected()[0]
    listener.close()
    wait_for_events(s, unseen.fileno(), IN)
    seen.append(failure(s.read, unseen.fileno(), 9))
    return [*seen, connected()[2] == errno.ECONNREFUSED]


def named_socket(s: Any) -> list[object]:
    """Sockets meet at an abstract name."""
    name = f"\0scenario-{s.urandom(8).hex()}"

    def made() -> Any:
        return s.plain_socket(socket.AF_UNIX, socket.SOCK_STREAM)

    listener, one = made(), made()
    seen: list[object] = [failure(one.connect, name)]
    listener.setblocking(False)
    listener.bind(name)
    listener.listen(5)
    seen += [failure(made().bind, name), failure(listener._accept)]
    one.connect(name)
    fd = listener._accept()[0]
    other = s.plain_socket(fileno=fd)
    one.send(b"hello")
    seen += [other.recv(9), one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)]
    seen.append(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    two = made()
    two.connect(name)
    listener.close()
    seen.append(failure(two.recv, 9) or two.recv(9))
    return [*seen, failure(made().connect, name)]


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


def descriptors_of_proc(s: Any) -> list[object]:
    """Links in /proc/PID/fd name what descriptors refer to."""
    reader, writer = s.pipe2(0)
    one, _other = s.socketpair(socket.SOCK_STREAM)
    null = s.open_fd("/dev/null", os.O_RDONLY)
    memory = s.memfd_create("name", 0)
    seen: list[object] = []
    for fd, kind in ((reader, "pipe"), (writer, "pipe"), (one.fileno(), "socket")):
        link = s.readlink(f"/proc/self/fd/{fd}")
        seen.append(link == f"{kind}:[{s.fstat(fd).st_ino}]")
    seen += [s.readlink(f"/proc/{s.getpid()}/fd/{fd}") for fd in (null, memory)]
    again = s.open_fd(f"/proc/self/fd/{writer}", os.O_WRONLY | os.O_NONBLOCK)
    s.write(again, b"x")
    s.close(writer)
    seen += [s.read(reader, 9), failure(s.readlink, f"/proc/self/fd/{writer}")]
    s.close(again)
    seen += [s.read(reader, 9), failure(s.open_fd, f"/proc/self/fd/{one.fileno()}", os.O_RDONLY)]
    named = {*map(int, s.listdir("/proc/self/fd"))}
    return [*seen, {reader, one.fileno(), null, memory} <= named, 999 in named]


def errors_to_nobody(s: Any) -> list[object]:
    """Standard error that nobody can read is no error."""
    reader, writer = s.pipe2(os.O_CLOEXEC)
    s.close(reader)

    def child() -> None:
        s.dup2(writer, 2)
        for _ in range(2):
            s.write_error("text")
        s.exit_now(5)

    pid = fork(s, child)
    return [s.waitpid(pid, 0)[1]]


def standard_streams(s: Any) -> list[object]:
    """A descriptor takes the place of another one."""
    reader, writer = s.pipe2(os.O_CLOEXEC)

    def child() -> None:
        s.dup2(writer, 2)
        s.close(writer)
        s.write_error("tëxt")

    pid = fork(s, child)
    s.close(writer)
    with s.open_file(reader, "rb") as file:
        data = file.read()
    return [data, s.waitpid(pid, 0)[1], failure(s.close, reader)]
