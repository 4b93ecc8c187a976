"""The events that a backend emits, always from the loop."""

from __future__ import annotations

from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from ..control.stream import FrameStream


class SessionStarted(NamedTuple):
    """A session was opened; its stream may begin with output of a login shell."""

    rank: int
    stream: FrameStream


class SessionsBegun(NamedTuple):
    """The node launchers of these nodes are being started, and will announce tokens."""

    ranks: tuple[int, ...]


class SessionOutput(NamedTuple):
    """A line printed by a session that is not a stream, or by a login shell in it."""

    rank: int
    text: str


class TokenAnnounced(NamedTuple):
    """A node launcher has announced the token with which it will dial.

    Attributes:
        rank: the rank of the node, according to the label that the engine or pdsh puts before its
            lines.
        node: the name in the announcement: the host's name, or INDEX@NAME with an engine.
    """

    rank: int
    node: str
    token: str


class SessionEnded(NamedTuple):
    """A node's session has ended, or could not be opened.

    Attributes:
        cause: the reason, "" for a normal end.
    """

    rank: int
    cause: str


class EngineEnded(NamedTuple):
    """The engine that started all nodes has ended; node launchers may still run.

    Attributes:
        code: the job's exit code if the end of the engine ends the job.
        killed: whether another process has killed the engine.
    """

    cause: str
    code: int
    killed: bool


class EngineOutput(NamedTuple):
    """A line for diagnosis: printed by an engine, or part of a traceback from paramiko."""

    text: str


class BackendWarning(NamedTuple):
    """A warning for the user, such as a new host key that was accepted."""

    text: str


if TYPE_CHECKING:
    BackendEvent: TypeAlias = (
        SessionStarted
        | SessionsBegun
        | SessionOutput
        | TokenAnnounced
        | SessionEnded
        | EngineEnded
        | EngineOutput
        | BackendWarning
    )
    Emit: TypeAlias = Callable[[BackendEvent], None]
