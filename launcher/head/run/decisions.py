"""What a restart policy, or somebody outside, wants of a run: values for its next step."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...common.errors import DsrunError
    from ...control.messages import Start as StartMessage
    from ...control.round_messages import Ranks
    from ...specs.host import Host
    from ...specs.plan import Plan
    from .run_node import RunNode


class Begin(NamedTuple):
    """Send JOB to every connected node; the others get it when they connect."""


class StartRun(NamedTuple):
    """Start the workers: the plan, MASTER_ADDR and MASTER_PORT are those of `effects.Ready`."""

    plan: Plan
    master: str
    port: int


class CallOff(NamedTuple):
    """Give up the start for this reason; if the program is running already, only warn."""

    reason: str


class FailStart(NamedTuple):
    """A node cannot take part in the start, or in the rounds of an elastic job."""

    node: RunNode
    cause: str


class Refuse(NamedTuple):
    """End the run with this error instead of a report."""

    error: DsrunError


class StopAll(NamedTuple):
    """Stop every node; a second one passes on its signal, and can shorten the grace.

    Attributes:
        number: the signal for the workers.
        grace: seconds; None for that of the job.
    """

    number: int
    grace: float | None = None


class GiveUp(NamedTuple):
    """Stop the run for what a watch has found; the rest is as in `JobRecord.gave_up`."""

    reason: str
    code: int
    words: str
    sign: str


class Restart(NamedTuple):
    """Restart all workers, which counts as a failure.

    Attributes:
        why: the reason.
        otherwise: what follows if there is no restart left.
    """

    why: str
    otherwise: GiveUp


class Resize(NamedTuple):
    """Form rounds of at most so many nodes from now on."""

    nodes: int


class ListHosts(NamedTuple):
    """Use these hosts and no others: reach new ones, and release the others."""

    hosts: Sequence[Host]


class ReplaceHost(NamedTuple):
    """Have a host in later rounds in place of a node that is lost, given the name of that."""

    lost: str
    host: Host


class BeginRound(NamedTuple):
    """Workers begin in another round: how those of earlier ones have ended does not count.

    Attributes:
        number: of the round.
        place: what one of its nodes has as its place in it.
        nodes: those of the round that are known here.
    """

    number: int
    place: Ranks | StartMessage
    nodes: Sequence[RunNode]


class FormRound(NamedTuple):
    """Workers begin in a round of dsrun's own.

    Attributes:
        nodes: of the round, in the order of their ranks.
        plan: which of them has which ranks.
        master: MASTER_ADDR.
        port: MASTER_PORT.
        number: of the round.
        restarts: how many failures there were so far.
        most: how many there may be.
    """

    nodes: Sequence[RunNode]
    plan: Plan
    master: str
    port: int
    number: int
    restarts: int
    most: int


class Release(NamedTuple):
    """A node is not needed any more, and is to end."""

    node: RunNode


class DropStart(NamedTuple):
    """A node is to be reached again: the START that is kept back for it is not sent."""

    node: RunNode


class Admit(NamedTuple):
    """A node has come that was not in the run, or that is back: it waits for a round."""

    node: RunNode


class RecordLoss(NamedTuple):
    """This is why the run ends, as of now."""

    host: str
    reason: str


class RecordGivenUp(NamedTuple):
    """The run ends as there are too few nodes, for this reason."""

    reason: str


class SetError(NamedTuple):
    """The run ends with this error instead of a report, once it has ended."""

    error: DsrunError


class Lose(NamedTuple):
    """Go on without a node that is gone, or stop the run if it cannot.

    Attributes:
        over: nothing more is expected of it.
        explained: the reason is the cause, and not only what was seen of it.
    """

    node: RunNode
    reason: str
    over: bool = True
    explained: bool = True


class End(NamedTuple):
    """End the run, once backends have had time to report why connections have ended."""


class EndWhenOver(NamedTuple):
    """End the run if nothing more is expected of any node."""


class Abandon(NamedTuple):
    """End the run without waiting for its nodes."""


class EndSignal(NamedTuple):
    """A signal has arrived that ends the run; `why` is told in its place if nobody has sent it."""

    number: int
    why: str = ""


class OtherSignal(NamedTuple):
    """A signal has arrived that does not end the run."""

    number: int


class SignalRanks(NamedTuple):
    """Every worker is to get a signal, whatever it does to them."""

    number: int


class OutputBroken(NamedTuple):
    """The reader of the run's output has gone."""


class Compare(NamedTuple):
    """All nodes have sent HELLO, and are to be compared."""

    nodes: Sequence[RunNode]


class FilesListed(NamedTuple):
    """It is known which files differ between nodes, by the name of the first node of a kind."""

    nodes: Sequence[RunNode]
    files: Mapping[str, list[str]]


class Printed(NamedTuple):
    """A worker has printed something."""

    node: RunNode
    rank: int


class HealthChecked(NamedTuple):
    """The health command has run on a node; `why` it may not take part, "" if it may."""

    node: RunNode
    why: str


class AllocationSeen(NamedTuple):
    """Slurm has answered: how the job's allocation has ended, in words, "" if that is not known."""

    end: str


class TimePassed(NamedTuple):
    """Nothing has happened, but something is due."""
