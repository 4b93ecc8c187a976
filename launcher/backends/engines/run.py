"""One run of an engine; its output is read for tokens and kept for error messages."""

from __future__ import annotations

import os
import re
import signal

from ...common.errors import LOST, SWEPT
from .. import causes
from ..child import signal_all
from ..dial_command import DialCommand, unlabelled
from ..events import (
    BackendWarning,
    EngineEnded,
    EngineOutput,
    SessionEnded,
    SessionOutput,
    SessionsBegun,
    TokenAnnounced,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...common.loop import Loop
    from ...specs.plan import Node
    from ..events import Emit
    from .base import Engine

EXIT_TIMEOUT = 2.0
"""Seconds for an engine to end after the last of its node launchers."""

TERM_INTERVAL = 0.5
"""Seconds between one SIGTERM and the next."""

KILL_TIMEOUT = 2.0
"""Seconds between the last SIGTERM and SIGKILL for an engine that does not end."""

KEPT_LINES = 64
"""Lines of an engine's own output that are kept."""

SHOWN_LINES = 4
"""Lines of these, from the first on, that a message shows."""

NO_REASON = "bstrap_proxy"
"""Part of a line of Intel MPI that names a host, but no reason."""

UNREACHABLE = re.compile(
    r"^ssh: |Permission denied \(|[Hh]ost key|HOST IDENTIFICATION|exchange_identification"
    r"|execvp error|Unable to run bstrap_proxy on"
)
"""Messages of an engine's ssh, or of its agent, about a host named in that line.

MPICH 4 prints nothing else, and waits forever.
"""


SHELL_ERROR = re.compile(
    r"^fish: (?!Unknown command)"
    r"|\b(?:orted|prted|hydra_[a-z_]*proxy|pmi_proxy)\b.*"
    r"(?:not found|No such file|Permission denied|Unknown command)"
)
"""Messages of a login shell that rejects an engine's command for a host, or lacks its agent.

fish rejects any command line that is not in its own syntax. If a message is about its files, fish
names them and continues. Engines wait forever for such a host.
"""


class EngineRun:
    """An engine's process, and its output."""

    def __init__(
        self, engine: Engine, argv: Sequence[str], nodes: Sequence[Node], loop: Loop, emit: Emit
    ) -> None:
        """Start the command.

        Raises:
            OSError: the command could not be started.
        """
        self._engine = engine
        self._nodes = nodes
        self._tasks = engine.tasks(nodes)
        self._announced = 0
        self._tool = os.path.basename(argv[0])
        self._emit = emit
        self._reported = self._cleaned_up = self._killed_here = False
        self._lines: list[str] = []
        self._child = DialCommand(argv, engine.environ(), loop, self, engine.label).child
        self._begun = False
        if not engine.queues:
            self._tell_start()

    def close(self) -> None:
        """Wait for the engine to end; then send SIGTERM, which engines pass on, and SIGKILL.

        An engine that has not started every task does not end on its own. Nor does one that has
        lost a host: its ssh client waits forever, and Open MPI gives up at the third signal
        (`abort_signal_callback` of its orterun.c). Hydra ends without its ssh client.
        """
        child = self._child
        agents = child.open_children()
        if not child.wait(EXIT_TIMEOUT if self._all_announced() else 0.0):
            child.send_signal(signal.SIGTERM)
        for _ in range(2):
            if not child.wait(TERM_INTERVAL):
                signal_all(child.open_children(), signal.SIGTERM)
                child.send_signal(signal.SIGTERM)
        if not child.wait(KILL_TIMEOUT):
            self._killed_here = True
            child.send_signal(signal.SIGKILL)
            child.wait(KILL_TIMEOUT)
        signal_all(agents, signal.SIGTERM)
        if child.code:
            self.on_end(child.code, "")

    def on_token(self, speaker: str, node: str, token: str) -> None:
        """Emit a token."""
        self._tell_start()
        for task in self._of(speaker):
            self._announced += 1
            self._emit(TokenAnnounced(task.rank, node, token))

    def _tell_start(self) -> None:
        """Report, once, that node launchers are being started."""
        if not self._begun:
            self._begun = True
            self._emit(SessionsBegun(tuple(node.rank for node in self._nodes)))

    def on_unlabelled(self) -> None:
        """Warn of output without labels."""
        self._emit(BackendWarning(unlabelled(self._tool)))

    def on_line(self, speaker: str, text: str) -> None:
        """Keep a line, unless it says nothing; a task speaks for its own node alone."""
        if text.startswith(causes.ENTERING):
            return
        if not speaker and re.search(self._engine.harmless, text):
            return
        if any(character.isalnum() for character in text):
            self._lines = [*self._lines, text][-KEPT_LINES:]
            self._emit(EngineOutput(f"{self._tool}: {text}"))
            for node in self._of(speaker) if speaker else ():
                self._emit(SessionOutput(node.rank, text))
            if not speaker:
                self._on_own_line(text)
        if SWEPT in text and self._all_announced():
            for node in self._of(speaker) if speaker else ():
                self._emit(SessionEnded(node.rank, text))
        if UNREACHABLE.search(text):
            self._fail_named(text, self._of(speaker) if speaker else self._nodes)

    def _on_own_line(self, line: str) -> None:
        if causes.accepted_key(line):
            self._emit(BackendWarning(causes.accepted_key(line)))
        self._look_for_loss(line)
        if SHELL_ERROR.search(line) and not self._all_announced() and not self._reported:
            why = "the login shell of a host could not run its command"
            self._report(f"{self._tool}: {why}: {line[:200]}", LOST)

    def on_end(self, code: int, errors: str) -> None:
        """Report how the engine has ended, once."""
        if code and not self._cleaned_up:
            self._cleaned_up = True
            self._engine.clean_up(self._child.pid)
        if self._reported:
            return
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        shown = [line[:200] for line in self._lines[:SHOWN_LINES]]
        words = "; ".join(filter(None, [*shown, self._engine.advice(self._lines)]))
        known = "" if self._all_announced() else self._engine.start_failure(self._lines)
        cause = known or f"{self._tool} ended ({how}){f': {words}' if words else ''}"
        killed = code == -signal.SIGKILL and not self._killed_here
        self._report(cause, self._engine.exit_code(code), killed=killed)

    def _of(self, speaker: str) -> Sequence[Node]:
        """Return the node of the task with this number, if it is one of the job's."""
        return self._tasks[int(speaker) : int(speaker) + 1]

    def _all_announced(self) -> bool:
        return self._announced >= len(self._nodes)

    def _fail_named(self, line: str, nodes: Sequence[Node]) -> None:
        """Report nodes as failed if a line names their host."""
        words = set(re.findall(r"[\w.-]+", line))
        for node in nodes:
            if node.host.name in words:
                cause = causes.explain(255, self._reason(line), causes.Attempt(node.host.name))
                self._emit(SessionEnded(node.rank, cause))

    def _reason(self, line: str) -> str:
        """Return ssh's message about no host, for a line of Intel MPI's agent without a reason."""
        names = {node.host.name for node in self._nodes}
        said = [one for one in self._lines if UNREACHABLE.search(one) and NO_REASON not in one]
        own = [one for one in said if not names & {*re.findall(r"[\w.-]+", one)}]
        return own[-1] if own and NO_REASON in line else line

    def _look_for_loss(self, line: str) -> None:
        """Report a lost host before the engine signals the others and they seem to be the cause."""
        pattern = self._engine.loss_pattern
        if pattern and self._all_announced() and not self._reported and re.search(pattern, line):
            self._report(f"{self._tool}: {line[:200]}", LOST)

    def _report(self, cause: str, code: int, *, killed: bool = False) -> None:
        self._reported = True
        self._emit(EngineEnded(cause, code, killed))
