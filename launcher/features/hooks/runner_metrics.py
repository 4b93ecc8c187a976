"""`--metrics_file`: the activity of a job, as metrics in a file, replaced every few seconds."""

from __future__ import annotations

import os

from ... import __version__
from ...common.text import plain
from ...head.run.events import (
    RESULT,
    Alarm,
    AlarmOver,
    Exit,
    JobEnded,
    Lost,
    RankOutput,
    RanksActive,
    Round,
    Started,
)
from .runner_exposition import Metric
from .runner_latest_file import LatestFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...common.loop import Loop
    from ...head.run.events import RunEvent
    from ...head.run.run_view import RunView

INTERVAL = 5.0
"""Seconds between two writes."""

LAST_WAIT = 1.0
"""Seconds that the last write may take."""

SOON = (Started, Round, Exit)
"""Events after which the file is written at once, but not more often than ten times a second."""


class MetricsWriter:
    """Writes a text again and again, in a thread: every few seconds, and soon after events."""

    def __init__(
        self, loop: Loop, path: str, made: Callable[[], str], log: Callable[[str, str], None]
    ) -> None:
        """Begin to write.

        Args:
            loop: calls the others.
            path: the file.
            made: returns the text as of now.
            log: prints a message, given its text and level.
        """
        self._loop, self._path, self._made, self._log = loop, path, made, log
        loop.open_to_threads()
        self._file = LatestFile(path, self._on_failure, self._say)
        self._timer = loop.call_later(0.0, self.write)

    def write(self) -> None:
        """Write now, and again after a while."""
        self._file.put(self._made())
        self._wait(INTERVAL)

    def write_soon(self) -> None:
        """Write a moment later: more may happen at once."""
        self._wait(0.1)

    def write_last(self) -> None:
        """Write for the last time."""
        self._timer.cancel()
        self._file.put(self._made())

    def close(self) -> None:
        """Wait a while until the last text is written."""
        self._file.close(LAST_WAIT)

    def _wait(self, seconds: float) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.write)

    def _on_failure(self, why: str) -> None:
        path = plain(self._path)
        self._say(f"--metrics_file {path}: {why}; the job goes on without it", "warning")

    def _say(self, text: str, level: str) -> None:
        """Print a message, from the thread of the file."""
        self._loop.call_soon_threadsafe(lambda: self._log(text, level))


class RunMetrics:
    """The metrics of one run, from its events.

    Attributes:
        view: returns a snapshot of the run.
    """

    def __init__(self, clock: Callable[[], float], view: Callable[[], RunView]) -> None:
        self._clock, self.view = clock, view
        self._counts = Counts(clock)
        self._goodput = Goodput(clock)

    def on_event(self, event: RunEvent) -> bool:
        """Count what an event tells; return whether the metrics are worth writing soon."""
        self._counts.on_event(event)
        if isinstance(event, (Exit, Lost)):
            self._goodput.interrupt()
        return isinstance(event, SOON)

    def now(self) -> list[Metric]:
        """Return the metrics as of now."""
        run = self.view()
        self._goodput.sample(run)
        return [*self._of_job(run), *self._of_ranks()]

    def _of_job(self, run: RunView) -> Iterator[Metric]:
        counts, goodput = self._counts, self._goodput
        present = sum(not node.over for node in run.nodes)
        about = {"version": __version__, "launcher": run.plan.launcher, "pid": str(os.getpid())}
        yield Metric("job_info", "The job, its launcher and the version of dsrun.", ((about, 1.0),))
        phases = ({"phase": run.phase.name.lower()}, 1.0)
        yield Metric("job_phase", "The phase of the job.", (phases,))
        yield _one("seconds", "Seconds since the job began.", goodput.passed)
        yield _one("world_size", "Number of ranks.", run.world_size)
        states = {"running": len(run.workers.running), **counts.ended}
        rows = tuple(({"state": state}, float(count)) for state, count in states.items())
        yield Metric("ranks", "Ranks of this round by state.", rows)
        yield _one("nodes", "Nodes in the job.", present)
        yield _one("nodes_lost_total", "Lost nodes.", counts.lost)
        yield _one("rounds_total", "Rounds: starts of all workers.", counts.rounds)
        yield _one("restarts_total", "Restarts after a failure.", counts.restarts)
        alarms = tuple(({"kind": kind}, float(n)) for kind, n in counts.alarms.items())
        yield Metric("alarms_total", "Problems that a watch has found.", alarms)
        wrong = tuple(({"kind": kind}, float(kind in counts.wrong)) for kind in counts.alarms)
        yield Metric("alarm", "1 while a watch sees a problem.", wrong)
        yield _one("good_seconds_total", "Seconds in which all ranks ran.", goodput.seconds)
        yield _one("goodput_ratio", "Share of the time in which all ranks ran.", goodput.ratio)
        if counts.code is not None:
            yield _one("exit_code", "Exit code of the job.", counts.code)

    def _of_ranks(self) -> Iterator[Metric]:
        counts, now = self._counts, self._clock()
        printed = tuple(
            ({"rank": str(rank), "host": counts.hosts[rank], "stream": stream}, float(size))
            for (rank, stream), size in sorted(counts.printed.items())
        )
        yield Metric("output_bytes_total", "Bytes printed by a rank.", printed)
        ages = tuple(
            ({"rank": str(rank), "host": counts.hosts[rank]}, round(now - since, 3))
            for rank, since in sorted(counts.newest.items())
        )
        yield Metric("last_output_seconds", "Seconds since a rank last printed something.", ages)
        idle = tuple(
            ({"rank": str(rank), "host": host}, seconds)
            for (rank, host), seconds in sorted(counts.idle.items())
        )
        yield Metric("idle_seconds", "Seconds since a rank last worked or printed.", idle)


