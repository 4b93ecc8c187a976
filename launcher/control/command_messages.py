"""The messages of commands on nodes and of lanes; `messages` packs and unpacks them."""

from __future__ import annotations

from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..specs.field_types import Code, Id, Size


class ExecCommand(NamedTuple):
    """EXEC: a command, which runs in addition to all other work on the node.

    Attributes:
        id: the number of the command on this control line.
        argv: texts as encoded by `environment.to_wire`.
        env: variables in addition to the node launcher's own, as in `NodeJob`.
        workdir: the folder that the command runs in, "" for the user's home.
        stdin: whether it gets EXEC_INPUT; else its standard input is /dev/null.
        seconds: the time after which it is stopped, 0 for never.
        credit: bytes of output that it may send at first.
        lease: seconds without a heartbeat of the runner after which it is stopped, if the node has
            not received a JOB yet.
        program: a program of dsrun, with `argv` as its arguments, or "".
    """

    id: Id
    argv: tuple[str, ...]
    env: dict[str, str]
    workdir: str
    stdin: bool
    seconds: float
    credit: Size
    lease: float
    program: str = ""


class CommandExit(NamedTuple):
    """EXEC_EXIT: a command has ended.

    Attributes:
        code: its exit code, or minus the number of the signal that ended it; 126 or 127 if it could
            not be started, as of a shell.
        hint: the reason, in words, or "".
    """

    id: Id
    code: Code
    hint: str


class OpenLane(NamedTuple):
    """OPEN_LANE: a lane whose node launcher runs in a container.

    Attributes:
        id: the number of the lane, whose LANE frames follow.
        entry: the words before the node launcher's arguments (`ContainerSpec.entry`).
    """

    id: Id
    entry: tuple[str, ...]


class LaneEnd(NamedTuple):
    """LANE_ENDED: the process of a further node launcher has ended.

    Attributes:
        errors: the end of its standard error.
    """

    id: Id
    code: Code
    errors: str
