"""Sends dsrun to callers on nodes where it is missing: a few at a time, while the others wait.

The package is not secret, and the hash that callers must know is in their own command.
"""

from __future__ import annotations

from ...backends.base import package_root
from ...backends.package import contents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop
    from .callers import Caller

AT_A_TIME = 32
"""Callers that are sent dsrun at a time, and half as many for one source."""

PATIENCE = 20.0
"""Seconds for a caller to receive it."""


class Packages:
    """The callers that have asked for dsrun, oldest first; they are not authenticated."""

    def __init__(
        self,
        loop: Loop,
        serve: Callable[[Caller, Callable[[Caller], bool]], None],
        drop: Callable[[Caller], None],
    ) -> None:
        """Begin without callers.

        Args:
            loop: the event loop.
            serve: takes a step with a caller; if that fails, the caller is dropped.
            drop: closes a caller's connection, and calls `remove`.
        """
        self._loop = loop
        self._serve = serve
        self._drop = drop
        self._callers: dict[Caller, bool] = {}

    def __contains__(self, caller: Caller) -> bool:
        return caller in self._callers

    def expects(self, caller: Caller, digest: bytes) -> bool:
        """Return whether a caller may ask for this hash: once, and only for the running dsrun."""
        own = contents.digest(package_root()).encode()
        return caller not in self._callers and caller.credentials is None and digest == own

    def add(self, caller: Caller) -> None:
        """Send dsrun to this caller, now or later; until then its own timer runs."""
        self._callers[caller] = False
        self._start_next()

    def remove(self, caller: Caller) -> None:
        """Forget a caller; the next one gets its place."""
        if self._callers.pop(caller, False):
            self._start_next()

    def _start_next(self) -> None:
        for caller, begun in self._callers.items():
            if not begun and self._has_room(caller.source):
                self._callers[caller] = True
                self._start(caller)

    def _has_room(self, source: str) -> bool:
        served = [caller.source for caller, begun in self._callers.items() if begun]
        return len(served) < AT_A_TIME and served.count(source) < AT_A_TIME // 2

    def _start(self, caller: Caller) -> None:
        if caller.timer is not None:
            caller.timer.cancel()
        caller.timer = self._loop.call_later(PATIENCE, lambda: self._drop(caller))
        self._loop.add_writer(caller.fd, lambda: self._serve(caller, self._send))

    def _send(self, caller: Caller) -> bool:
        assert caller.line is not None
        self._loop.add_writer(caller.fd, lambda: self._serve(caller, self._flush))
        caller.line.send(contents.packed())
        return False

    def _flush(self, caller: Caller) -> bool:
        assert caller.line is not None
        caller.line.flush()
        if not caller.line.pending:
            self._loop.remove_writer(caller.fd)
        return False
