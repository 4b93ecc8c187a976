"""Ranks and hosts in words."""

from __future__ import annotations

from dsrun.launcher.features.stacks.runner_rank_words import (
    culprit_child,
    ranks_of,
    state_or_place,
    who,
    within,
)

from ...support.stacks import FETCH, IDLE, LOAD, NEXT, process, ranks, view


def test_ranks_and_hosts() -> None:
    views = ranks(*(view(rank) for rank in range(8)))
    assert ranks_of([7]) == "rank 7"
    assert who([7], views) == "rank 7 (n3)"
    assert who([6, 0, 1, 2, 3, 4, 5], views) == "ranks 0-6 (n[0-3])"


def test_idle_processes_of_a_data_loader_are_not_waited_for() -> None:
    children = (process(0, 5000), IDLE), (process(0, 5001), ())
    assert culprit_child(view(0, NEXT, children=children)) is None


def test_a_stopped_process_comes_first_and_one_that_has_ended_last() -> None:
    busy, stopped, ended = process(0, 5001), process(0, 5002, "T"), process(0, 5003, "Z")
    children = [(ended, ()), (busy, FETCH), (stopped, ())]
    for expected in (stopped, busy, ended):
        assert culprit_child(view(0, NEXT, children=tuple(children))) is expected
        children = [one for one in children if one[0] is not expected]


def test_states() -> None:
    whole = view(0, LOAD, state="D", waits_in="fuse_read")
    assert whole.worker is not None
    assert state_or_place(whole, whole.worker) == (
        "is in an uninterruptible wait in the kernel (fuse_read), in load_batch (data.py:88)"
    )
    running = view(0, LOAD, active=True)
    assert running.worker is not None
    assert state_or_place(running, running.worker) == "is in load_batch (data.py:88)"


def test_nothing_within() -> None:
    from dsrun.launcher.features.stacks.runner_wait_kinds import place_of

    assert within(view(0, LOAD), place_of(view(0, LOAD))) == ""
