"""What happens to a job, as `Job.events` tells it."""

from __future__ import annotations

from typing import TypeAlias

from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .report import Report


class Started(NamedTuple):
    """All nodes were ready, and the ranks are being started.

    Attributes:
        hosts: the names of the nodes in rank order.
        master: MASTER_ADDR and MASTER_PORT of the ranks.
    """

    job_id: str
    world_size: int
    hosts: tuple[str, ...]
    master: tuple[str, int]


class Output(NamedTuple):
    """A rank has written a line.

    The last one may have no end. Lines of more than 64 KiB come in pieces, as does all output with
    `lines=False`, and a piece may end within a character.

    Attributes:
        stream: 1 for standard output, 2 for standard error.
        data: the line with its end: a line feed, or a carriage return (of a progress bar).
    """

    rank: int
    stream: int
    data: bytes

    @property
    def text(self) -> str:
        """The data as text."""
        return self.data.decode("utf-8", "replace")


class Message(NamedTuple):
    """A line of dsrun's own.

    Attributes:
        level: debug, info, warning or error.
    """

    level: str
    text: str


class Exit(NamedTuple):
    """A rank has ended.

    Attributes:
        code: its exit code, or minus the number of the signal that ended it.
        stopped: whether it was being stopped, and did not fail by itself.
        hint: what its node knows about the cause, in words, or "".
    """

    rank: int
    host: str
    pid: int
    code: int
    stopped: bool
    hint: str


class Lost(NamedTuple):
    """A node is gone; with `survived` the job goes on without it."""

    host: str
    reason: str
    survived: bool


class Round(NamedTuple):
    """The ranks of an elastic job are started, for the first time or again.

    Attributes:
        number: the round, from 1 on.
        restarts: how often ranks were restarted after a failure.
        hosts: the nodes of the round.
    """

    number: int
    restarts: int
    world_size: int
    hosts: tuple[str, ...]


class Ended(NamedTuple):
    """The job is over."""

    report: Report


Event: TypeAlias = Started | Output | Message | Exit | Lost | Round | Ended
"""What an iterator of events returns."""

_SHAPES: dict[str, type[Any]] = {
    "JobStarted": Started,
    "RankExit": Exit,
    "NodeLost": Lost,
    "RoundBegan": Round,
    "Log": Message,
}


def from_json(message: dict[str, Any]) -> Event | None:
    """Return the event that a runner has sent, None if it is not for the user.

    Raises:
        TypeError: fields are missing or unknown.
    """
    fields = {name: _frozen(value) for name, value in message.items() if name != "event"}
    shape = _SHAPES.get(str(message.get("event")))
    event: Event | None = shape(**fields) if shape is not None else None
    return event


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
