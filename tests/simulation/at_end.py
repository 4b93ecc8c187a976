"""What is told when a simulated process ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class AtEnd:
    """Calls a function when a process ends, among whose watchers it is."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def changed(self) -> None:
        """Hear of the end."""
        self._call()
