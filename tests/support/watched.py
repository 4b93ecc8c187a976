"""A run of which nodes report what its workers do and where they are, as a test has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.activity_messages import Activity, RankActivity
from dsrun.launcher.control.questions import QuestionMessage
from dsrun.launcher.features.stacks.messages import STACKS, Collective, StacksAnswer, ThreadStack
from dsrun.launcher.features.watch import runner as attach
from dsrun.launcher.specs.policies import WatchPolicy

from .questions import reply
from .stacks import ALL_REDUCE, process, thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.head.run.events import RunEvent

    from .fake_fleet import FakeFleet

TIMEOUT = 20.0
INTERVAL = 2.0


class Rank:
    """A worker as a test has it: what it does, and where it is.

    Attributes:
        works: whether it uses the CPU.
        reads: whether it reads something.
        since: when its node last saw that it had done either.
        looped: the place is another function in each look.
        active: whether its main thread runs.
        threads: the stacks of its other threads.
    """

    def __init__(self, number: int, now: float) -> None:
        self.number = number
        self.works = True
        self.reads = self.traced = self.looped = False
        self.since = now
        self.place: tuple[str, ...] = ALL_REDUCE
        self.active, self.threads = False, cast("tuple[tuple[str, ...], ...]", ())
        self.state, self.waits_in = "S", ""
        self.calls: tuple[Collective, ...] = ()
        self.cpu, self.moved, self.looks = 0.0, 0, 0
        self._last = 0.0, 0

    def live(self, seconds: float) -> None:
        """Let time pass."""
        self.cpu += seconds * self.works
        self.moved += (1 << 30) * self.reads

    def row(self, now: float) -> RankActivity:
        """Return what its node reports of it."""
        if (self.cpu, self.moved) != self._last:
            self.since, self._last = now, (self.cpu, self.moved)
        idle, traced = now - self.since, self.traced
        pid = 4000 + self.number
        return RankActivity(
            self.number, pid, self.state, self.cpu, 0.0, self.moved, 0, idle, traced
        )

    def stacks(self) -> list[ThreadStack]:
        """Return its threads, the main one first."""
        pid = 4000 + self.number
        more = (thread(pid, frames)._replace(main=False) for frames in self.threads)
        return [thread(pid, self.frames, active=self.active), *more]

    @property
    def frames(self) -> tuple[str, ...]:
        """Its stack now."""
        self.looks += 1
        inner = (f"step{self.looks} (/work/train.py:{self.looks})",) if self.looped else ()
        return (*inner, *self.place) if self.place else ()


class Watched:
    """A run of two ranks on each node, with a watch for hangs.

    Attributes:
        ranks: its workers.
        events: what its observers were told, but for activity.
        asked: when the stacks were asked for, in seconds from the start.
        mute: nodes that do not report, nor answer questions.
        silent: nodes that give no sign of life at all.
    """

    def __init__(self, fleet: FakeFleet, begin: Sequence[str] = (), **how: Any) -> None:
        """Have the workers of these nodes run, of all by default."""
        self.fleet = fleet
        self.policy = WatchPolicy(hang_timeout=TIMEOUT)._replace(**how)
        self.run = run = fleet.prepare(watch=self.policy)
        attach.hang(run)
        run.start()
        fleet.step()
        fleet.begin_workers(run, begin)
        fleet.said()
        self.events: list[RunEvent] = []
        self.asked: list[float] = []
        self.mute: set[str] = set()
        self.silent: set[str] = set()
        self.folder = ""
        self.began = fleet.clock.now
        self.ranks = [Rank(one.rank, self.began) for one in run.state.workers.running]
        run.observe(self.events.append)

    def begin(self, name: str) -> None:
        """Have the workers of a node run that did not."""
        (node,) = (one for one in self.run.state.nodes if one.name == name)
        numbers = [one.rank for one in node.node.workers()]
        self.fleet.up(name, *numbers)
        self.ranks += [Rank(number, self.fleet.clock.now) for number in numbers]

    @property
    def now(self) -> float:
        """Seconds from the start."""
        return self.fleet.clock.now - self.began

    def all(self, **what: Any) -> None:
        """Let all ranks do this."""
        for rank in self.ranks:
            vars(rank).update(what)

    def go(self, seconds: float) -> list[str]:
        """Let time pass; return the lines that dsrun has said."""
        end = self.fleet.clock.now + seconds
        while self.fleet.clock.now < end - 1e-6:
            self.report()
            self.fleet.go(0.5, silent=[*self.silent])
            for rank in self.ranks:
                rank.live(0.5)
            self.answer()
        return self.fleet.said()

    def report(self) -> None:
        """Have all nodes report their workers, at the times for that."""
        if self.now % INTERVAL == 0:
            for node, ranks in self._nodes():
                rows = tuple(rank.row(self.fleet.clock.now) for rank in ranks)
                activity = Activity(self.fleet.clock.now, 0.0, rows)
                node.says(messages.pack(frames.ACTIVITY, activity))

    def answer(self) -> None:
        """Have all nodes answer what they are asked."""
        asks = set()
        for node, ranks in self._nodes():
            for kind, body in node.received:
                if kind == frames.QUESTION:
                    asks.add(round(self.now, 1))
                    number = messages.unpack(QuestionMessage, body).number
                    node.says(reply(STACKS, self._stacks(ranks), number))
            node.received.clear()
        self.asked += sorted(asks)
        self.fleet.step()

    def _stacks(self, ranks: Sequence[Rank]) -> StacksAnswer:
        states = [process(one.number, 0, one.state, one.waits_in) for one in ranks]
        threads = [one for rank in ranks if rank.place for one in rank.stacks()]
        calls = [call for one in ranks for call in one.calls]
        return StacksAnswer(tuple(states), tuple(threads), tuple(calls), self.folder)

    def _nodes(self) -> list[tuple[Any, list[Rank]]]:
        running = {one.rank: one.host for one in self.run.state.workers.running}
        return [
            (self.fleet.node(name), [one for one in self.ranks if running.get(one.number) == name])
            for name in sorted({*running.values()} - self.mute - self.silent)
        ]
