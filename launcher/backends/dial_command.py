"""A command that starts node launchers, which dial back. Its output is read line by line.

The command puts a label before each line of a node. A node can print anything, but not without its
own label, nor on a line of another node.
"""

from __future__ import annotations

import os
import re
import signal

from ..common.death_signal import DeathSignal
from ..control import auth
from .child import Child, execute, with_pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    from ..common.loop import Loop

    class CommandOwner(Protocol):
        """The object that runs the command."""

        def on_token(self, speaker: str, node: str, token: str) -> None:
            """Handle a token that a node launcher has announced."""
            ...

        def on_line(self, speaker: str, text: str) -> None:
            """Handle any other line of either stream; a speaker of "" is the command itself."""
            ...

        def on_unlabelled(self) -> None:
            """Handle tokens without labels, which do not count; called once."""
            ...

        def on_end(self, code: int, errors: str) -> None:
            """Handle the command's end; see `Child`."""
            ...


BLOCK = 64 * 1024
"""Bytes to read at once: the capacity of a pipe (pipe(7))."""

LONGEST = 64 * 1024
"""Bytes to keep of an unfinished line: the first ones, with the label."""


class DialCommand:
    """The running command.

    If this process is killed, the command gets SIGTERM, unless a node launcher has already
    announced itself; otherwise the command would wait for resources or hosts. Later, it ends with
    its node launchers, which stop the job on their own.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        loop: Loop,
        owner: CommandOwner,
        label: str,
    ) -> None:
        """Start the command.

        Args:
            argv: the command.
            environ: its environment.
            loop: reads its output.
            owner: receives its events.
            label: a pattern for the text before each line of a node; its group is the speaker.

        Raises:
            OSError: the command could not be started.
        """
        self._loop = loop
        self._owner = owner
        self._label = re.compile(label)
        self._warned = False
        self._rest = {"out": b"", "err": b""}
        started = with_pipes(lambda streams: self._execute(argv, environ, streams))
        self.child = Child(started, loop, self._on_end, self._read_errors)
        os.set_blocking(self.child.stdout, False)
        loop.add_reader(self.child.stdout, self._read_output)

    def _execute(
        self, argv: Sequence[str], environ: Mapping[str, str], streams: Sequence[int]
    ) -> int:
        self._death_signal = DeathSignal(streams[0], signal.SIGTERM)
        try:
            pid = execute(argv, environ, streams)
        except OSError:
            self._death_signal.cancel()
            raise
        self._death_signal.send_to(pid)
        return pid

    def _on_end(self, code: int, errors: str) -> None:
        """Read the command's remaining output, then tell the owner."""
        self._read_output()
        self._close_input()
        self._owner.on_end(code, errors)

    def _read_output(self) -> None:
        try:
            data = os.read(self.child.stdout, BLOCK) if self.child.stdout >= 0 else b""
        except BlockingIOError:
            return
        if not data:
            self._close_output()
        for speaker, text in self._lines("out", data):
            announced = auth.parse_announcement(text)
            if not announced:
                self._owner.on_line(speaker, text)
            elif speaker:
                self._close_input()
                self._owner.on_token(speaker, *announced)
            elif not self._warned:
                self._warned = True
                self._owner.on_unlabelled()

    def _close_input(self) -> None:
        self._death_signal.cancel()
        if self.child.stdin >= 0:
            os.close(self.child.stdin)
            self.child.stdin = -1

    def _close_output(self) -> None:
        if self.child.stdout >= 0:
            self._loop.remove(self.child.stdout)
            os.close(self.child.stdout)
            self.child.stdout = -1

    def _read_errors(self, data: bytes) -> None:
        for speaker, text in self._lines("err", data):
            self._owner.on_line(speaker, text)

    def _lines(self, stream: str, data: bytes) -> list[tuple[str, str]]:
        """Return (speaker, text) of each line that `data` completes."""
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        self._rest[stream] = rest[:LONGEST]
        return [self._spoken(line.decode("utf-8", "replace").strip()) for line in lines]

    def _spoken(self, line: str) -> tuple[str, str]:
        label = self._label.match(line)
        return (label[1], line[label.end() :]) if label else ("", line)


def unlabelled(tool: str) -> str:
    """Return the warning that lines of a command's output have no node labels."""
    return (
        f"{tool} does not label each line of output with its node; remove output options from"
        " --launcher_args"
    )
