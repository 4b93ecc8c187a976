"""This machine: the node launcher is a child of the runner."""

from __future__ import annotations

import os
import sys

from . import base
from .child import Child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..common.loop import Loop
    from ..specs.plan import Node


class Local:
    """Starts the node launcher without ssh or any other tool."""

    transport = "stdio"

    def __init__(self, settings: base.Settings) -> None:
        self._settings = settings
        self._warm: dict[int, Child] = {}
        self._reports: base.Reports | None = None

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why these nodes cannot be started this way, or ""."""
        python = self._settings.python
        if python == sys.executable:
            return ""
        import shutil

        if shutil.which(python):
            return ""
        from ..common import executable

        why = executable.fault(python) if "/" in python else "there is no such program on PATH"
        return f"--python {python}: {why}; name a Python 3.10 or newer"

    def commands(
        self, nodes: Sequence[Node], dial: base.Dial | None
    ) -> list[tuple[str, list[str]]]:
        """Return (host, argv) of every command this machine would run."""
        argv = base.node_argv(self._settings, "--stdio")
        return [(node.host.name, argv) for node in nodes]

    def warm(self, nodes: Sequence[Node], loop: Loop) -> None:
        """Start the node launchers before `start` is called: they get ready meanwhile.

        A node launcher whose line closes before it has heard anything leaves by itself.

        Raises:
            OSError: the interpreter could not be started.
        """
        for node in nodes:
            self._warm[node.rank] = self._spawn(node.rank, loop)

    def start(
        self, nodes: Sequence[Node], loop: Loop, reports: base.Reports, dial: base.Dial | None
    ) -> None:
        """Start the node launcher of every node as a child."""
        from .stdio import SessionLine

        self._reports = reports
        for node in nodes:
            try:
                child = self._warm.pop(node.rank, None) or self._spawn(node.rank, loop)
            except OSError as error:
                reports.ended(node.rank, f"{self._settings.python}: {error.strerror}")
                continue
            reports.line(node.rank, SessionLine(child.stdout, child.stdin))

    def close(self) -> None:
        """Nothing to do: a node launcher ends with its line."""

    def _spawn(self, rank: int, loop: Loop) -> Child:
        def ended(code: int, errors: str) -> None:
            from . import causes

            if self._reports is not None:
                self._reports.ended(rank, causes.explain_end(code, errors))

        argv = base.node_argv(self._settings, "--stdio")
        return Child(argv, loop, ended, os.environ)
