"""The events that a group of workers emits, always from the loop."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from .spawn import Process


class WorkerOutput(NamedTuple):
    """A worker has written to its stream 1 (stdout) or 2 (stderr), or 3 (its report)."""

    rank: int
    stream: int
    data: bytes


class Exited(NamedTuple):
    """A worker has ended; its process has the status."""

    process: Process


class OrphansStopped(NamedTuple):
    """Workers that succeeded have left processes, which are being stopped; `names` lists them."""

    names: str


class InputTaken(NamedTuple):
    """This many bytes of standard input were written to its worker, or dropped at its end."""

    size: int


class GroupEnded(NamedTuple):
    """Nothing of the group is left, except these pids, which cannot be ended from here."""

    left: list[int]


if TYPE_CHECKING:
    GroupEvent: TypeAlias = WorkerOutput | Exited | OrphansStopped | InputTaken | GroupEnded
    Emit: TypeAlias = Callable[[GroupEvent], None]
