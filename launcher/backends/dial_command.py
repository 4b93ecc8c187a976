"""A command that starts node launchers, which dial back. Its output is read line by line."""

from __future__ import annotations

import os

from ..control import auth
from .child import Child, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    from ..common.loop import Loop

    class Owner(Protocol):
        """The object that runs the command."""

        def on_token(self, node: str, token: str) -> None:
            """Handle a token that a node launcher has announced."""
            ...

        def on_line(self, line: str) -> None:
            """Handle any other line of either stream."""
            ...

        def on_end(self, code: int, errors: str) -> None:
            """Handle the command's end; see `Child`."""
            ...


BLOCK = 64 * 1024
"""Bytes to read at once: the capacity of a pipe (pipe(7))."""

LONGEST = 64 * 1024
"""Bytes to keep of an unfinished line: the last ones."""


class DialCommand:
    """The running command.

    Attributes:
        child: its process.
    """

    def __init__(
        self, argv: Sequence[str], environ: Mapping[str, str], loop: Loop, owner: Owner
    ) -> None:
        """Start it.

        Raises:
            OSError: it could not be started.
        """
        self._loop = loop
        self._owner = owner
        self._rest = {"out": b"", "err": b""}
        self.child = Child(spawn(argv, environ), loop, self._on_end, self._read_errors)
        os.close(self.child.stdin)
        os.set_blocking(self.child.stdout, False)
        loop.add_reader(self.child.stdout, self._read_output)

    def _on_end(self, code: int, errors: str) -> None:
        """Read what the command has printed, then tell the owner."""
        self._read_output()
        self._owner.on_end(code, errors)

    def _read_output(self) -> None:
        try:
            data = os.read(self.child.stdout, BLOCK) if self.child.stdout >= 0 else b""
        except BlockingIOError:
            return
        if not data:
            self._close_output()
        for line in self._lines("out", data):
            announced = auth.parse_announcement(line)
            if announced:
                self._owner.on_token(*announced)
            else:
                self._owner.on_line(line)

    def _close_output(self) -> None:
        if self.child.stdout >= 0:
            self._loop.remove(self.child.stdout)
            os.close(self.child.stdout)
            self.child.stdout = -1

    def _read_errors(self, data: bytes) -> None:
        for line in self._lines("err", data):
            self._owner.on_line(line)

    def _lines(self, stream: str, data: bytes) -> list[str]:
        """Return the lines that `data` completes."""
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        self._rest[stream] = rest[-LONGEST:]
        return [line.decode("utf-8", "replace").strip() for line in lines]
