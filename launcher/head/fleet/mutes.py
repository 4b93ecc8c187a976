"""Sessions without a sign of a node launcher: they are reported, and later given up.

A start-up file of a login shell may have executed another program, or the shell waits for input.
"""

from __future__ import annotations

from ...common.text import one_line
from .hosts import by_cause
from .node_connection import ConnectionState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .node_connection import NodeConnection

TOLD_AFTER = 10.0
"""Seconds without a sign of any node launcher until a line reports the silent ones."""

SHOWN = 200
"""Characters of a session's last output that are shown."""

ADVICE = "does a start-up file of its shell run another program?"


class MuteNodes:
    """Nodes whose sessions run without a sign of the node launcher.

    While some nodes still give their first sign, the others are expected as well: an engine may
    take long for thousands of hosts.

    Attributes:
        pause: seconds until the next look.
    """

    pause = 1.0

    def __init__(self, limit: float, log: Callable[[str], None], engine: Callable[[], str]) -> None:
        """Give up nodes after this time.

        Args:
            limit: the time in seconds.
            log: prints a line that reports the nodes before that.
            engine: returns the last output of an engine that belongs to no node.
        """
        self._limit, self._log, self._engine = limit, log, engine
        self._told: set[NodeConnection] = set()
        self._mute: set[NodeConnection] = set()
        self._last_sign = 0.0

    def check(self, now: float, nodes: Iterable[NodeConnection]) -> dict[str, list[NodeConnection]]:
        """Check the awaited nodes; return those to give up, by cause.

        `now` is on the clock of `Starting.begun`.
        """
        since = {node: begun for node in nodes if (begun := _mute_since(node)) is not None}
        if any(_mute_since(node) is None and not node.lost for node in self._mute):
            self._last_sign = now
        self._mute = {*since}
        silent = {node: now - max(begun, self._last_sign) for node, begun in since.items()}
        self._tell([n for n, long in silent.items() if long >= TOLD_AFTER and n not in self._told])
        causes: dict[str, list[NodeConnection]] = {}
        for node, seconds in silent.items():
            if seconds >= self._limit:
                why = f"no sign of its node launcher for {self._limit:g} s (--start_timeout)"
                causes.setdefault(f"{why}{self._printed(node)}; {ADVICE}", []).append(node)
        return causes

    def _tell(self, nodes: list[NodeConnection]) -> None:
        self._told.update(nodes)
        why = f"no sign of its node launcher for {TOLD_AFTER:g} s"
        for line in by_cause({node.name: f"{why}{self._printed(node)}" for node in nodes}):
            self._log(line)

    def _printed(self, node: NodeConnection) -> str:
        """Return the output so far, in words; it is not a sign."""
        own, engine = node.starting.said.strip(), self._engine().strip()
        text = own or engine
        shown = one_line(text if len(text) <= SHOWN else f"...{text[-SHOWN:]}")
        who = "its session printed" if own or not engine else "so far"
        return f"; {who}: {shown}" if shown else f"; {who} nothing"


def _mute_since(node: NodeConnection) -> float | None:
    """Return the start of silence of a node launcher; None if it gave a sign, or is lost."""
    return None if node.state is ConnectionState.LOST else node.starting.mute_since
