"""Whether ranks hang, from two looks at them."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from dsrun.launcher.features.stacks.messages import STORE, NetworkUse
from dsrun.launcher.features.stacks.runner_culprit import Reason
from dsrun.launcher.features.stacks.runner_view import RankView
from dsrun.launcher.features.watch.runner_hang_verdict import (
    MAY_BE_A_WAIT,
    MAY_BE_AT_WORK,
    Judgement,
    Stay,
    judge,
)

from ...support.stacks import (
    ALL_REDUCE,
    BACKWARD,
    BARRIER,
    LIB,
    LOAD,
    NEXT,
    TRAIN,
    collective,
    process,
    ranks,
    thread,
    view,
)

LOCKED = "futex_do_wait"


def judged(
    before: dict[int, RankView], now: dict[int, RankView], timeout: float, passed: float
) -> Judgement:
    """Judge ranks that were long where they are."""
    return judge(before, now, timeout, passed, {rank: Stay(inf) for rank in now})


def waiting(count: int = 3, **how: Any) -> list[RankView]:
    return [view(rank, **{"idle": 30.0, **how}) for rank in range(count)]


def reason(*views: RankView, before: dict[int, RankView] | None = None) -> Reason | None:
    now = ranks(*views)
    found = judged(now if before is None else before, now, 20.0, 10.0)
    return found.hang.reason if found.hang else None


def test_a_rank_that_does_something_else_while_others_wait() -> None:
    assert reason(*waiting(), view(3, LOAD, idle=25.0)) is Reason.OUTSIDE
    found = judged(ranks(*waiting(4)), ranks(*waiting(), view(3, LOAD, idle=25.0)), 20.0, 10.0)
    assert (found.hang, found.working) == (None, (3,))


@pytest.mark.parametrize("how", [{"idle": 19.0}, {"idle": 0.0, "active": True}])
def test_a_rank_that_works_speaks_against_it(how: dict[str, Any]) -> None:
    views = ranks(*waiting(), view(3, LOAD, **how))
    assert judged(views, views, 20.0, 10.0)[:2] == (None, (3,))


def test_a_rank_that_was_elsewhere_before_works() -> None:
    now = ranks(*waiting(), view(3, LOAD, idle=25.0))
    for before in (
        ranks(*waiting()),
        {**now, 3: now[3]._replace(pid=1)},
        {**now, 3: view(3, LOAD[1:])},
        {**now, 3: view(3, LOAD, collectives=(collective(3, 4),))},
    ):
        assert judged(before, now, 20.0, 10.0)[:2] == (None, (3,))


def test_a_wait_for_others_may_use_the_cpu() -> None:
    busy = [view(rank, active=True) for rank in range(3)]
    assert reason(*busy, view(3, LOAD, idle=25.0)) is Reason.OUTSIDE
    assert reason(*busy, view(3, active=True)) is None


def test_nobody_is_idle_but_a_collective_is_recorded_that_does_not_end() -> None:
    busy = [
        view(rank, BACKWARD, active=True, collectives=(collective(rank, 7),)) for rank in range(3)
    ]
    odd = view(3, BARRIER, active=True, collectives=(collective(3, 7, operation="barrier"),))
    assert reason(*busy, odd) is Reason.MISMATCH
    done = odd._replace(collectives=(collective(3, 6, "completed"),))
    assert reason(*busy, done) is None


LONE: dict[str, tuple[dict[str, Any], Reason | None]] = {
    "stopped": ({"state": "T"}, Reason.STOPPED),
    "in D state": ({"state": "D"}, Reason.BLOCKED),
    "a lock": ({"waits_in": LOCKED}, Reason.NOBODY),
    "asleep": ({"waits_in": "hrtimer_nanosleep"}, None),
    "in unknown code": ({}, None),
}


@pytest.mark.parametrize("case", LONE)
def test_one_rank_alone(case: str) -> None:
    how, expected = LONE[case]
    assert reason(view(0, LOAD, idle=25.0, **how)) is expected


TIMER = f"Event.wait ({LIB}/threading.py:629)", f"Timer.run ({LIB}/threading.py:1399)"

WITHIN: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "a queue": ((f"Queue.get ({LIB}/queue.py:171)", *LOAD), (), MAY_BE_A_WAIT),
    "a thread": ((f"Thread.join ({LIB}/threading.py:1119)", *LOAD), (), MAY_BE_A_WAIT),
    "a lock": (LOAD, (), ""),
    "a lock, beside a timer": (LOAD, TIMER, MAY_BE_A_WAIT),
    "an event": ((f"Event.wait ({LIB}/threading.py:629)", *LOAD), (), ""),
}


@pytest.mark.parametrize("case", WITHIN)
@pytest.mark.parametrize("count", [1, 3])
def test_what_may_go_on_where_no_rank_waits_for_another(case: str, count: int) -> None:
    frames, other, doubt = WITHIN[case]
    views = waiting(count, frames=frames, waits_in=LOCKED)
    more = [thread(one.pid, other)._replace(main=False) for one in views if other]
    now = ranks(
        *(
            one._replace(threads=(*one.threads, *(row for row in more if row.pid == one.pid)))
            for one in views
        )
    )
    found = judged(now, now, 20.0, 10.0).hang
    assert found is not None
    assert found.doubt == doubt
    with_another = {**now, 3: view(3, idle=30.0)}
    waited_for = judged(with_another, with_another, 20.0, 10.0).hang
    assert waited_for is not None
    assert (waited_for.waiting, waited_for.doubt) == ((3,), "")


def test_a_wait_within_a_rank_is_the_same_in_both_looks() -> None:
    asleep = ranks(view(0, LOAD, waits_in="hrtimer_nanosleep"))
    assert reason(view(0, LOAD, idle=25.0, waits_in=LOCKED), before=asleep) is None


def test_one_rank_alone_waits_for_no_other() -> None:
    assert reason(view(0, ALL_REDUCE, idle=25.0)) is None
    assert reason(*waiting(2)) is Reason.NOBODY
    assert reason(*(view(rank, BACKWARD, idle=25.0) for rank in range(2))) is Reason.NOBODY


def test_ranks_without_stacks() -> None:
    assert reason(*(view(rank, (), idle=25.0) for rank in range(2))) is None
    assert reason(*waiting(), view(3, (), idle=25.0)) is Reason.UNKNOWN
    assert reason(view(0, (), idle=25.0, state="T")) is Reason.STOPPED


@pytest.mark.parametrize("late", [True, False])
def test_a_stack_that_is_not_read_in_time_stops_no_job(late: bool) -> None:
    """It is idle, as far as is known, and the others wait: a checkpoint looks like that, too."""
    unread = view(3, (), idle=25.0)
    problem = "py-spy did not answer in time" if late else "py-spy may not read it"
    (worker,) = unread.processes
    now = ranks(*waiting(), unread._replace(processes=(worker._replace(problem=problem),)))
    silent = ranks(*waiting(), RankView(3, "n1", 4003, problem="no stacks within 9 s", idle=25.0))
    for seen, doubt in ((now, MAY_BE_AT_WORK if late else ""), (silent, MAY_BE_AT_WORK)):
        found = judged(seen, seen, 20.0, 10.0).hang
        assert found is not None
        assert (found.odd, found.doubt) == ((3,), doubt)


def test_a_node_that_has_not_answered() -> None:
    gone = RankView(3, "n1", 4003, problem="n1 has not answered for 25 s", idle=25.0)
    assert reason(*waiting(), gone) is Reason.SILENT
    assert reason(view(0, LOAD, idle=25.0), gone) is None


def test_a_process_of_its_data_loader_cannot_go_on() -> None:
    from ...support.stacks import FETCH

    children = ((process(3, 5000, "T"), FETCH),)
    assert reason(view(3, NEXT, idle=25.0, children=children)) is Reason.CHILD


def carrying(seconds: float, *views: RankView) -> dict[int, RankView]:
    """Ranks of which rank 1 says when gloo has last carried something."""
    use = NetworkUse(1, 4001, "", "", 0, seconds)
    return {one.rank: one._replace(network=(use,) if one.rank == 1 else ()) for one in views}


def test_what_gloo_carries_from_rank_to_rank_is_progress() -> None:
    """As in a pipeline of sends and receives, which torch does not record."""
    ranks_of_pipeline = (*waiting(2), view(2, LOAD, idle=25.0))
    for seconds, again in ((12.0, 8.0), (0.0, 20.0)):
        seen = carrying(seconds, *ranks_of_pipeline)
        assert judged(seen, seen, 20.0, 10.0) == (None, (), again)
    for seconds in (20.0, -1.0):
        seen = carrying(seconds, *ranks_of_pipeline)
        found = judged(seen, seen, 20.0, 10.0).hang
        assert found is not None
        assert found.odd == (2,)


@pytest.mark.parametrize(
    ("idle", "stay", "again"),
    [
        (30.0, Stay(5.0), 0.0),
        (0.0, Stay(20.0), 0.0),
        (0.0, Stay(5.0), 15.0),
        (30.0, Stay(1.0, 5.0), 19.0),
        (3.0, Stay(1.0, 25.0), 17.0),
        (0.0, Stay(1.0, 25.0), 19.0),
        (20.0, Stay(1.0, 25.0), 0.0),
        (30.0, Stay(20.0, 25.0), 0.0),
    ],
)
def test_ranks_have_waited_for_as_long_as_they_may(idle: float, stay: Stay, again: float) -> None:
    """A rank may have slept for hours before the others came to wait for it."""
    seen = ranks(*waiting(2, idle=idle), view(2, LOAD, idle=5000.0))
    found = judge(seen, seen, 20.0, 10.0, {0: stay, 1: stay, 2: Stay(inf)})
    assert (found.hang is None, found.again) == (again > 0, again)


SILENT: dict[str, tuple[dict[str, Any], bool]] = {
    "a file lock": ({"frames": TRAIN, "waits_in": "locks_lock_inode_wait"}, True),
    "a connection": ({"frames": TRAIN, "waits_in": "sk_wait_data"}, True),
    "its data loader": ({"frames": NEXT}, True),
    "a program": ({"frames": TRAIN, "waits_in": "do_wait"}, True),
    "sleep": ({"frames": TRAIN, "waits_in": "hrtimer_nanosleep"}, False),
    "a signal": ({"frames": TRAIN, "waits_in": "sys_pause"}, False),
    "no Python": ({"frames": ()}, False),
}


@pytest.mark.parametrize("case", SILENT)
def test_ranks_that_wait_for_no_rank_are_told_of_late(case: str) -> None:
    how, told = SILENT[case]
    for idle, due in ((59.0, False), (60.0, told)):
        seen = ranks(*(view(rank, idle=idle, **how) for rank in range(2)))
        found = judged(seen, seen, 20.0, 10.0).hang
        assert (found.doubt if found else None) == (MAY_BE_A_WAIT if due else None)


def test_keys_of_the_store_may_come_from_elsewhere() -> None:
    """Where all ranks wait for one; a rank that does something else may owe it."""

    def reading(rank: int, idle: float) -> RankView:
        use = NetworkUse(rank, 4000 + rank, STORE, "", 0, -1.0)
        return view(rank, TRAIN, idle=idle, waits_in="wait_woken")._replace(network=(use,))

    both = ranks(reading(0, 30.0), reading(1, 30.0))
    assert judged(both, both, 20.0, 10.0).hang is None
    late = ranks(reading(0, 60.0), reading(1, 60.0))
    found = judged(late, late, 20.0, 10.0).hang
    assert found is not None
    assert (found.odd, found.doubt) == ((), MAY_BE_A_WAIT)
    one = ranks(reading(0, 30.0), reading(1, 30.0), view(2, LOAD, idle=30.0))
    found = judged(one, one, 20.0, 10.0).hang
    assert found is not None
    assert (found.odd, found.doubt) == ((2,), "")


def test_no_ranks() -> None:
    assert judged({}, {}, 20.0, 10.0)[:2] == (None, ())
