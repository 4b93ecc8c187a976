"""A history from what the observer of a real job has written, and what is wrong with it.

It is the runner's view: a worker begins when its node says so, and ends when that tells its exit,
or is lost. So the rules that are checked are those that need no other view.
"""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

from ...simulation.checker import check
from ...simulation.history import Event
from ...simulation.labelled import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RULES = frozenset(
    {
        *("one_exit", "codes_agree", "report_shape", "one_worker_per_rank", "rank_once_a_round"),
        *("restarts_in_budget", "rounds_grow", "report_is_last"),
        *("lines_once", "lines_in_order", "lines_whole", "lines_printed", "no_middle_lost"),
        "end_shown",
    }
)
"""Those of the checker that hold for the runner's view."""

OF_LINES = frozenset(one for one in RULES if "line" in one) | {"no_middle_lost", "end_shown"}

LONGEST = 8192
"""Characters of a line that is shown in one piece."""

KILLED, UNWRITTEN = 9, 74


def wrong(file: Path, code: int, output: str | None) -> list[str]:
    """Return what is wrong with a job; nothing of one whose observer could not write.

    Args:
        file: what its observer has written.
        code: the exit code of dsrun.
        output: its standard output, None if that is not known.
    """
    if not file.exists():
        return []
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    history = [*_Reader(rows).events()]
    report = next((event for event in history if event.kind == "report"), None)
    rules = RULES
    if output is None or not _is_shown(history):
        rules -= OF_LINES
    else:
        history += [_event("shown", rank=rank, line=line) for line, rank in lines_of(output, "")]
    if report is not None and (code == UNWRITTEN or code < 0):
        rules -= {"codes_agree"}
    history.append(_event("exit", code=code))
    history.sort(key=lambda event: event.kind in {"report", "exit"})
    return [f"{one.rule}: {one.text}" for one in check(history) if one.rule in rules]


def _event(kind: str, **fields: Any) -> Event:
    return Event(float("inf"), "login", kind, fields)


def _is_shown(history: list[Event]) -> bool:
    """Return whether each line is shown as it was printed."""
    lines = [event.fields["line"] for event in history if event.kind == "printed"]
    return history[0].fields["plain"] and all(map(_is_plain, lines))


def _is_plain(line: str) -> bool:
    """Return whether a line is shown as it was printed."""
    return line.isprintable() and line.isascii() and len(line) < LONGEST


class _Reader:
    """Makes events of a history of what an observer has written."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows
        self._pids = count(1000)
        self._live: dict[int, tuple[str, int]] = {}
        self._rests: dict[int, str] = {}
        self._time = 0.0
        self._round, self._world, self._restarts = 1, 0, 0
        self._ways = {
            "job": self._job,
            "JobStarted": self._began,
            "RoundBegan": self._began,
            "RanksStarted": self._started,
            "RankOutput": self._output,
            "RankExit": self._exited,
            "NodeLost": self._lost,
            "report": self._report,
        }

    def events(self) -> Iterator[Event]:
        """Yield the history, without the report and the exit."""
        for time, kind, fields in self._rows:
            self._time = max(self._time, time)
            yield from self._ways[kind](fields)
        for rank in [*self._rests]:
            yield from self._finish(rank)

    def _event(self, host: str, kind: str, **fields: Any) -> Event:
        return Event(self._time, host, kind, fields)

    def _job(self, fields: dict[str, Any]) -> Iterator[Event]:
        yield self._event("login", "job", **fields)

    def _began(self, fields: dict[str, Any]) -> Iterator[Event]:
        self._round, self._world = fields.get("number", 1), fields["world_size"]
        for count_of in range(self._restarts, fields.get("restarts", 0)):
            yield self._event("login", "restart", count=count_of + 1)
        self._restarts = max(self._restarts, fields.get("restarts", 0))

    def _started(self, fields: dict[str, Any]) -> Iterator[Event]:
        host = fields["host"]
        for rank in fields["ranks"]:
            yield from self._finish(rank)
            pid = next(self._pids)
            self._live[rank] = host, pid
            yield self._event(host, "spawned", pid=pid, parent=0, role="worker", name="")
            given = {"rank": rank, "world": self._world, "round": self._round}
            yield self._event(host, "worker", pid=pid, **given)

    def _output(self, fields: dict[str, Any]) -> Iterator[Event]:
        if fields["stream"] != 1:
            return
        rank = fields["rank"]
        *lines, rest = (self._rests.pop(rank, "") + fields["data"]).split("\n")
        if rest:
            self._rests[rank] = rest
        yield from (self._printed(rank, line) for line in lines)

    def _exited(self, fields: dict[str, Any]) -> Iterator[Event]:
        rank, code = fields["rank"], fields["code"]
        yield from self._finish(rank)
        if rank in self._live:
            host, pid = self._live.pop(rank)
            yield self._event(host, "ended", pid=pid, status=code << 8 if code >= 0 else -code)

    def _report(self, fields: dict[str, Any]) -> Iterator[Event]:
        yield self._event("login", "report", report=fields)

    def _lost(self, fields: dict[str, Any]) -> Iterator[Event]:
        for rank, (host, pid) in [*self._live.items()]:
            if host == fields["host"]:
                del self._live[rank]
                yield self._event(host, "ended", pid=pid, status=KILLED)

    def _finish(self, rank: int) -> Iterator[Event]:
        """Take a line without an end for a whole one, as dsrun does at the end of a worker."""
        if rest := self._rests.pop(rank, ""):
            yield self._printed(rank, rest)

    def _printed(self, rank: int, line: str) -> Event:
        return self._event("login", "printed", rank=rank, round=self._round, line=line)
