"""What happens in a run, for observers inside the runner, and in part for programs (`api`).

Imported only once there is an observer.
"""

from __future__ import annotations

from ...common.values import NamedTuple

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
"""The stream of a rank that carries what its function has returned or raised, as opaque bytes."""


class Started(NamedTuple):
    """All nodes were ready, and their workers are being started.

    Attributes:
        hosts: the names of the nodes in rank order.
        master: MASTER_ADDR and MASTER_PORT of the workers.
        role: of a job of several roles that a program has launched: its name; "" for any other.
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
    """A worker has written to its stream 1 (stdout) or 2 (stderr); or `data` is of its `RESULT`.

    Blocks are as they were read, and may end within a line or a character.
    """

    rank: int
    host: str
    stream: int
    data: bytes


class Exit(NamedTuple):
    """A worker has ended.

    Attributes:
        code: its exit code, or minus the number of the signal that ended it.
        stopped: whether it was being stopped, and did not fail by itself.
        hint: what its node knows about the cause, in words, or "".
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
        survived: whether the job goes on without it.
        role: as in `Started`.
    """

    host: str
    reason: str
    survived: bool
    role: str = ""


class Round(NamedTuple):
    """The workers of an elastic job are started, for the first time or again.

    Attributes:
        number: the round, from 1 on.
        restarts: how often workers were restarted after a failure.
        hosts: the nodes of the round; if torch's rendezvous forms it, only those of this runner.
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
        kind: what, as a word for programs: `hang`, `rule` or `slow`.
        then: what follows, `report`, `stop` or `restart`.
        sentence: what was found, for people.
    """

    kind: str
    then: str
    sentence: str


class AlarmOver(NamedTuple):
    """What a watch has found wrong is so no more: after a hang, the job goes on.

    Attributes:
        kind: as in `Alarm`.
        sentence: what has happened, for people.
    """

    kind: str
    sentence: str


class CheckWarning(NamedTuple):
    """The quick check has found something for which the start is not refused."""

    sentence: str


class JobEnded(NamedTuple):
    """The job is over; its nodes are released, and its user has been told."""

    ending: Ending


class RanksActive(NamedTuple):
    """A node has reported what its workers do; how often depends on what is watched."""

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
"""The events that JSON has, and from which what happened can be told later, beside the output."""


def from_json(message: dict[str, Any]) -> RunEvent | None:
    """Return one of these events from JSON; None if it is none, or not of this version."""
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
    """Return an event as JSON has it."""
    return {"event": type(event).__name__, **event._asdict()}


class Observers:
    """The observers of one run; the run calls a method here for everything that they may see."""

    def __init__(self, do: Callable[[Observer, RunEvent], None]) -> None:
        """Begin without observers; `do` has them told once a step of the run is over."""
        self._observers: list[Observer] = []
        self._do = do

    def add(self, observer: Observer) -> None:
        """Call `observer` with every event from now on."""
        self._observers.append(observer)

    def tell(self, event: RunEvent) -> None:
        """Pass an event to all observers at once."""
        for observe in self._observers:
            observe(event)

    def _tell(self, event: RunEvent) -> None:
        self._do(self.tell, event)

    def started(self, job_id: str, plan: Plan, master: tuple[str, int]) -> None:
        """Tell that the workers are being started, with this MASTER_ADDR and MASTER_PORT."""
        hosts = tuple(node.host.name for node in plan.nodes)
        self._tell(Started(job_id, plan.world_size or 0, hosts, master))

    def running(self, node: RunNode, ranks: Iterable[int]) -> None:
        """Tell that the workers of a node are running."""
        self._tell(RanksStarted(node.name, tuple(ranks)))

    def output(self, rank: int, node: RunNode, stream: int, data: bytes) -> None:
        """Tell what a worker has written."""
        self.tell(RankOutput(rank, node.name, stream, data))

    def exited(self, node: RunNode, ended: messages.WorkerExit) -> None:
        """Tell that a worker has ended."""
        stopped, hint = ended.signalled, ended.hint
        self._tell(Exit(ended.rank, node.name, ended.pid, ended.code, stopped, hint))

    def active(self, node: RunNode, activity: Activity) -> None:
        """Tell what the workers of a node do."""
        self._tell(RanksActive(node.name, activity))

    def lost(self, node: RunNode, reason: str, *, survived: bool) -> None:
        """Tell that a node is gone."""
        self._tell(Lost(node.name, reason, survived))

    def round(self, number: int, place: Ranks | messages.Start, hosts: Iterable[str]) -> None:
        """Tell that a round begins, given what one of its nodes has as its place in it."""
        self._tell(Round(number, place.restarts, place.world_size, tuple(hosts)))

    def warned(self, sentence: str) -> None:
        """Tell what the quick check warns of."""
        self._tell(CheckWarning(sentence))

    def ended(self, ending: Ending) -> None:
        """Tell that the job is over."""
        self.tell(JobEnded(ending))
