"""The backend for this machine: the node launcher is a child of the runner."""

from __future__ import annotations

import os
import sys

from ..common.errors import NodeError, UsageError, is_full, limit_met, reason
from . import base
from .child import KEPT, Child, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..common.loop import Loop
    from ..specs.backend import BackendSettings
    from ..specs.plan import Node
    from .child import StartedChild
    from .events import Emit
    from .stdio import SessionStream


class Local:
    """Starts the node launcher without ssh or any other tool."""

    transport = "stdio"

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._prepared: dict[int, StartedChild] = {}
        self._children: dict[int, Child] = {}

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why the node launchers cannot be started, or ""."""
        python = self._settings.python
        if python == sys.executable:
            return ""
        from ..common import executable

        if executable.find(python):
            return ""
        why = executable.fault(python) if "/" in python else "no such program on PATH"
        return _misnamed(python, why)

    def commands(
        self, nodes: Sequence[Node], dial: base.DialBack | None
    ) -> list[base.StartCommand]:
        """Return every command that this machine would run."""
        return [base.StartCommand(self._argv(), [node.host.name]) for node in nodes]

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Start the node launchers before `start` is called, which gives them time to get ready.

        A node launcher exits if its line closes before it has received anything.

        Raises:
            UsageError: the interpreter cannot be started.
            NodeError: this machine cannot start more processes, or open more files.
        """
        from . import prefork

        argv = self._argv()
        try:
            forks = prefork.is_possible(argv[0])
            for node in nodes:
                started = prefork.fork(argv) if forks else spawn(argv, os.environ)
                self._prepared[node.rank] = started
        except OSError as error:
            if is_full(error):
                why = f"{reason(error)}{limit_met(error)}"
                raise NodeError(f"cannot start a process: {why}") from None
            raise UsageError(_misnamed(argv[0], reason(error))) from None

    def start(
        self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.DialBack | None
    ) -> None:
        """Start the node launcher of every node as a child."""
        from .events import SessionEnded, SessionStarted
        from .stdio import SessionStream

        for node in nodes:
            try:
                started = self._prepared.pop(node.rank, None) or spawn(self._argv(), os.environ)
            except OSError as error:
                emit(SessionEnded(node.rank, f"{self._settings.python}: {reason(error)}"))
                continue
            stream = SessionStream(
                started.stdout, started.stdin, held=bool(self._settings.container)
            )
            on_end = self._on_end(node, stream, emit)
            self._children[node.rank] = Child(started, loop, on_end, _keeping(stream))
            emit(SessionStarted(node.rank, stream))

    def close(self) -> None:
        """Do nothing: a node launcher exits when its line closes."""

    def _argv(self) -> list[str]:
        return base.node_argv(self._settings, "--stdio")

    def _on_end(self, node: Node, stream: SessionStream, emit: Emit) -> Callable[[int, str], None]:
        def ended(code: int, errors: str) -> None:
            from . import causes
            from .events import SessionEnded

            if self._children[node.rank].code is None:
                return  # another process has taken its place
            tried = causes.attempt(node.host, self._settings.python)._replace(login=False)
            noise, answered = stream.noise, stream.answered
            cause = causes.explain_session(code, errors, noise, tried, answered=answered)
            emit(SessionEnded(node.rank, cause))

        return ended


def _keeping(stream: SessionStream) -> Callable[[bytes], None]:
    """Return a function that adds standard error to its session."""

    def keep(data: bytes) -> None:
        stream.errors = (stream.errors + data)[-KEPT:]

    return keep


def _misnamed(python: str, why: str) -> str:
    return f"--python {python}: {why}; name a Python 3.10 or newer"
