"""The time for which each rank has been idle, from the reports of its node. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...control.activity_messages import Activity, RankActivity

STALE, DELAY = 3, 1.0
"""Number of a node's reports that may be missing, and seconds of delay, before its ranks count as
unknown."""

READY = 0.05
"""Part of the time for which an idle worker is ready to run without a CPU at most; a worker that
gets none, on a busy node or beyond a quota, is not idle."""

LOOK_CPU, LOOK_SHARE, LOOK_MOVED, LOOK_INTERVALS = 0.05, 0.04, 2 << 20, 1.5
"""The most that a worker needs to answer about its collectives in a look: seconds of CPU time, its
share of the time, and bytes; and the intervals in which it answers."""

ANSWER = 1.0
"""Most seconds for an answer on a busy node, or twice the time between two reports."""

STILL = 8192
"""Most bytes a second that a merely waiting rank reads and writes."""


NEVER = float("-inf"), float("-inf")
"""The times of a stack sample that was not taken."""


class LookAnswer(NamedTuple):
    """The activity of a rank in answering one request for stacks; times as below.

    Attributes:
        asked: the time of the request.
        since: the time when its node first reported activity after that; infinity before.
        moved: bytes that it has moved since.
        rested: whether it had been idle for long: the activity of a working rank is not its answer.
    """

    asked: float = float("-inf")
    since: float = float("inf")
    moved: int = 0
    rested: bool = False


class RankIdleTime(NamedTuple):
    """The known activity of one rank; times are on the runner's monotonic clock.

    Attributes:
        since: the time of its last activity: CPU work, input, output or a line of output.
        still: the time when it last printed, read or wrote anything; it may have used the CPU
            since.
        at: the time of its node's last report.
        gap: seconds between the last two reports.
        traced: whether a debugger was attached in both; a reader of stacks is attached briefly.
        answer: its answer to the last request for stacks.
    """

    host: str
    since: float
    still: float
    at: float
    gap: float
    traced: bool
    row: RankActivity
    answer: LookAnswer = LookAnswer()


class RankIdleTimes:
    """The start of the idle time of each running rank."""

    def __init__(self, interval: float, rest: float = 0.0) -> None:
        """Expect a report of each node every `interval` seconds.

        A rank that has been idle for `rest` seconds answers a look, and does nothing else.
        """
        self.ranks: dict[int, RankIdleTime] = {}
        self._interval, self._rest = interval, rest
        self._read = NEVER

    def take(
        self, host: str, activity: Activity, now: float, read: tuple[float, float] = NEVER
    ) -> None:
        """Take a node's report; `read` has the times of the last request for stacks, and answer."""
        self._read = read
        rows = {row.rank: row for row in activity.ranks}
        for rank in [one for one, times in self.ranks.items() if times.host == host]:
            if rank not in rows:
                del self.ranks[rank]
        for rank, row in rows.items():
            self.ranks[rank] = self._next(self.ranks.get(rank), host, row, now)

    def _next(
        self, last: RankIdleTime | None, host: str, row: RankActivity, now: float
    ) -> RankIdleTime:
        if last is None or last.row.pid != row.pid:
            return RankIdleTime(host, now, now, now, self._interval, False, row)
        gap, since, still = now - last.at, last.since, last.still
        answer = self._answer(last, row, now)
        if self._is_late(gap):
            since = min(since + gap, now)
        else:
            looked = self._is_by_look(last, row, now, answer)
            worked = not row.idle or _waits_for_cpu(last.row, row, gap)
            if worked and not (looked and _is_little(last.row, row, gap)):
                # It has worked at some time since the last report: half of that ago, on average.
                since = max(since, now - gap / 2)
            moved = abs(row.moved - last.row.moved) > STILL * max(gap, 1.0)
            if not looked and (moved or _prints(last.row, row)):
                still = now
        traced = row.traced and last.row.traced
        return RankIdleTime(host, since, still, now, gap, traced, row, answer)

    def _is_late(self, gap: float) -> bool:
        """Return whether a node was stopped, or cut off, for a time that cannot count."""
        return gap > STALE * max(self._interval, DELAY)

    def _is_by_look(
        self, last: RankIdleTime, row: RankActivity, now: float, answer: LookAnswer
    ) -> bool:
        """Return whether the bytes of a rank are only its answer to the request."""
        began, ended = self._read
        return (
            answer.rested
            and began <= now <= max(began, ended) + LOOK_INTERVALS * self._interval
            and last.at <= ended
            and answer.moved <= LOOK_MOVED
            and now - answer.since <= max(ANSWER, LOOK_INTERVALS * self._interval)
            and not _prints(last.row, row)
        )

    def _answer(self, last: RankIdleTime, row: RankActivity, now: float) -> LookAnswer:
        """Return a rank's activity since the request for stacks, including this report."""
        asked, moved = self._read[0], abs(row.moved - last.row.moved)
        before = last.answer
        if before.asked != asked:
            before = LookAnswer(asked, rested=asked - last.since >= self._rest)
        active = bool(moved) or not row.idle
        since = min(before.since, now) if active else before.since
        return before._replace(since=since, moved=before.moved + moved)

    def remove(self, rank: int) -> None:
        """Forget a rank that has ended."""
        self.ranks.pop(rank, None)

    def clear(self) -> None:
        """Forget all ranks: others begin."""
        self.ranks.clear()

    def restart(self, now: float) -> None:
        """Count no time before this."""
        for rank, times in self.ranks.items():
            self.ranks[rank] = times._replace(since=max(times.since, now), still=now)

    def skip(self, seconds: float, now: float) -> None:
        """Do not count the last seconds: this process had no CPU, and has read no report."""
        for rank, times in self.ranks.items():
            since, still = (min(at + seconds, now) for at in (times.since, times.still))
            self.ranks[rank] = times._replace(since=since, still=still)

    def idle(self, rank: int, now: float) -> float:
        """Return the seconds for which a rank has done nothing, 0.0 if unknown."""
        times = self.ranks.get(rank)
        if times is None or self._is_stale(times, now):
            return 0.0
        return max(now - times.since, 0.0)

    def longest(self, now: float) -> float:
        """Return the seconds for which some rank has done nothing."""
        return max((self.idle(rank, now) for rank in self.ranks), default=0.0)

    def still_of(self, rank: int, now: float) -> float:
        """Return the seconds for which a rank has at most computed."""
        times = self.ranks.get(rank)
        return now - times.still if times is not None else 0.0

    def still(self, now: float) -> float:
        """Return the seconds for which no rank has done more than to compute."""
        return min((now - times.still for times in self.ranks.values()), default=0.0)

    def idle_in_turn(self, ranks: Iterable[int], now: float) -> float:
        """Return the seconds for which all of these ranks, if they run, have been idle."""
        return min((self.idle(rank, now) for rank in ranks if rank in self.ranks), default=0.0)

    def traced(self, now: float) -> bool:
        """Return whether a debugger is attached to a process of some rank, by the reports."""
        idle_times = self.ranks.values()
        return any(times.traced and not self._is_stale(times, now) for times in idle_times)

    def _is_stale(self, times: RankIdleTime, now: float) -> bool:
        """Return whether a node's last report on a rank is too old to tell its state."""
        return now - times.at > STALE * max(times.gap, self._interval) + DELAY


def _prints(last: RankActivity, row: RankActivity) -> bool:
    return row.printed != last.printed


def _is_little(last: RankActivity, row: RankActivity, seconds: float) -> bool:
    """Return whether a rank's activity only suffices for answering a request."""
    cpu = row.cpu - last.cpu <= max(LOOK_CPU, LOOK_SHARE * seconds)
    return cpu and not _waits_for_cpu(last, row, seconds)


def _waits_for_cpu(last: RankActivity, row: RankActivity, seconds: float) -> bool:
    return row.waited - last.waited > READY * seconds or row.state == last.state == "R"
