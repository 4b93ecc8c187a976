"""The newest lines on a terminal, so that nothing is printed twice on one screen."""

from __future__ import annotations

LINES = 24
"""Lines that a screen shows at the same time: few terminals have less."""

KEPT = 16 * 1024
"""Bytes of them that are kept."""


class Recent:
    """Keeps what was printed last."""

    def __init__(self) -> None:
        self._printed = b""

    def add(self, data: bytes) -> None:
        """Add whole lines that are printed."""
        self._printed = (self._printed + data)[-KEPT:]

    def shows(self, lines: list[str]) -> bool:
        """Return whether all these lines, in this order, are among the newest, behind a label."""
        printed = iter(self._printed.decode("utf-8", "replace").splitlines()[-LINES:])
        return all(any(row.endswith(line) for row in printed) for line in lines)
