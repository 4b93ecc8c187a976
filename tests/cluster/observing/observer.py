"""Keeps what a run tells its observers, and writes it as lines of JSON when the job is over.

It is imported by dsrun's own process: nothing of the tests is there.
"""

from __future__ import annotations

import json
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FILE = ""
"""Where it writes."""

KINDS = frozenset({"Started", "RanksStarted", "RankOutput", "Exit", "Lost", "Round"})


class Observer:
    """Observes one run."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self._told: list[tuple[float, Any]] = []
        run.observe(self._on_event)

    def _on_event(self, event: Any) -> None:
        self._told.append((self._run.loop.clock(), event))

    def close(self) -> None:
        """Write, once the job has ended."""
        spec = self._run.spec
        limits = spec.elastic
        plain = spec.output._replace(report_file=None, stdin=False, level="info", color="auto")
        asked = {
            "nodes": {node.host.name: len(node.slots or ()) for node in spec.plan.nodes},
            "elastic": limits is not None,
            "max_restarts": limits.restarts if limits is not None else 0,
            "plain": plain == type(spec.output)() and not self._run.abandoned,
        }
        rows = [(0.0, "job", asked)]
        for time, event in self._told:
            kind = type(event).__name__
            if kind in KINDS:
                rows.append((time, kind, event._asdict()))
            elif kind == "JobEnded" and event.ending.error is None:
                rows.append((time, "report", event.ending.data))
        lines = (json.dumps(row, default=_text) + "\n" for row in rows)
        Path(FILE).write_text("".join(lines), encoding="utf-8")


def observe(run: Any) -> Callable[[], None]:
    """Have a run observed; return the function that writes after the job's end."""
    return Observer(run).close


def _text(value: Any) -> object:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else list(value)
