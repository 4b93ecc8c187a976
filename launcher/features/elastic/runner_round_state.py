"""The state of each node of a job, and the state of the current round."""

from __future__ import annotations

from enum import Enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from ...common.loop import Timer, Timers


class MemberState(Enum):
    """The state of a node that the job can count on, or that is on its way out.

    Attributes:
        STARTING: it has not been ready for a round since it connected.
        READY: it waits for a round.
        RUNNING: it is in one.
        LEAVING: it has been released, and has not ended yet.
    """

    STARTING = 1
    READY = 2
    RUNNING = 3
    LEAVING = 4


class NodeStates:
    """The state of each node; a lost node has none. Nodes that leave are not counted."""

    def __init__(self, nodes: int) -> None:
        self._state = dict.fromkeys(range(nodes), MemberState.STARTING)
        self._nodes: dict[MemberState, set[int]] = {state: set() for state in MemberState}
        self._nodes[MemberState.STARTING] |= self._state.keys()

    def __len__(self) -> int:
        return len(self._state) - len(self.leaving)

    def __contains__(self, node: int) -> bool:
        """Return whether a node is there."""
        return self._state.get(node, MemberState.LEAVING) is not MemberState.LEAVING

    @property
    def starting(self) -> AbstractSet[int]:
        """The nodes that have not been ready for a round yet."""
        return self._nodes[MemberState.STARTING]

    @property
    def ready(self) -> AbstractSet[int]:
        """The nodes that wait for a round."""
        return self._nodes[MemberState.READY]

    @property
    def running(self) -> AbstractSet[int]:
        """The nodes that are in a round."""
        return self._nodes[MemberState.RUNNING]

    @property
    def leaving(self) -> AbstractSet[int]:
        """The nodes that have been released."""
        return self._nodes[MemberState.LEAVING]

    def move(self, nodes: Iterable[int], state: MemberState) -> None:
        """Set the state of nodes."""
        for node in nodes:
            self.remove(node)
            self._state[node] = state
            self._nodes[state].add(node)

    def remove(self, node: int) -> None:
        """Remove a node, if it is there."""
        state = self._state.pop(node, None)
        if state is not None:
            self._nodes[state].discard(node)

    def clear(self) -> None:
        """Remove all but those that leave."""
        for node in [*self._state.keys() - self.leaving]:
            self.remove(node)


class RoundPhase(Enum):
    """The phase of a round.

    Attributes:
        RUNNING: no known event ends it.
        NOTICED: its nodes have been warned that it will end soon.
        ENDING: its nodes must leave it, and prepare for another round.
    """

    RUNNING = 1
    NOTICED = 2
    ENDING = 3


class CurrentRound:
    """One round.

    Attributes:
        began: the time of its start.
        nodes: its nodes at the start.
        finished: the nodes whose workers have all ended with code 0.
        failed: a failure in it was counted.
        shrunk: it has lost a node.
        undecided: the number of its failures that end the job, unless it has lost a node.
        watched: whether nodes outside of the round are being watched for readiness.
    """

    def __init__(self, nodes: Sequence[int] = (), began: float = 0.0) -> None:
        self.began = began
        self.nodes = frozenset(nodes)
        self.finished: set[int] = set()
        self.phase = RoundPhase.RUNNING
        self.failed = self.shrunk = self.watched = False
        self.undecided = 0
        self._timers: list[Timer] = []

    @property
    def complete(self) -> bool:
        """True if all its work is done."""
        return bool(self.nodes) and len(self.finished) == len(self.nodes)

    def await_losses(self, timers: Timers, seconds: float, known: Callable[[], None]) -> None:
        """Call `known` when all losses before the failure of a worker have been reported."""
        self.undecided += 1

        def resolve() -> None:
            self.undecided -= 1
            known()

        timers.call_later(seconds, resolve)

    def watch(self, timers: Timers, seconds: float, late: Callable[[], None]) -> None:
        """Call `late` after this number of seconds, unless the round is over by then."""
        self._timers.append(timers.call_later(seconds, late))

    def cancel(self) -> None:
        """Cancel all timers: another round has started, or none will."""
        for timer in self._timers:
            timer.cancel()
