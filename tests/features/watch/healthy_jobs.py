"""Healthy jobs in virtual time, and how often dsrun takes one for a job that hangs.

`python -m tests.features.watch.healthy_jobs --hours 300` plays so many job-hours with each timeout.
A job repeats what makes ranks quiet without harm: checkpoints on slow disks, downloads, evaluations
on one rank, slow loaders, pipelines of sends, naps. Looks at the stacks disturb it, as real ones.
"""

from __future__ import annotations

import argparse
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from dsrun.launcher.control.activity_messages import Activity, RankActivity
from dsrun.launcher.features.stacks.messages import NetworkUse
from dsrun.launcher.features.watch.node_activity import Idle
from dsrun.launcher.features.watch.runner_idle_times import RankIdleTimes
from dsrun.launcher.features.watch.runner_stack_sampling import StackSampling
from dsrun.launcher.specs.policies import WatchPolicy

from ...support.stacks import ALL_REDUCE, BARRIER, LIB, LOAD, NEXT, TRAIN, collective, view

if TYPE_CHECKING:
    from dsrun.launcher.features.stacks.runner_culprit import WaitExplanation
    from dsrun.launcher.features.stacks.runner_view import RankView

STEP = 0.5
"""Seconds of virtual time from one event to the next, at most."""

SAVE = (f"_save ({LIB}/site-packages/torch/serialization.py:900)", "save (/work/train.py:77)")
RECV = (f"recv ({LIB}/site-packages/torch/distributed/distributed_c10d.py:2500)", *TRAIN)
SLEEP = ("nap (/work/train.py:9)", *TRAIN)


class Act(NamedTuple):
    """What a rank does for a while.

    Attributes:
        frames: its stack.
        cpu: its share of a core.
        moved: bytes a second that it reads or writes.
        waits: whether it is in a collective that torch has recorded.
    """

    frames: tuple[str, ...]
    cpu: float = 0.0
    moved: float = 0.0
    waits: bool = False


WAIT, AT_BARRIER = Act(ALL_REDUCE, 0.001, waits=True), Act(BARRIER, 0.001, waits=True)


class Scene(NamedTuple):
    """A part of a job.

    Attributes:
        one: what one of its ranks does.
        rest: what the others do meanwhile.
        longest: seconds; as parts of the timeout if it is negative.
        hop: seconds from one send of gloo to the next, 0.0 for none.
    """

    one: Act
    rest: Act
    longest: float
    hop: float = 0.0


SCENES = {
    "steps": Scene(Act(LOAD, 0.9, 1e6), WAIT, 20.0),
    "a checkpoint at 1 MB/s": Scene(Act(SAVE, 0.004, 1e6), AT_BARRIER, 900.0),
    "a checkpoint at 12 KB/s": Scene(Act(SAVE, 0.001, 12e3), AT_BARRIER, 900.0),
    "a checkpoint at 20 KB/s, in small blocks": Scene(Act(SAVE, 0.001, 20e3), AT_BARRIER, 900.0),
    "a download": Scene(Act(LOAD, 0.02, 3e5), AT_BARRIER, 1200.0),
    "an evaluation": Scene(Act(TRAIN, 0.95), AT_BARRIER, 1800.0),
    "a compilation": Scene(Act(TRAIN, 0.8, 1e4), Act(TRAIN, 0.8, 1e4), 600.0),
    "a slow loader": Scene(Act(NEXT, 0.3, 1e5), WAIT, 120.0),
    "a nap for others": Scene(Act(SLEEP), AT_BARRIER, -0.6),
    "naps": Scene(Act(SLEEP), Act(SLEEP), 1200.0),
    "a pipeline of sends": Scene(Act(SLEEP), Act(RECV), 1200.0, hop=8.0),
    "a pipeline of slow sends": Scene(Act(SLEEP), Act(RECV), 1200.0, hop=40.0),
}


HANG = Scene(Act(SLEEP), AT_BARRIER, 0.0)


class _Rank:
    """One rank: its counts since its start, and its act."""

    def __init__(self, number: int, interval: float) -> None:
        self.number, self.act = number, WAIT
        self.cpu, self.moved, self.calls = 0.0, 0.0, 1
        self.idle = Idle(2 * interval)
        self.owes = 0.0, 0.0, 0.0  # to answer a look: seconds that it lasts, CPU and bytes a second

    def live(self, seconds: float) -> None:
        left, cpu, moved = self.owes
        asked = min(left, seconds)
        self.owes = left - asked, cpu, moved
        self.cpu += self.act.cpu * seconds + cpu * asked
        self.moved += self.act.moved * seconds + moved * asked

    def row(self, now: float) -> RankActivity:
        cpu, moved = round(self.cpu, 2), int(self.moved)
        idle = self.idle.after(now, cpu, moved, 0)
        state = "R" if self.act.cpu > 0.5 else "S"
        return RankActivity(self.number, 4000 + self.number, state, cpu, 0.0, moved, 0, idle, False)


