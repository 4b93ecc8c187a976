"""Slow work of the runner (disks, other programs) in a thread, off the event loop."""

from __future__ import annotations

from . import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .loop import Loop


def in_thread(loop: Loop, works: Sequence[Callable[[], object]], then: Callable[[], None]) -> None:
    """Call functions in a thread, one after another; then call `then` from the loop.

    `then` is called even after an error; without functions, at once.
    """
    if not works:
        then()
        return
    loop.open_to_threads()

    def work() -> None:
        try:
            for call in works:
                call()
        finally:
            loop.call_soon_threadsafe(then)

    system.thread(work, "aside")
