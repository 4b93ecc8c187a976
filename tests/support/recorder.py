"""Calls in the place of what they would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Recorder:
    """Has every method, and records its calls in order: the name, then the arguments.

    `one.group.stop(15, delivered=True)` is recorded as `("group.stop", 15, True)`.

    Attributes:
        calls: what has been called.
    """

    def __init__(self, calls: list[Any] | None = None, prefix: str = "") -> None:
        """Record in this list, with this before every name."""
        self.calls: list[Any] = [] if calls is None else calls
        self._name = prefix

    def __getattr__(self, name: str) -> Any:
        """Return a method, or an object that has every method."""
        return Recorder(self.calls, f"{self._name}.{name}".removeprefix("."))

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Record a call."""
        self.calls.append((self._name, *args, *kwargs.values()))

    def after(self, happened: Callable[..., object], *args: object, **kwargs: object) -> list[Any]:
        """Make a call, and return what is called of it, and not yet returned."""
        happened(*args, **kwargs)
        calls = [*self.calls]
        self.calls.clear()
        return calls
