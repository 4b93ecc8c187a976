"""Counters of a run, from its events."""

from __future__ import annotations

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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...head.run.events import RunEvent

STREAMS = {1: "stdout", 2: "stderr"}


class Counts:
    """Observes a run.

    Attributes:
        rounds: how many have begun; 1 for a job without rounds that has started.
        restarts: how often workers were restarted after a failure.
        lost: nodes that were lost.
        printed: bytes of output by (rank, stream).
        hosts: the host of each rank when it last printed.
        newest: when each rank has printed last, on the loop's clock.
        ended: how many ranks of this round have ended, by how: `ended`, `failed` or `stopped`.
        idle: for how many seconds each rank has done nothing, by (rank, host).
        alarms: how often something wrong was found, by kind.
        wrong: the kinds of what is wrong now.
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
