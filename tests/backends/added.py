"""Backends that are not part of dsrun: a shell on this machine, and an engine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from dsrun.launcher.backends import base
from dsrun.launcher.backends.child import Child, spawn
from dsrun.launcher.backends.engines.base import Engine
from dsrun.launcher.backends.events import SessionEnded, SessionStarted
from dsrun.launcher.backends.stdio import SessionStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.backends.engines.base import Argument, Placement
    from dsrun.launcher.backends.events import Emit
    from dsrun.launcher.common.loop import Loop
    from dsrun.launcher.specs.backend import BackendSettings
    from dsrun.launcher.specs.plan import Node


class Shell:
    """Starts `sh` for each node, whatever the name of its host is."""

    transport: Literal["stdio"] = "stdio"

    def __init__(self, settings: BackendSettings) -> None:
        line = base.shell_line(base.node_argv(settings, "--stdio"))
        self._argv = ["sh", "-c", f"echo hello from a shell; {line}"]

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return no problem."""
        return ""

    def commands(
        self, nodes: Sequence[Node], dial: base.DialBack | None
    ) -> list[base.StartCommand]:
        """Return every command this machine would run."""
        return [base.StartCommand(self._argv, [node.host.name]) for node in nodes]

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Do nothing: an early start saves no time."""

    def start(
        self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.DialBack | None
    ) -> None:
        """Start a shell for each node."""
        for node in nodes:
            self._start(node.rank, loop, emit)

    def close(self) -> None:
        """Do nothing: a node launcher exits when its line closes."""

    def _start(self, rank: int, loop: Loop, emit: Emit) -> None:
        def ended(code: int, errors: str) -> None:
            emit(SessionEnded(rank, errors if code else ""))

        child = Child(spawn(self._argv, os.environ), loop, ended)
        emit(SessionStarted(rank, SessionStream(child.stdout, child.stdin)))


class Prun(Engine):
    """An engine whose program is `prun`."""

    tools = ("prun",)
    label = "task ([0-9]+): "

    def arguments(self, places: Sequence[Placement]) -> list[Argument]:
        """Return one argument: each host with its tasks."""
        return [("--on", ",".join(f"{place.host}*{place.tasks}" for place in places))]
