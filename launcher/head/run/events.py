"""The events of a run, for observers in the runner and, in part, for Python programs (`api`).

Imported only once there is an observer.
"""

from __future__ import annotations

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    from ...control import messages
    from ...control.activity_messages import Activity
    from ...control.round_messages import Ranks
    from ...specs.plan import Plan
    from ..report.ending import Ending
    from .run_node import RunNode

RESULT = 3
"""Stream number of the bytes, opaque here, that carry a rank's return value or exception."""


class Started(NamedTuple):
    """All nodes were ready, and their workers are being started.

    Attributes:
        hosts: the host names in rank order.
        master: MASTER_ADDR and MASTER_PORT of the workers.
        role: the name of the role, in a job of several roles launched by a program; else "".
    """

    job_id: str
    world_size: int
    hosts: tuple[str, ...]
    master: tuple[str, int]
    role: str = ""


class RanksStarted(NamedTuple):
    """The workers of a node are running."""

    host: str
    ranks: tuple[int, ...]


class RankOutput(NamedTuple):
    """Output that a worker has written to stream 1 (stdout) or 2 (stderr), or bytes of `RESULT`.

    A block may end in the middle of a line or of a character.
    """

    rank: int
    host: str
    stream: int
    data: bytes


class Exit(NamedTuple):
    """A worker has ended.

    Attributes:
        code: the exit code, or minus the number of the signal that ended the worker.
        stopped: whether dsrun was stopping the worker, so that it did not fail on its own.
        hint: the likely cause as the node sees it, in words; "" if unknown.
        role: as in `Started`.
    """

    rank: int
    host: str
    pid: int
    code: int
    stopped: bool
    hint: str
    role: str = ""


class Lost(NamedTuple):
    """A node is gone.

    Attributes:
        survived: whether the job continues without the node.
        role: as in `Started`.
    """

    host: str
    reason: str
    survived: bool
    role: str = ""


class Round(NamedTuple):
    """A round of an elastic job: its workers are started, for the first time or again.

    Attributes:
        number: the round, counted from 1.
        restarts: the number of restarts after failures.
        hosts: the hosts of the round; under torch's rendezvous, only this runner's.
        role: as in `Started`.
    """

    number: int
    restarts: int
    world_size: int
    hosts: tuple[str, ...]
    role: str = ""


class Alarm(NamedTuple):
    """A watch has found something wrong.

    Attributes:
        kind: the finding, as a word for programs: `hang`, `rule` or `slow`.
        then: the reaction: `report`, `stop` or `restart`.
        sentence: the finding in words, for people.
    """

    kind: str
    then: str
    sentence: str


class AlarmOver(NamedTuple):
    """The end of an alarm, for example because the job continues after a hang.

    Attributes:
        kind: as in `Alarm`.
        sentence: a description of the change, for people.
    """

    kind: str
    sentence: str


class CheckWarning(NamedTuple):
    """A finding of the quick check that does not prevent the start."""

    sentence: str


class JobEnded(NamedTuple):
    """The job is over, its nodes are released, and its user has read how it ended."""

    ending: Ending


class RanksActive(NamedTuple):
    """A node's report on its workers' activity; its interval depends on the watches in use."""

    host: str
    activity: Activity


if TYPE_CHECKING:
    RunEvent: TypeAlias = (
        Started
        | RanksStarted
        | RankOutput
        | Exit
        | Lost
        | Round
        | RanksActive
        | Alarm
        | AlarmOver
        | CheckWarning
        | JobEnded
    )
    Observer: TypeAlias = Callable[[RunEvent], None]


KEPT = (Started, RanksStarted, Exit, Lost, Round, Alarm, AlarmOver, CheckWarning)
"""The events that are written as JSON and kept, so that a run can be retold later."""


def from_json(message: dict[str, Any]) -> RunEvent | None:
    """Return the event that this JSON describes; None if it describes none of this version."""
    from ...control import frames, messages

    shape: Any = next((one for one in KEPT if one.__name__ == message.get("event")), None)
    if shape is None:
        return None
    fields = {name: value for name, value in message.items() if name != "event"}
    try:
        event: RunEvent = messages.from_fields(shape, fields)
    except frames.BadFrame:
        return None
    return event


def as_json(event: RunEvent) -> dict[str, Any]:
    """Return an event as a JSON object."""
    return {"event": type(event).__name__, **event._asdict()}


class Observers:
    """The observers of one run; the run calls a method for each event that they may see."""

    def __init__(self, do: Callable[[Observer, RunEvent], None]) -> None:
        """Start without observers; `do` postpones a call to the end of the run's current step."""
        self._observers: list[Observer] = []
        self._do = do

    def add(self, observer: Observer) -> None:
        """Call `observer` with every event from now on."""
        self._observers.append(observer)

    def tell(self, event: RunEvent) -> None:
        """Pass an event to all observers immediately."""
        for observe in self._observers:
            observe(event)

    def _tell(self, event: RunEvent) -> None:
        self._do(self.tell, event)

    def started(self, job_id: str, plan: Plan, master: tuple[str, int]) -> None:
        """Announce that the workers are being started, with this MASTER_ADDR and MASTER_PORT."""
        hosts = tuple(node.host.name for node in plan.nodes)
        self._tell(Started(job_id, plan.world_size or 0, hosts, master))

    def running(self, node: RunNode, ranks: Iterable[int]) -> None:
        """Announce that the workers of a node are running."""
        self._tell(RanksStarted(node.name, tuple(ranks)))

    def output(self, rank: int, node: RunNode, stream: int, data: bytes) -> None:
        """Pass on output of a worker."""
        self.tell(RankOutput(rank, node.name, stream, data))

    def exited(self, node: RunNode, ended: messages.WorkerExit) -> None:
        """Announce that a worker has ended."""
        stopped, hint = ended.signalled, ended.hint
        self._tell(Exit(ended.rank, node.name, ended.pid, ended.code, stopped, hint))

    def active(self, node: RunNode, activity: Activity) -> None:
        """Pass on a node's report on the activity of its workers."""
        self._tell(RanksActive(node.name, activity))

    def lost(self, node: RunNode, reason: str, *, survived: bool) -> None:
        """Announce that a node is lost."""
        self._tell(Lost(node.name, reason, survived))

    def round(self, number: int, place: Ranks | messages.Start, hosts: Iterable[str]) -> None:
        """Announce a round, given the place in the round of any one of its nodes."""
        self._tell(Round(number, place.restarts, place.world_size, tuple(hosts)))

    def warned(self, sentence: str) -> None:
        """Pass on a warning of the quick check."""
        self._tell(CheckWarning(sentence))

    def ended(self, ending: Ending) -> None:
        """Announce that the job is over."""
        self.tell(JobEnded(ending))
