"""What a node's rounds have done, as values: `RoundsState.step` returns them.

Those that the run carries out are events for it, and are in `events`.
"""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...control.messages import Start


class Send(NamedTuple):
    """Send the runner a frame."""

    frame: bytes


class FormRound(NamedTuple):
    """Tell the agent its place in a round of the runner's."""

    start: Start


class ChangeRound(NamedTuple):
    """Have the agent leave the present round for another one."""


class EndWorker(NamedTuple):
    """Tell the agent that a worker has ended, by its local rank."""

    local: int
    code: int


class EndWorkers(NamedTuple):
    """Tell the agent that nothing is left of the workers that were started last."""


class GiveNotice(NamedTuple):
    """Tell the workers that there will be another round soon."""


class EndNotice(NamedTuple):
    """Take the notice back; `WorkersGone` follows."""
