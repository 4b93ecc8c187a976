"""What happens to the rounds of a job; nodes go by their number in the run."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias


class JobStarted(NamedTuple):
    """All nodes have answered.

    Attributes:
        first: the node that has the master port.
        address: where these others have reached it.
        reached: these others.
        owed: how many answers to probes from before the start each node still owes.
    """

    first: int
    address: str
    reached: Sequence[int]
    owed: Mapping[int, int]


class MemberConnected(NamedTuple):
    """A node is there, or there again. Accepted if a round can use it."""

    node: int


class NodeReady(NamedTuple):
    """A node is ready for a round; a member of the current round has left it."""

    node: int


class NodeLost(NamedTuple):
    """A node is gone. Accepted if the job goes on without it."""

    node: int


class NodeDone(NamedTuple):
    """A node has ended by itself, or because it was released. Accepted if the job goes on."""

    node: int


class NodeFinished(NamedTuple):
    """All workers of a node have ended with code 0 in the round of this number."""

    node: int
    generation: int


class NodeReached(NamedTuple):
    """A node has tried the addresses of a probe: "" for each that it reaches, or why not."""

    node: int
    verdicts: Sequence[str]


class NodeRemoved(NamedTuple):
    """A host is no longer on the list; or another one has the place of its lost node.

    Accepted if the job can do without its node, which is there, from now on.
    """

    node: int


class WorkerFailed(NamedTuple):
    """A worker has failed by itself. Accepted if the job goes on.

    If not, `EndJob` follows, or `ForgetFailures` if it turns out that a node was lost.

    Attributes:
        what: the failure, in words.
        code: its exit code.
        final: it is not worth a restart, whatever the budget is.
    """

    what: str
    code: int
    node: int
    final: bool


class AlertRestart(NamedTuple):
    """A watch wants all workers to be restarted. Accepted if there is a restart left."""

    why: str
    code: int


class WorkerPrinted(NamedTuple):
    """A worker of the current round has printed something: its round has started well."""


class SizeLimited(NamedTuple):
    """Rounds are to have at most so many nodes from now on."""

    most: int


class NodeVanishing(NamedTuple):
    """A node is about to be lost; in how many seconds its workers have ended, whatever happens."""

    node: int
    seconds: float


class WorkersGone(NamedTuple):
    """The workers of a node, which may be lost, are known to have ended."""

    node: int


class NodesChecked(NamedTuple):
    """The health command has passed on a node."""


class JobStopped(NamedTuple):
    """The job is being stopped: there is no other round."""


class RoundTimePassed(NamedTuple):
    """Nothing has happened, but something is due."""


if TYPE_CHECKING:
    RoundEvent: TypeAlias = (
        JobStarted
        | MemberConnected
        | NodeReady
        | NodeLost
        | NodeDone
        | NodeFinished
        | NodeReached
        | NodeRemoved
        | WorkerFailed
        | AlertRestart
        | WorkerPrinted
        | SizeLimited
        | NodeVanishing
        | WorkersGone
        | NodesChecked
        | JobStopped
        | RoundTimePassed
    )
