"""What a backend tells whoever has started it: typed events, always from the loop."""

from __future__ import annotations

from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from ..control.stream import FrameStream


class SessionStarted(NamedTuple):
    """A session stands; its stream may still carry a login shell's noise first."""

    rank: int
    stream: FrameStream


class TokenAnnounced(NamedTuple):
    """A node launcher has announced the token that it will dial with.

    Attributes:
        node: as it calls itself: its host's name, or INDEX@NAME with an engine.
    """

    node: str
    token: str


class SessionEnded(NamedTuple):
    """A node's session is over, or never stood.

    Attributes:
        cause: in words, "" for an ordinary end.
    """

    rank: int
    cause: str


class EngineEnded(NamedTuple):
    """The engine that has started all nodes is over; node launchers may live on.

    Attributes:
        cause: in words.
        code: the exit code of a job that ends by it.
        killed: somebody has killed it.
    """

    cause: str
    code: int
    killed: bool


class EngineOutput(NamedTuple):
    """A line that only explains: an engine's own, or a traceback of an ssh library's."""

    text: str


class BackendWarning(NamedTuple):
    """What the user has to know, such as a new host key that was accepted."""

    text: str


if TYPE_CHECKING:
    BackendEvent: TypeAlias = (
        SessionStarted | TokenAnnounced | SessionEnded | EngineEnded | EngineOutput | BackendWarning
    )
    Emit: TypeAlias = Callable[[BackendEvent], None]