class HealthyJob:
    """One such job.

    Attributes:
        found: what was said of it: the scene, and who was thought to wait for whom.
    """

    def __init__(self, seed: int, timeout: float) -> None:
        """Let chance choose ranks, scenes and how busy the node is."""
        self._chance = Random(seed)
        self._timeout = timeout
        self._interval = WatchPolicy(hang_timeout=timeout).sample
        self._ranks = [_Rank(one, self._interval) for one in range(self._chance.choice((2, 4, 8)))]
        self._idle_times = RankIdleTimes(self._interval, timeout / 4)
        self._sampling: StackSampling | None = None
        self._read = float("-inf"), float("-inf")
        self._answer: float | None = None
        self._now = self._hopped = 0.0
        self._ends, self._told = 0.0, False
        self._name = ""
        self.found: list[tuple[str, WaitExplanation]] = []

    def play(self, hours: float) -> None:
        """Let time pass until so many hours after the start."""
        end, due = hours * 3600.0, self._now
        while self._now < end:
            if self._now >= self._ends:
                self._ends = self._now + self._begin_scene()
            if self._now >= due:
                rows = tuple(one.row(self._now) for one in self._ranks)
                self._idle_times.take("n0", Activity(self._now, 0.0, rows), self._now, self._read)
                due = self._now + self._interval
            self._look()
            self._now += STEP
            for one in self._ranks:
                one.live(STEP)
            if self._scene.hop and self._now - self._hopped >= self._scene.hop:
                self._hopped = self._now

    def hang(self) -> None:
        """Have one rank sleep for ever, for which the others wait."""
        self._set("a hang", HANG)
        self._ends = float("inf")

    def _begin_scene(self) -> float:
        """Have the ranks do something else; return for how long."""
        name = self._chance.choice([*SCENES])
        scene = SCENES[name]
        self._set(name, scene._replace(hop=min(scene.hop, self._timeout / 2)))
        longest = scene.longest if scene.longest > 0 else -scene.longest * self._timeout
        return self._chance.uniform(longest / 4, longest)

    def _set(self, name: str, scene: Scene) -> None:
        self._name, self._scene = name, scene
        self._hopped, self._told = self._now, False
        first = self._chance.choice(self._ranks)
        for one in self._ranks:
            one.act = scene.one if one is first else scene.rest
            one.calls += 1

    def _look(self) -> None:
        """Look at the stacks when `HangWatch` would."""
        if self._answer is not None:
            if self._now >= self._answer:
                self._answer = None
                self._judge()
            return
        idle = self._idle_times.longest(self._now)
        if self._sampling is None:
            if max(idle, self._idle_times.still(self._now)) < self._timeout / 2:
                return
            self._sampling = StackSampling(self._timeout)
        if self._sampling.due(self._idle_times, idle, self._now) <= 0:
            self._ask()

    def _ask(self) -> None:
        """Ask the ranks: on a busy node that takes long, and each does a little for it."""
        lasts = self._chance.choice((0.3, 0.7, 2.0, 5.0, 10.0))
        self._answer = self._now + lasts
        self._read = self._now, self._now + lasts
        for one in self._ranks:
            spent = self._chance.uniform(0.1, min(lasts, 2.0))
            cpu, size = self._chance.uniform(0.01, 0.04), self._chance.choice((2e4, 2e5, 1e6))
            one.owes = spent, cpu / spent, size / spent

    def _judge(self) -> None:
        assert self._sampling is not None
        known = self._sampling.sample(
            {one.number: self._view(one) for one in self._ranks}, self._now
        )
        if known is not None:
            if not self._told:
                self.found.append((self._name, known))
            self._told, self._sampling = True, None

    def _view(self, one: _Rank) -> RankView:
        """Return where a rank is; on a busy node the stack of one is sometimes not read."""
        pid, number = 4000 + one.number, one.number
        call = collective(number, one.calls)._replace(age=self._now - self._hopped)
        quiet = self._now - self._hopped if self._scene.hop else -1.0
        seen = view(
            *(number, one.act.frames),
            waits_in="hrtimer_nanosleep" if one.act.frames == SLEEP else "",
            collectives=(call,) if one.act.waits else (),
            active=one.act.cpu > 0.5,
            idle=self._idle_times.idle(number, self._now),
        )
        seen = seen._replace(
            network=(NetworkUse(number, pid, "", "", 0, quiet),),
            still=self._idle_times.still_of(number, self._now),
        )
        if self._chance.random() < 0.05:
            problem = seen.processes[0]._replace(problem="py-spy did not answer in time", source="")
            return seen._replace(threads=(), processes=(problem,))
        return seen


def stopped(job: HealthyJob) -> list[tuple[str, WaitExplanation]]:
    """Return for what a job would have been ended with `--on_hang stop`."""
    return [one for one in job.found if not one[1].doubt]


def main() -> None:
    """Play jobs of three hours, and say what was thought of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for timeout in (300.0, 60.0):
        wrong, lines = [], Counter[str]()
        for number in range(given.hours // 3):
            job = HealthyJob(given.seed + number, timeout)
            job.play(3.0)
            wrong += [(given.seed + number, *one) for one in stopped(job)]
            lines.update(f"{name}: {known.doubt}" for name, known in job.found if known.doubt)
        print(f"--hang_timeout {timeout:g}: {given.hours} job-hours, {len(wrong)} false stops")
        for what, count in lines.most_common():
            print(f"  {count} lines, {what}")
        for seed, name, known in wrong[:20]:
            print(f"  seed {seed}, {name}: {known.reason.value}: {known.sentence}")


if __name__ == "__main__":
    main()
