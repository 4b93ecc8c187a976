"""The process above a command, and what it does with what the command leaves."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.session import supervisor
from dsrun.launcher.node.session.supervisor import ENDED, FAILED, STARTED, supervise
from dsrun.launcher.node.workers.spawn import WorkerSpec

from ...support.limits import HANG, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("adopting")

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    daemon = os.fork()
    if daemon == 0:
        os.close(1), os.close(2)
        time.sleep(600)
    os.write(1, b'%d\\n' % daemon)
    os._exit(0)
os.wait()
"""
"""Leaves a process with a session of its own."""


class Started(NamedTuple):
    """A supervisor, its socket, and our ends of its command's streams."""

    pid: int
    line: socket.socket
    stdin: int
    stdout: int
    stderr: int

    def read(self, fd: int) -> bytes:
        """All that comes until the end."""
        os.set_blocking(fd, True)
        data = b""
        while block := os.read(fd, 65536):
            data += block
        return data

    def line_of_output(self) -> bytes:
        """The first line that it prints."""
        os.set_blocking(self.stdout, True)
        data = b""
        while not data.endswith(b"\n"):
            one = os.read(self.stdout, 1)
            assert one, data
            data += one
        return data

    def status(self) -> int:
        """Wait for its end; returns its exit code."""
        message = self.line.recv(4096)
        assert message.startswith(ENDED)
        return os.waitstatus_to_exitcode(int(message.removeprefix(ENDED)))

    def close(self) -> None:
        """Close what is ours, and reap it."""
        self.line.close()
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)
        os.waitpid(self.pid, 0)


@pytest.fixture
def command() -> Iterator[Commands]:
    """Start commands; at the end they are closed."""
    commands = Commands()
    yield commands
    for one in commands.started:
        one.close()


class Commands:
    """What a test has started."""

    def __init__(self) -> None:
        self.started: list[Started] = []

    def run(self, *argv: str) -> Started:
        """Start a command, and wait until it runs."""
        spec = WorkerSpec(0, [os.fsencode(word) for word in argv], dict(os.environb), b"/")
        pid, line = supervise(spec)
        line.setblocking(True)
        line.settimeout(HANG)
        message, fds, _, _ = socket.recv_fds(line, 4096, 3)
        assert message == STARTED
        self.started.append(Started(pid, line, *fds))
        return self.started[-1]


def python(text: str) -> tuple[str, ...]:
    return (sys.executable, "-ISc", text)


def gone(pid: int) -> bool:
    return not processes.started(pid)


def test_a_command_has_its_own_session_and_streams(command: Commands) -> None:
    text = """
import os
print(os.getpid() == os.getsid(0), os.getppid(), flush=True)
os.write(2, b'e')
os._exit(3)
"""
    one = command.run(*python(text))
    assert one.read(one.stdout) == b"True %d\n" % one.pid
    assert one.read(one.stderr) == b"e"
    assert one.status() == 3


def test_only_the_supervisor_is_our_child_and_what_is_left_is_gone_before_the_end(
    command: Commands,
) -> None:
    one = command.run(*python(DAEMON))
    daemon = int(one.line_of_output())
    assert one.status() == 0
    assert gone(daemon)
    assert processes.children() == [one.pid]


def test_a_supervisor_keeps_nothing_of_ours_open(command: Commands) -> None:
    read, write = os.pipe()
    one = command.run("/bin/sleep", "600")
    os.close(write)
    os.set_blocking(read, True)
    assert os.read(read, 1) == b""
    os.close(read)
    one.line.send(bytes([signal.SIGKILL]))
    assert one.status() == -signal.SIGKILL


def test_a_signal_reaches_the_whole_group_and_what_handles_it_has_time(
    command: Commands,
) -> None:
    text = """
import os, signal, time
child = os.fork()
def stop(number, frame):
    if child:
        os._exit(7)
    time.sleep(0.2)
    os.write(1, b'child is done\\n')
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
os.write(1, b'\\n')
while True: time.sleep(0.02)
"""
    one = command.run(*python(text))
    one.line_of_output(), one.line_of_output()
    one.line.send(bytes([signal.SIGTERM]))
    assert one.read(one.stdout) == b"child is done\n"
    assert one.status() == 7


def test_sigkill_ends_all_processes_of_a_command(command: Commands) -> None:
    one = command.run(*python(DAEMON.replace("os.wait()", "import signal; signal.pause()")))
    daemon = int(one.line_of_output())
    one.line.send(bytes([signal.SIGTERM, signal.SIGKILL]))
    assert one.status() in {-signal.SIGTERM, -signal.SIGKILL}
    assert gone(daemon)


def test_a_stopped_command_is_continued_to_end(command: Commands) -> None:
    one = command.run("/bin/sleep", "600")
    one.line.send(bytes([signal.SIGSTOP]))
    one.line.send(bytes([signal.SIGTERM]))
    assert one.status() == -signal.SIGTERM


@pytest.mark.parametrize(
    ("program", "folder", "why"),
    [
        ("/no/such", "/", "/no/such: No such file or directory"),
        ("/etc/passwd", "/", "/etc/passwd: Permission denied"),
        ("/bin/true", "/no/folder", "/no/folder: No such file or directory"),
        ("a\0b", "/", "embedded null"),
    ],
)
def test_why_it_cannot_be_started(program: str, folder: str, why: str) -> None:
    pid, line = supervise(WorkerSpec(0, [program.encode()], {}, folder.encode()))
    line.setblocking(True)
    message = line.recv(4096)
    assert message.startswith(FAILED)
    assert why in message.decode()
    line.close()
    assert os.waitpid(pid, 0)[1] == 0


def test_a_command_does_not_outlive_its_supervisor(command: Commands) -> None:
    one = command.run(*python("import os, time; print(os.getpid(), flush=True); time.sleep(600)"))
    pid = int(one.line_of_output())
    os.kill(one.pid, signal.SIGKILL)
    assert one.line.recv(4096) == b""
    wait_for(lambda: gone(pid), "the end of the command")
    os.waitpid(pid, 0)


def test_a_command_does_not_outlive_the_node_launcher(command: Commands) -> None:
    """Not even its supervisor does."""
    read, write = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            text = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
            one = command.run(*python(text))
            os.write(write, b"%d %s" % (one.pid, one.line_of_output()))
            signal.pause()
        finally:
            os._exit(1)
    os.close(write)
    pids = [int(pid) for pid in os.read(read, 64).split()]
    os.close(read)
    assert len(pids) == 2
    os.kill(middle, signal.SIGKILL)
    wait_for(lambda: all(map(gone, pids)), "the end of both")
    os.waitpid(middle, 0)
    while processes.children():
        os.waitpid(-1, 0)


def test_a_supervisor_that_nobody_hears_ends_without_a_word(
    capfd: pytest.CaptureFixture[str],
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    own = os.getpid()
    with theirs:
        spec = WorkerSpec(0, [b"true"], dict(os.environb), b"/")
        pid = system.fork(lambda: supervisor._become(spec, own, theirs))
    os.waitpid(pid, 0)
    assert capfd.readouterr().err == ""
