"""Commands of the runner on this node, beside its runs."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from errno import ENOENT
from functools import partial

from ...common import files, system
from ...common.errors import reason
from ...control import command_messages, frames, messages
from ...specs.environment import from_wire, of_mpi, placed, to_wire
from ..workers.spawn import WorkerSpec
from .supervisor import ENDED, FAILED, STARTED, supervise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...common.loop import Loop, Timer
    from ...control.command_messages import ExecCommand

MOST = 64
"""Maximum number of commands at once."""

BLOCK = 64 * 1024
"""Bytes that are read and sent at a time."""

GRACE = 2.0
"""Seconds between the signal that stops a command and SIGKILL."""

DRAIN = 1.0
"""Seconds to wait for the end of a pipe held open by a process of another user."""

NOT_FOUND, NOT_STARTED = 127, 126
"""Exit codes of commands that cannot be started, as in a shell (POSIX, 2.8.2)."""

UNLIMITED = 1 << 62
"""Credit in bytes for output that is discarded."""


class Commands:
    """The commands of one control line.

    Attributes:
        handlers: the handlers of the runner's frames about running commands.
    """

    def __init__(
        self, loop: Loop, send: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        """Create without commands; `ended` is called whenever the last command has ended."""
        self._loop = loop
        self._send = send
        self._ended = ended
        self._commands: dict[int, RunningCommand] = {}
        self.handlers: dict[int, Callable[[bytes], None]] = {
            frames.EXEC_INPUT: self._on_input,
            frames.EXEC_STOP: self._on_stop,
            frames.EXEC_CREDIT: self._on_credit,
        }

    @property
    def pids(self) -> set[int]:
        """The command supervisors, which are children of this process."""
        return {command.pid for command in self._commands.values()}

    @property
    def over(self) -> bool:
        """True if no command is left."""
        return not self._commands

    def start(self, command: ExecCommand) -> None:
        """Start a command; its end is always reported.

        Raises:
            BadFrame: the command is empty, or its number is in use.
        """
        if command.id in self._commands or not (command.argv or command.program):
            raise frames.BadFrame("a number that is in use, or no program")
        if len(self._commands) >= MOST:
            self._report(command.id, NOT_STARTED, f"{MOST} commands are running already")
            return
        over = partial(self._on_over, command.id)
        try:
            self._commands[command.id] = RunningCommand(self._loop, command, self._send, over)
        except OSError as error:
            self._report(command.id, NOT_STARTED, reason(error))

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        for command in tuple(self._commands.values()):
            if command.pid in reaped:
                command.on_reaped()

    def close(self) -> None:
        """Stop all commands and discard their output; `ended` is called after the last one."""
        for command in tuple(self._commands.values()):
            command.grant(UNLIMITED)
            command.stop(signal.SIGTERM)

    def _on_over(self, number: int, code: int, hint: str) -> None:
        del self._commands[number]
        self._report(number, code, hint)
        if not self._commands:
            self._ended()

    def _report(self, number: int, code: int, hint: str) -> None:
        ended = command_messages.CommandExit(number, code, hint)
        self._send(messages.pack(frames.EXEC_EXIT, ended))

    # -- frames; those for a command that has just ended come too late ------------------------

    def _on_input(self, body: bytes) -> None:
        number, data = frames.unpack_numbered(body)
        if number in self._commands:
            self._commands[number].feed(data)

    def _on_stop(self, body: bytes) -> None:
        number, signal_number = frames.unpack_exec_stop(body)
        if signal_number not in set(signal.Signals):
            raise frames.BadFrame("not a signal")
        if number in self._commands:
            self._commands[number].stop(signal_number)

    def _on_credit(self, body: bytes) -> None:
        number, size = frames.unpack_exec_count(body)
        if number in self._commands:
            self._commands[number].grant(size)


class RunningCommand:
    """A command, from its fork until its streams have ended."""

    def __init__(
        self,
        loop: Loop,
        command: ExecCommand,
        send: Callable[[bytes], None],
        over: Callable[[int, str], None],
    ) -> None:
        """Start a command; `over` is called once, with its exit code and the reason in words.

        Raises:
            OSError: another process cannot be created.
        """
        self._loop = loop
        self._command = command
        self._send = send
        self._over = over
        self._credit = command.credit
        self._outputs: dict[int, int] = {}
        self._stdin = -1
        self._input = bytearray()
        self._input_ended = not command.stdin
        self._outcome = -int(signal.SIGKILL), "its parent process was killed"
        self._end: tuple[int, str] | None = None
        self._hint = ""
        self._timers: list[Timer] = []
        self._drain_timer: Timer | None = None
        self.pid, self._line = supervise(_spec(command))
        loop.add_reader(self._line.fileno(), self._hear)
        if command.seconds:
            self._timers.append(loop.call_later(command.seconds, self._time_out))

    # -- messages of its supervisor ----------------------------------------------------------

    def _hear(self) -> None:
        """Handle a message of the supervisor, or close the socket at its end."""
        try:
            data, fds, _, _ = system.recv_fds(self._line, BLOCK, 3)
        except BlockingIOError:
            return
        except ConnectionError:
            data, fds = b"", []
        if data.startswith(STARTED):
            self._on_started(*fds)
        elif data.startswith(FAILED):
            self._on_failed(data.removeprefix(FAILED).decode("utf-8", "replace"))
        elif data.startswith(ENDED):
            code = os.waitstatus_to_exitcode(int(data.removeprefix(ENDED)))
            self._outcome = code, self._hint
        else:
            self._loop.remove(self._line.fileno())
            self._line.close()

    def _on_started(self, stdin: int, stdout: int, stderr: int) -> None:
        self._stdin = stdin
        self._outputs = {1: stdout, 2: stderr}
        self._watch_outputs()
        self._write_input()

    def _on_failed(self, why: str) -> None:
        program, workdir = words(self._command)[0], self._command.workdir
        missing = why.endswith(os.strerror(ENOENT)) and not why.startswith(f"{workdir}: ")
        if missing and "/" not in program:
            why = f"{program}: not found on PATH"
        self._outcome = NOT_FOUND if missing else NOT_STARTED, why

    def on_reaped(self) -> None:
        """Handle the end of its supervisor, whose pid belonged to no run."""
        while self._line.fileno() >= 0:
            self._hear()
        self._end = self._outcome
        self._close_input()
        for timer in self._timers:
            timer.cancel()
        self._finish_if_drained()

    # -- output ------------------------------------------------------------------------------

    def grant(self, size: int) -> None:
        """Allow `size` more bytes of output."""
        self._credit += size
        self._watch_outputs()
        self._finish_if_drained()

    def _watch_outputs(self) -> None:
        for stream, fd in self._outputs.items():
            if self._credit > 0 and not self._loop.has_reader(fd):
                self._loop.add_reader(fd, partial(self._read, stream))

    def _read(self, stream: int) -> None:
        fd = self._outputs[stream]
        try:
            data = system.read(fd, BLOCK)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove(fd)
            system.close(self._outputs.pop(stream))
            self._finish_if_drained()
            return
        self._send(
            frames.pack_numbered(frames.EXEC_OUTPUT, self._command.id, bytes([stream]) + data)
        )
        self._credit -= len(data)
        if self._credit <= 0:
            for other in self._outputs.values():
                self._loop.remove(other)

    # -- input -------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Pass bytes to its standard input; b"" closes it."""
        self._input += data
        self._input_ended = self._input_ended or not data
        self._write_input()

    def _write_input(self) -> None:
        if self._stdin < 0:
            self._discard_late_input()
            return
        try:
            count = system.write(self._stdin, self._input) if self._input else 0
        except BlockingIOError:
            count = 0
        except BrokenPipeError:
            count, self._input_ended = len(self._input), True
        self._took(count)
        if self._input and not self._loop.has_writer(self._stdin):
            self._loop.add_writer(self._stdin, self._write_input)
        elif not self._input:
            self._loop.remove(self._stdin)
            if self._input_ended:
                self._close_input()

    def _discard_late_input(self) -> None:
        """Acknowledge and discard input after the end of standard input; keep earlier input."""
        if self._outputs or self._end is not None:
            self._took(len(self._input))

    def _took(self, count: int) -> None:
        del self._input[:count]
        if count:
            number = self._command.id
            self._send(frames.pack_exec_count(frames.EXEC_TOOK, number, count))

    def _close_input(self) -> None:
        if self._stdin >= 0:
            self._loop.remove(self._stdin)
            system.close(self._stdin)
            self._stdin = -1

    # -- the end -----------------------------------------------------------------------------

    def _time_out(self) -> None:
        self._hint = f"stopped after {self._command.seconds:g} s"
        self.stop(signal.SIGTERM)

    def stop(self, number: int) -> None:
        """Signal its process group; kill what is left after `GRACE` seconds."""
        if self._end is not None:
            return
        with suppress(OSError):  # its supervisor is dead, or too slow: SIGKILL follows
            self._line.send(bytes([number]))
        if number != signal.SIGKILL:
            self._timers.append(self._loop.call_later(GRACE, lambda: self.stop(signal.SIGKILL)))

    def _finish_if_drained(self) -> None:
        """Report its end once all its output has been sent."""
        if self._end is None:
            return
        if not self._outputs:
            self._report()
        elif self._drain_timer is None and self._credit > 0:
            self._drain_timer = self._loop.call_later(DRAIN, self._stop_draining)

    def _stop_draining(self) -> None:
        self._drain_timer = None
        if self._credit > 0:
            while self._outputs:
                _, fd = self._outputs.popitem()
                self._loop.remove(fd)
                system.close(fd)
            self._finish_if_drained()

    def _report(self) -> None:
        assert self._end is not None
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        self._over(*self._end)


def words(command: ExecCommand) -> tuple[str, ...]:
    """Return the words of a command as wire text (`environment.to_wire`)."""
    if not command.program:
        return command.argv
    from ..programs import command_line

    return (*command_line(command.program), *command.argv)


def _spec(command: ExecCommand) -> WorkerSpec:
    """Return the spec of a command; its default folder is the user's login folder."""
    workdir = from_wire(command.workdir) or os.fsencode(files.login_folder())
    own = {to_wire(name): to_wire(value) for name, value in os.environb.items()}
    gone = {*of_mpi(own)}
    kept = {name: value for name, value in own.items() if name not in gone}
    env = placed({**kept, **command.env}, to_wire(workdir))
    return WorkerSpec(
        rank=0,
        argv=[from_wire(word) for word in words(command)],
        env={from_wire(name): from_wire(value) for name, value in env.items()},
        workdir=workdir,
        keep_stdin=command.stdin,
    )
