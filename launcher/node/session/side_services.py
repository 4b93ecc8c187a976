"""What a session runs beside its runs: commands and lanes, imported when there is one."""

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
        handlers: what to do with the runner's frames about them.
    """

    def __init__(
        self,
        loop: Loop,
        link: Connection,
        signals: SignalDeduplicator,
        ended: Callable[[], None],
    ) -> None:
        """Begin with none; `ended` is called whenever none is left."""
        self._ended = ended
        self._commands = Commands(loop, link.send, self._on_end)
        self._lanes = Lanes(loop, link, signals, self._on_end)
        self.handlers: dict[int, Callable[[bytes], None]] = {
            frames.EXEC: self._on_exec,
            frames.LANE: self._lanes.on_frame,
            **self._commands.handlers,
        }

    def _on_exec(self, body: bytes) -> None:
        self._commands.start(messages.unpack(command_messages.ExecCommand, body))

    @property
    def pids(self) -> set[int]:
        """Their processes that are children of this one, which do not belong to any run here."""
        return self._commands.pids | self._lanes.pids

    @property
    def over(self) -> bool:
        """Whether none is left."""
        return self._commands.over and self._lanes.over

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        self._commands.on_reaped(reaped)
        self._lanes.on_reaped(reaped)

    def on_signal(self, number: int, *, delivered: bool, ends: bool) -> None:
        """Handle a scheduler's signal; see `Lanes.on_signal`."""
        self._lanes.on_signal(number, delivered=delivered, ends=ends)

    def close(self) -> None:
        """End all of them; `ended` is called when none is left."""
        self._commands.close()
        self._lanes.close()

    def _on_end(self) -> None:
        if self.over:
            self._ended()
