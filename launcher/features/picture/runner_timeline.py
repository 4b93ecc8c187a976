"""The events of a job, with their times: the data of its picture.

Everything here is bounded: a job may run for weeks, fail often and print a lot.
"""

from __future__ import annotations

from ...common.records import NamedTuple
from ...head.run.events import (
    RESULT,
    Alarm,
    AlarmOver,
    CheckWarning,
    Exit,
    JobEnded,
    Lost,
    RankOutput,
    RanksStarted,
    Round,
    Started,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ...head.run.events import RunEvent
    from ...head.run.run_view import ObservedRun
    from .runner_page import AnyTimeline

MOST_SPANS = 20_000
"""Lives of workers that are kept: the first half of them, and the newest."""

MOST_MARKS = 2_000
"""Marks that are kept, of each kind: the first half of them, and the newest."""

MOST_FINDINGS = 200
"""Lines of the quick check that are kept."""

TAIL = 4096
"""Bytes of its newest output that are kept of each rank, of a job of up to `TAILS / TAIL` ranks."""

TAILS = 2 << 20
"""Bytes that are kept of all ranks, but at least `LEAST` of each."""

LEAST = 256

CHECKPOINT = b"ckp"
"""Part of a line that reports a checkpoint, or a file `x.ckpt`."""

WRITTEN = (b"sav", b"wrote", b"writ")
"""The further part of such a line: one of these, whatever the case."""

WORDS = 200
"""Bytes of such a line that are kept."""


class WorkerSpan(NamedTuple):
    """The life of one worker.

    Attributes:
        round: the round in which it ran, 0 for a job without rounds.
        began, ended: seconds from the start of the job; None for a worker that runs.
        state: its end: `ok`, `failed`, `stopped`, `lost`; `running` without one.
        words: its end, for people.
    """

    rank: int
    host: str
    round: int
    began: float
    ended: float | None = None
    state: str = "running"
    words: str = ""


class TimelineMark(NamedTuple):
    """An event at one time, or one that lasted until `until`.

    Attributes:
        kind: `round`, `failure`, `loss`, `hang`, `slow`, `rule` or `checkpoint`.
        rank: the rank concerned, or None; likewise `host`, with "" for none.
    """

    at: float
    kind: str
    words: str
    host: str = ""
    rank: int | None = None
    until: float | None = None


class BoundedList:
    """A list that keeps its first and its latest entries, and counts the dropped ones."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self.entries: list[Any] = []
        self.dropped = 0

    def add(self, entry: Any) -> None:
        """Add an entry."""
        self.entries.append(entry)
        if len(self.entries) > 3 * self._half:
            del self.entries[self._half : 2 * self._half]
            self.dropped += self._half


class Timeline:
    """Observes a run.

    Attributes:
        world_size: the number of ranks, 0 before the start.
        round: the number of the newest round, 0 without rounds.
        restarts: the number of restarts after failures.
        hosts: the names of the hosts in the order of their arrival.
        spans: the lives of workers that have ended.
        marks: the events, by kind.
        findings: the warnings of the quick check.
        began: the start of the job, on the loop's clock.
        keep: bytes of its newest output that are kept of each rank.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Observe from now on, with the loop's clock."""
        self._clock = clock
        self.began = clock()
        self.world_size = self.round = self.restarts = 0
        self.hosts: dict[str, None] = {}
        self.spans = BoundedList(MOST_SPANS)
        self.marks: dict[str, BoundedList] = {}
        self.findings: list[str] = []
        self._running: dict[int, WorkerSpan] = {}
        self._tails: dict[int, list[tuple[str, bytes]]] = {}
        self.keep = TAIL
        self._wrong: dict[str, TimelineMark] = {}

    def observe(self, run: ObservedRun) -> None:
        """Observe the only run of a job."""
        run.observe(self.on_event)

    def on_event(self, event: RunEvent) -> None:
        """Keep what an event tells."""
        match event:
            case RankOutput():
                self._on_output(event)
            case Started():
                self._on_start(event)
            case RanksStarted():
                self._on_ranks(event)
            case Exit():
                self._on_exit(event)
            case Lost():
                self._on_loss(event)
            case Round():
                self._on_round(event)
            case Alarm():
                self._on_alarm(event)
            case AlarmOver():
                self._on_alarm_over(event)
            case CheckWarning():
                self._on_warning(event)
            case JobEnded():
                self._on_end()

    @property
    def now(self) -> float:
        """Seconds since the job began."""
        return round(self._clock() - self.began, 3)

    @property
    def all_spans(self) -> list[WorkerSpan]:
        """The lives of workers: those that have ended, then those that run."""
        return [*self.spans.entries, *self._running.values()]

    @property
    def working_spans(self) -> list[WorkerSpan]:
        """The lives of the workers that do the work of the job."""
        return self.all_spans

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of hosts and ranks."""
        return {"hosts": len(self.hosts), "ranks": self.world_size}

    def number(self, rank: int) -> int:
        """Return the rank that a worker has in its own world."""
        return rank

    @property
    def all_marks(self) -> list[TimelineMark]:
        """All marks, in order of time."""
        kept = [mark for bounded in self.marks.values() for mark in bounded.entries]
        return sorted([*kept, *self._wrong.values()], key=lambda mark: mark.at)

    @property
    def dropped(self) -> int:
        """The number of spans and marks that were dropped."""
        return self.spans.dropped + sum(one.dropped for one in self.marks.values())

    def serves(self, _rank: int) -> bool:
        """Return whether a worker belongs to a service, which ends with the job."""
        return False

    def tail(self, rank: int) -> list[tuple[str, str]]:
        """Return the latest output of a rank, as the name and the text of each of its lives.

        Bytes that are not UTF-8 are replaced.
        """
        lives = self._tails.get(rank, [])
        return [(life, data.decode("utf-8", "replace")) for life, data in lives if data]

    def remember(self, rank: int, data: bytes) -> None:
        """Keep the newest output of a rank, and look for nothing in it."""
        lives = self._tails.setdefault(rank, [("", b"")])
        life, known = lives[-1]
        lives[-1] = (life, (known + data[-self.keep :])[-self.keep :])
        if len(lives) > 1:
            self._tails[rank] = _newest(lives, self.keep)

    def mark(self, kind: str, words: str, host: str = "", rank: int | None = None) -> None:
        """Add a mark, now."""
        self._keep_mark(TimelineMark(self.now, kind, words, host, rank))

    def _keep_mark(self, mark: TimelineMark) -> None:
        self.marks.setdefault(mark.kind, BoundedList(MOST_MARKS)).add(mark)

    # -- events -----------------------------------------------------------------------------

    def _on_start(self, event: Started) -> None:
        self._size(event.world_size)
        self.hosts |= dict.fromkeys(event.hosts)

    def _size(self, world_size: int) -> None:
        self.world_size = max(self.world_size, world_size)
        self.keep = max(LEAST, min(TAIL, TAILS // max(self.world_size, 1)))

    def _on_ranks(self, event: RanksStarted) -> None:
        self.hosts.setdefault(event.host)
        for rank in event.ranks:
            self._close(rank, "stopped", "")
            self._running[rank] = WorkerSpan(rank, event.host, self.round, self.now)
            again = "started again" if self._tails.get(rank) else ""
            self.start_life(rank, f"round {self.round}" if self.round else again)

    def start_life(self, rank: int, life: str) -> None:
        """Start another life of a rank, with this name, for its output from now on."""
        lives = [one for one in self._tails.get(rank, []) if one[1]]
        self._tails[rank] = [*lives, (life, b"")]

    def _on_output(self, event: RankOutput) -> None:
        if event.stream == RESULT:
            return
        self.remember(event.rank, event.data)
        if CHECKPOINT in event.data and (line := _of_checkpoint(event.data)):
            self.mark("checkpoint", line.decode("utf-8", "replace").strip(), event.host, event.rank)

    def _on_exit(self, event: Exit) -> None:
        how = f"exit code {event.code}" if event.code >= 0 else f"signal {-event.code}"
        words = f"{how} ({event.hint})" if event.hint else how
        state = "stopped" if event.stopped else "failed" if event.code else "ok"
        self._close(event.rank, state, words)
        if state == "failed":
            self.mark("failure", f"rank {event.rank} failed: {words}", event.host, event.rank)

    def _on_loss(self, event: Lost) -> None:
        for rank in [rank for rank, span in self._running.items() if span.host == event.host]:
            self._close(rank, "lost", f"lost {event.host}: {event.reason}")
        self.mark("loss", f"lost {event.host}: {event.reason}", event.host)

    def _on_round(self, event: Round) -> None:
        self.round, self.restarts = event.number, event.restarts
        self._size(event.world_size)
        self.hosts |= dict.fromkeys(event.hosts)
        restarts = f", restart {event.restarts}" if event.restarts else ""
        self.mark("round", f"round {event.number}: {event.world_size} ranks{restarts}")

    def _on_alarm(self, event: Alarm) -> None:
        self._wrong.setdefault(event.kind, TimelineMark(self.now, event.kind, event.sentence))

    def _on_alarm_over(self, event: AlarmOver) -> None:
        mark = self._wrong.pop(event.kind, None)
        if mark is not None:
            self._keep_mark(mark._replace(until=self.now))

    def _on_warning(self, event: CheckWarning) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(event.sentence)

    def _on_end(self) -> None:
        for rank in [*self._running]:
            self._close(rank, "stopped", "")
        for kind in [*self._wrong]:
            self._keep_mark(self._wrong.pop(kind)._replace(until=self.now))

    def _close(self, rank: int, state: str, words: str) -> None:
        span = self._running.pop(rank, None)
        if span is not None:
            self.spans.add(span._replace(ended=self.now, state=state, words=words))


def of_job(clock: Callable[[], float], ends: Mapping[str, str]) -> AnyTimeline:
    """Return the timeline of a job that begins now.

    Args:
        clock: the clock of the loop.
        ends: the effect of the clean end of each role, by its name; none without roles.
    """
    if not ends:
        return Timeline(clock)
    from .runner_roles_timeline import RolesTimeline

    return RolesTimeline(clock, ends)


def _newest(lives: list[tuple[str, bytes]], keep: int) -> list[tuple[str, bytes]]:
    """Return this number of bytes of the latest output of a rank, by its lives."""
    kept = list[tuple[str, bytes]]()
    for life, data in reversed(lives):
        if keep or not kept:
            kept.insert(0, (life, data[-keep:]))
            keep -= len(kept[0][1])
    return kept


def _of_checkpoint(data: bytes) -> bytes:
    """Return the last line that reports a written checkpoint, b"" without one."""
    at = len(data)
    while (at := data.rfind(CHECKPOINT, 0, at)) >= 0:
        begin = data.rfind(b"\n", 0, at) + 1
        line = data[max(begin, at - WORDS) : at + WORDS].partition(b"\n")[0]
        if any(word in line.lower() for word in WRITTEN):
            return line[:WORDS]
        at = begin
    return b""