class Goodput:
    """Measures the time in which all ranks of a job ran.

    Attributes:
        seconds: that time, up to the last look.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._looked = clock()
        self._began = 0.0
        self._all = False
        self.seconds = 0.0

    def sample(self, run: RunView) -> None:
        """Count the time since the last look if all ranks ran; record whether they run now."""
        self.interrupt()
        self._began = run.record.began
        self._all = 0 < run.world_size <= len(run.workers.running)

    def interrupt(self) -> None:
        """Add the time until now if all ranks ran so far; one of them has just ended."""
        now = self._clock()
        self.seconds += now - self._looked if self._all else 0.0
        self._looked, self._all = now, False

    @property
    def passed(self) -> float:
        """Seconds since the job began."""
        return max(self._looked - self._began, 0.0)

    @property
    def ratio(self) -> float:
        """The share of the time since the job began; 0 at its beginning."""
        return self.seconds / self.passed if self.passed > 0 else 0.0


def _one(name: str, about: str, value: float) -> Metric:
    return Metric(name, about, (({}, float(value)),))


STREAMS = {1: "stdout", 2: "stderr"}


class Counts:
    """Observes a run.

    Attributes:
        rounds: the number of rounds begun; 1 for a started job without rounds.
        restarts: the number of restarts after failures.
        lost: nodes that were lost.
        printed: bytes of output by (rank, stream).
        hosts: the host of each rank when it last printed.
        newest: the time of each rank's last output, on the loop's clock.
        ended: the number of ranks that have ended in this round, by kind: `ended`, `failed`,
            `stopped`.
        idle: seconds for which a rank has done nothing, by (rank, host).
        alarms: the number of findings, by kind.
        wrong: the kinds of present findings.
        code: the exit code of the job, None while it runs.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Count from now on, with the loop's clock."""
        self._clock = clock
        self.rounds = self.restarts = self.lost = 0
        self.printed: dict[tuple[int, str], int] = {}
        self.hosts: dict[int, str] = {}
        self.newest: dict[int, float] = {}
        self.ended: dict[str, int] = {}
        self.idle: dict[tuple[int, str], float] = {}
        self.alarms: dict[str, int] = {}
        self.wrong: set[str] = set()
        self.code: int | None = None

    def on_event(self, event: RunEvent) -> None:
        """Count what an event tells."""
        match event:
            case RankOutput():
                self._on_output(event)
            case RanksActive():
                ranks = event.activity.ranks
                self.idle.update({(one.rank, event.host): one.idle for one in ranks})
            case Started():
                self.rounds = max(self.rounds, 1)
            case Exit():
                how = "stopped" if event.stopped else "failed" if event.code else "ended"
                self.ended[how] = self.ended.get(how, 0) + 1
            case Lost():
                self.lost += 1
            case Round():
                self._on_round(event)
            case Alarm():
                self.alarms[event.kind] = self.alarms.get(event.kind, 0) + 1
                self.wrong.add(event.kind)
            case AlarmOver():
                self.wrong.discard(event.kind)
            case JobEnded():
                self.code = event.ending.code

    def _on_output(self, event: RankOutput) -> None:
        if event.stream != RESULT:
            key = event.rank, STREAMS[event.stream]
            self.printed[key] = self.printed.get(key, 0) + len(event.data)
            self.hosts[event.rank], self.newest[event.rank] = event.host, self._clock()

    def _on_round(self, event: Round) -> None:
        self.rounds, self.restarts = event.number, event.restarts
        self.ended.clear()
        self.idle.clear()
        self.wrong.clear()
