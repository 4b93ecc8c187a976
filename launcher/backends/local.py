"""This machine: the node launcher is a child of the runner."""

from __future__ import annotations

import os

from . import base, causes
from .child import Child
from .stdio import SessionLine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..loop import Loop
    from ..plan import Node


class Local:
    """Starts the node launcher without ssh or any other tool."""

    transport = "stdio"

    def __init__(self, settings: base.Settings) -> None:
        self._settings = settings
        self._children: list[Child] = []

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why these nodes cannot be started this way, or ""."""
        return ""

    def commands(
        self, nodes: Sequence[Node], dial: base.Dial | None
    ) -> list[tuple[str, list[str]]]:
        """Return (host, argv) of every command this machine would run."""
        return [(node.host.name, self._argv()) for node in nodes]

    def start(
        self, nodes: Sequence[Node], loop: Loop, reports: base.Reports, dial: base.Dial | None
    ) -> None:
        """Start the node launcher of every node as a child."""
        for node in nodes:
            self._start(node.rank, loop, reports)

    def close(self) -> None:
        """Nothing to do: a node launcher ends with its line."""

    def _argv(self) -> list[str]:
        return base.node_argv(self._settings, "--stdio")

    def _start(self, rank: int, loop: Loop, reports: base.Reports) -> None:
        def ended(code: int, errors: str) -> None:
            reports.ended(rank, causes.explain_end(code, errors))

        try:
            child = Child(self._argv(), loop, ended, os.environ)
        except OSError as error:
            reports.ended(rank, f"{self._settings.python}: {error.strerror}")
            return
        self._children.append(child)
        reports.line(rank, SessionLine(child.stdout, child.stdin))
