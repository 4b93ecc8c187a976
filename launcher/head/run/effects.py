"""What a run has done in the world, as values.

`RunState.step` returns them; the loop carries them out once the step is over. Nodes are those of
the run.
"""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from ...specs.plan import Node, Plan
    from ..checks.compared_node import Outlier
    from .events import RunEvent
    from .run_node import RunNode


class Ask(NamedTuple):
    """Have this node get its JOB, which it answers with HELLO."""

    node: RunNode


class Send(NamedTuple):
    """Send these nodes a frame."""

    nodes: Sequence[RunNode]
    frame: bytes


class CloseLine(NamedTuple):
    """Close the connection to a node, for this reason: without one it ends its workers."""

    node: RunNode
    reason: str


class ExpectBeats(NamedTuple):
    """Expect heartbeats of this node from now on."""

    node: RunNode


class SendBeats(NamedTuple):
    """Send heartbeats to all nodes from now on, and check that theirs arrive."""


class ReachNode(NamedTuple):
    """Start the node launcher of a lost or an added node."""

    node: RunNode


class Unreached(NamedTuple):
    """A node could not be reached again, and is tried again."""

    node: RunNode


class Log(NamedTuple):
    """Print a message for the user."""

    text: str
    level: str = "info"


class Status(NamedTuple):
    """Show this as the line that replaces itself."""

    text: str


class Tell(NamedTuple):
    """Tell observers of an event."""

    event: RunEvent


class ListFiles(NamedTuple):
    """Find out which files differ between nodes; `FilesListed` follows, unless this is replaced."""

    nodes: Sequence[RunNode]
    outliers: Sequence[Outlier]


class CheckHealth(NamedTuple):
    """Run the health command on a node; `HealthChecked` follows."""

    node: RunNode


class CloseServices(NamedTuple):
    """Run no health command any more, and look for no other hosts."""


class ForwardInput(NamedTuple):
    """Forward standard input to this node."""

    node: RunNode


class Label(NamedTuple):
    """Label the output of the ranks of this plan from now on."""

    plan: Plan


class LabelNode(NamedTuple):
    """Label the output of the ranks of this node from now on, and of no others anew."""

    node: Node


class AllReady(NamedTuple):
    """All nodes are ready; `Start` starts their workers.

    Attributes:
        plan: the settled plan.
        master: MASTER_ADDR of the workers.
        port: MASTER_PORT.
    """

    plan: Plan
    master: str
    port: int


class AskAllocation(NamedTuple):
    """Ask Slurm whether the job's allocation has ended; `AllocationSeen` follows."""


class Suspend(NamedTuple):
    """Suspend this process, for Ctrl-Z."""


class ShowStacks(NamedTuple):
    """Print where the running ranks are."""


class Over(NamedTuple):
    """The run is over."""


if TYPE_CHECKING:
    Effect: TypeAlias = Any
