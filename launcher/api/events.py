"""The events of a job, as yielded by `Job.events`."""

from __future__ import annotations

from typing import TypeAlias

from ..common.records import NamedTuple
from ..head.run.events import Exit, Lost, Round, Started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .report import Report


class Output(NamedTuple):
    """A rank has written a line.

    The last line may lack its end. Lines of over 64 KiB come in pieces, as does all output with
    `lines=False`, and a piece may end within a character.

    Attributes:
        stream: 1 for standard output, 2 for standard error.
        data: the line with its end: a line feed, or a carriage return (of a progress bar).
        role: the role of the rank, "" in a job of one program.
    """

    rank: int
    stream: int
    data: bytes
    role: str = ""

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


class Ended(NamedTuple):
    """The job is over."""

    report: Report


Event: TypeAlias = Started | Output | Message | Exit | Lost | Round | Ended
"""An item of an iterator of events."""

_SHAPES: dict[str, type[Any]] = {
    **{shape.__name__: shape for shape in (Started, Exit, Lost, Round)},
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
