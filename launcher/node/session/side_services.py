"""Commands and lanes of a session, beside its runs; imported for the first one."""

from __future__ import annotations

from ...control import command_messages, frames, messages
from .commands import Commands
from .lanes import Lanes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...common.loop import Loop
    from ...control.connection import Connection
    from .signal_deduplicator import SignalDeduplicator


class SideServices:
    """The commands and lanes of a session.

    Attributes:
        handlers: the handlers of the runner's frames for commands and lanes.
    """

    def __init__(
        self,
        loop: Loop,
        link: Connection,
        signals: SignalDeduplicator,
        ended: Callable[[], None],
    ) -> None:
        """Create without commands and lanes; `ended` is called whenever none is left."""
        self._ended = ended
        self._commands = Commands(loop, link.send, self._on_end)
        self._lanes = Lanes(loop, link, signals, self._on_end)
        self.handlers: dict[int, Callable[[bytes], None]] = {
            frames.EXEC: self._on_exec,
            frames.OPEN_LANE: self._lanes.on_open,
            frames.LANE: self._lanes.on_frame,
            **self._commands.handlers,
        }

    def _on_exec(self, body: bytes) -> None:
        self._commands.start(messages.unpack(command_messages.ExecCommand, body))

    @property
    def pids(self) -> set[int]:
        """The children of this process for commands and lanes, which belong to no run."""
        return self._commands.pids | self._lanes.pids

    @property
    def over(self) -> bool:
        """True if no command and no lane is left."""
        return self._commands.over and self._lanes.over

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        self._commands.on_reaped(reaped)
        self._lanes.on_reaped(reaped)

    def on_signal(self, number: int, *, delivered: bool, ends: bool) -> None:
        """Handle a scheduler's signal; see `Lanes.on_signal`."""
        self._lanes.on_signal(number, delivered=delivered, ends=ends)

    def close(self) -> None:
        """Stop all commands and lanes; `ended` is called after the last one."""
        self._commands.close()
        self._lanes.close()

    def _on_end(self) -> None:
        if self.over:
            self._ended()
