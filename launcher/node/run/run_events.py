"""What happens in a run on a node, and what is done of it, as values.

`RunState.step` gets the former and returns the latter. Events of rounds are in `elastic/events`.
"""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...control.messages import Start
    from ..workers.group import FailureDetails
    from ..workers.spawn import Process

# -- events -----------------------------------------------------------------------------------


class Started(NamedTuple):
    """The runner has sent START.

    Attributes:
        start: what it has sent.
        looks: whether to look for what jobs that have ended have left.
    """

    start: Start
    looks: bool = False


class Requested(NamedTuple):
    """The agent has requested the workers of a round."""

    start: Start


class RoundStopped(NamedTuple):
    """The workers of a round are to be stopped: the signal, and the seconds until SIGKILL."""

    number: int
    grace: float


class Stopped(NamedTuple):
    """The workers are to be stopped, and no others are to be started.

    Attributes:
        number: the signal for them.
        grace: seconds until SIGKILL.
        reason: why, if that is not the runner's.
        delivered: whether the workers have already got the signal.
    """

    number: int
    grace: float
    reason: str = ""
    delivered: bool = False


class Signalled(NamedTuple):
    """The workers are to get a signal, and go on."""

    number: int


class Preloaded(NamedTuple):
    """These workers can be started without waiting."""

    start: Start


class Due(NamedTuple):
    """These workers are to be started now, unless the run was stopped."""

    start: Start


class NotStarted(NamedTuple):
    """A worker could not be started; those before it run.

    Attributes:
        start: the workers that were to be started.
        rank: of the first one that was not.
        reason: why.
    """

    start: Start
    rank: int
    reason: str


class WorkerEnded(NamedTuple):
    """A worker has ended, with this code."""

    process: Process
    code: int


class GroupEnded(NamedTuple):
    """Nothing is left of a group of workers.

    Attributes:
        left: pids that cannot be ended from here.
        may_stay: whether what the workers have left running may stay.
        failed: whether any failed by itself, or had raised an exception before it was stopped.
    """

    left: list[int]
    may_stay: bool
    failed: bool


class FailuresFound(NamedTuple):
    """It is known what failed workers have left."""

    details: FailureDetails


class RoundsClosed(NamedTuple):
    """The agent has been told to end, and no notice is left."""


class PreloaderGone(NamedTuple):
    """What no later run needs of the preloader is gone."""


class Input(NamedTuple):
    """The runner has sent standard input; b"" is its end."""

    data: bytes


class Closed(NamedTuple):
    """Another run takes the place of this one."""


# -- effects ----------------------------------------------------------------------------------


class BeginRounds(NamedTuple):
    """Start the agent of an elastic job."""

    start: Start


class Preload(NamedTuple):
    """Have the preloader get ready for these workers; `Preloaded` follows."""

    start: Start


class CancelPreload(NamedTuple):
    """Start no worker from the preloader any more."""


class Settle(NamedTuple):
    """Act on signals that wait for each other, which may stop the run; `Due` follows."""

    start: Start


class StartGroup(NamedTuple):
    """Start the workers, and pass this standard input; `NotStarted` follows if one cannot be."""

    start: Start
    input: Sequence[bytes]


class LookForLeftovers(NamedTuple):
    """Look for what jobs that have ended have left: it reads all of /proc."""


class StopGroup(NamedTuple):
    """Stop the workers; the rest is as in `Stopped`."""

    number: int
    grace: float
    delivered: bool


class SignalGroup(NamedTuple):
    """Pass a signal to every worker."""

    number: int


class Feed(NamedTuple):
    """Pass standard input to the worker that reads it."""

    data: bytes


class ReportExit(NamedTuple):
    """Tell the runner how a worker has ended, and why, as far as is known."""

    process: Process
    code: int


class ReportNotStarted(NamedTuple):
    """Tell the runner of a worker that was not started."""

    rank: int
    reason: str


class EndInRound(NamedTuple):
    """Tell the agent that a worker has ended."""

    rank: int
    code: int


class NoneInRound(NamedTuple):
    """Tell the agent that no worker of its round was started: this signal has stopped them."""

    number: int


class EndRound(NamedTuple):
    """Tell the agent that this round's workers are gone."""


class StopRounds(NamedTuple):
    """Have the agent ask for no other round."""


class FindFailures(NamedTuple):
    """Read what failed workers have left; `FailuresFound` follows."""


class CloseRounds(NamedTuple):
    """End the agent; `RoundsClosed` follows."""


class KillAgent(NamedTuple):
    """End all that the agent has started; `GroupEnded` follows."""


class EndPreloader(NamedTuple):
    """End what no later run needs of the preloader; `PreloaderGone` follows."""


class Release(NamedTuple):
    """Release all that was reserved or opened for the run."""


class ReportEnd(NamedTuple):
    """Release all that was reserved or opened for the run, and tell the runner that it has ended.

    Attributes:
        left: pids that could not be ended.
        details: of workers that failed by themselves.
        reason: why the run has ended, if that is not the runner's.
    """

    left: list[int]
    details: FailureDetails
    reason: str
