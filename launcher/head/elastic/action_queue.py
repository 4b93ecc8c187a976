"""Actions one after another, also where one of them leads to more."""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .round_actions import RoundAction


class ActionQueue:
    """Carries out actions in order.

    A line may turn out to be broken while it is used, which is a loss: what follows from it comes
    after the action, so that no node is told to leave a round of which it has not been told yet.
    """

    def __init__(self, act: Callable[[RoundAction], None]) -> None:
        self._act = act
        self._actions: deque[RoundAction] = deque()
        self._acting = False

    def add(self, actions: Iterable[RoundAction]) -> None:
        """Add actions, which `run` carries out."""
        self._actions.extend(actions)

    def run(self) -> None:
        """Carry out all actions; called by one of them, leave that to the call above."""
        if self._acting:
            return
        self._acting = True
        try:
            while self._actions:
                self._act(self._actions.popleft())
        finally:
            self._acting = False
