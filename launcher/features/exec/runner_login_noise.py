"""Drops a login shell's output before the mark of a command. Pure."""

from __future__ import annotations

NOISE = 64 * 1024
"""Bytes kept of the output before the mark."""


class LoginNoiseFilter:
    """One stream of a session.

    Attributes:
        noise: the bytes before the mark, at most `NOISE`.
        found: whether the mark has arrived.
    """

    def __init__(self, mark: str) -> None:
        self._line = f"{mark}\n".encode()
        self.noise = b""
        self.found = False

    def feed(self, data: bytes) -> bytes:
        """Return the part of these bytes that belongs to the command."""
        if self.found:
            return data
        before, mark, behind = (self.noise + data).partition(self._line)
        self.found = bool(mark)
        self.noise = before[-NOISE:]
        return behind
