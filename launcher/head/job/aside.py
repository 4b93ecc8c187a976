"""Work that may wait for disks and programs, which a hold does beside its loop."""

from __future__ import annotations

from ...common import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop


def aside(loop: Loop, works: Sequence[Callable[[], object]], then: Callable[[], None]) -> None:
    """Call functions one after another in a thread, and `then` from the loop, whatever they raise.

    Without any, `then` is called at once.
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
