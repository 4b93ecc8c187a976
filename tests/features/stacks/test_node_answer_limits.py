"""What is left of stacks that are too much for an answer."""

from __future__ import annotations

import json

from dsrun.launcher.features.stacks import node_answer as limits
from dsrun.launcher.features.stacks.messages import ProcessState, StacksAnswer, ThreadStack

FRAMES = tuple(f"function_{number} (/home/user/project/train.py:{number})" for number in range(900))


def process(pid: int, rank: int = 0) -> ProcessState:
    return ProcessState(rank, pid, 1, "python", "S", "", "py-spy", "")


def thread(pid: int, *, main: bool, frames: tuple[str, ...] = FRAMES[:5]) -> ThreadStack:
    return ThreadStack(pid, "t", main, False, frames)


def test_usual_stacks_are_left_as_they_are() -> None:
    stacks = StacksAnswer((process(5),), (thread(5, main=True), thread(5, main=False)), ())
    assert limits.fitting(stacks) == stacks


def test_a_deep_stack_keeps_its_ends() -> None:
    stacks = StacksAnswer((process(5),), (thread(5, main=True, frames=FRAMES),), ())
    (cut,) = limits.fitting(stacks).threads
    most = limits.STEPS[0].frames
    assert len(cut.frames) == most + 1
    assert cut.frames[0] == FRAMES[0]
    assert cut.frames[-1] == FRAMES[-1]
    assert f"... ({900 - most} frames omitted)" in cut.frames


def test_main_threads_are_kept_and_the_others_counted() -> None:
    threads = tuple(thread(5, main=number == 350) for number in range(400))
    cut = limits.fitting(StacksAnswer((process(5),), threads, ()))
    assert len(cut.threads) == limits.STEPS[0].threads
    assert cut.threads[0].main
    assert cut.processes[0].problem == "100 more threads omitted"


def test_too_many_processes_are_cut_to_the_workers() -> None:
    """Each step is tried in turn; what is left always fits."""
    pids = range(10, 2010)
    stacks = StacksAnswer(
        tuple(process(pid, rank=pid % 8) for pid in pids),
        tuple(thread(pid, main=True, frames=FRAMES) for pid in pids),
        (),
    )
    cut = limits.fitting(stacks)
    assert [row.rank for row in cut.processes] == [2, 3, 4, 5, 6, 7, 0, 1]
    assert [one.pid for one in cut.threads] == [*range(10, 18)]
    assert len(json.dumps(cut)) <= limits.LARGEST
