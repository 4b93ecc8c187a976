"""Who waits for whom, in one sentence: from stacks, states and collectives, without any guess."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.stacks.runner_culprit import Reason, explain
from dsrun.launcher.features.stacks.runner_view import RankView

from ...support.stacks import (
    ALL_REDUCE,
    BACKWARD,
    BARRIER,
    BUFFERS,
    FETCH,
    IDLE,
    LOAD,
    NEW_GROUP,
    NEXT,
    TRAIN,
    collective,
    process,
    ranks,
    view,
)

if TYPE_CHECKING:
    from dsrun.launcher.features.stacks.messages import Collective

THREE = (view(0), view(1), view(2))
WAIT = "ranks 0-2 wait in all_reduce (train.py:41)"


FUTEX = "futex_do_wait"
LOCKED = ("wait (/usr/lib/python3.11/threading.py:320)", *TRAIN)


def silent(rank: int) -> RankView:
    return RankView(rank, "n1", 4000 + rank, problem="no stacks within 1 s")


def child(rank: int, state: str, frames: tuple[str, ...] = FETCH) -> RankView:
    idle = process(rank, 5000), IDLE
    return view(rank, NEXT, children=(idle, (process(rank, 5001, state), frames)))


CASES = {
    "a rank loads while the others reduce": (
        (*THREE, view(3, LOAD, idle=62.2)),
        (3,),
        Reason.OUTSIDE,
        f"{WAIT}; rank 3 (n1) has been in load_batch (data.py:88) for 62 s",
    ),
    "it holds the interpreter's lock": (
        (*THREE, view(3, LOAD, idle=62.2, active=True)),
        (3,),
        Reason.OUTSIDE,
        f"{WAIT}; rank 3 (n1) has been in load_batch (data.py:88) for 62 s,"
        " holding the interpreter's lock (GIL)",
    ),
    "it sleeps there, as the kernel says": (
        (*THREE, view(3, LOAD, waits_in="hrtimer_nanosleep")),
        (3,),
        Reason.OUTSIDE,
        f"{WAIT}; rank 3 (n1) sleeps in load_batch (data.py:88)",
    ),
    "it waits for a lock": (
        (*THREE, view(3, LOAD, waits_in="futex_do_wait")),
        (3,),
        Reason.OUTSIDE,
        f"{WAIT}; rank 3 (n1) waits for a lock or native code in load_batch (data.py:88)",
    ),
    "one of them is stopped": (
        (*THREE, view(3, LOAD, state="T")),
        (3,),
        Reason.STOPPED,
        f"{WAIT}; rank 3 (n1), pid 4003, is stopped by a signal such as SIGSTOP,"
        " in load_batch (data.py:88)",
    ),
    "stopped within the collective": (
        (*THREE, view(3, state="T")),
        (3,),
        Reason.STOPPED,
        f"{WAIT}; rank 3 (n1), pid 4003, is stopped by a signal such as SIGSTOP,"
        " in all_reduce (train.py:41)",
    ),
    "stopped, and its stack cannot be read": (
        (*THREE, view(3, (), state="T")),
        (3,),
        Reason.STOPPED,
        f"{WAIT}; rank 3 (n1), pid 4003, is stopped by a signal such as SIGSTOP",
    ),
    "two are stopped": (
        (view(0), view(1), view(2, state="T"), view(3, state="T")),
        (2, 3),
        Reason.STOPPED,
        "ranks 0-1 wait in all_reduce (train.py:41);"
        " ranks 2-3 (n1) are stopped by a signal such as SIGSTOP",
    ),
    "one is in D state": (
        (*THREE, view(3, LOAD, state="D", waits_in="rpc_wait_bit_killable")),
        (3,),
        Reason.BLOCKED,
        f"{WAIT}; rank 3 (n1), pid 4003, is in an uninterruptible wait in the kernel"
        " (rpc_wait_bit_killable), in load_batch (data.py:88)",
    ),
    "a node does not answer": (
        (view(0), view(1), silent(2), silent(3)),
        (2, 3),
        Reason.SILENT,
        "ranks 0-1 wait in all_reduce (train.py:41); ranks 2-3 (n1): no stacks within 1 s",
    ),
    "a node does not answer, and another rank is clear": (
        (view(0), view(1, LOAD), silent(2), silent(3)),
        (1,),
        Reason.OUTSIDE,
        "rank 0 waits in all_reduce (train.py:41); rank 1 (n0) is in load_batch (data.py:88);"
        " ranks 2-3 (n1): no stacks within 1 s",
    ),
    "one reads from a disk, another one is clear": (
        (view(0), view(1), view(2, LOAD, state="D"), view(3, LOAD)),
        (2, 3),
        Reason.OUTSIDE,
        "ranks 0-1 wait in all_reduce (train.py:41); ranks 2-3 (n1) are in load_batch (data.py:88)",
    ),
    "its data loader's process is stopped": (
        (*THREE, child(3, "T")),
        (3,),
        Reason.CHILD,
        f"{WAIT}; rank 3 (n1) waits for the data loader in load_batch (data.py:88),"
        " whose process 5001 is stopped by a signal such as SIGSTOP, in Images.__getitem__"
        " (data.py:12)",
    ),
    "its data loader's process has ended": (
        (view(0), child(1, "Z", ())),
        (1,),
        Reason.CHILD,
        "rank 0 waits in all_reduce (train.py:41); rank 1 (n0) waits for the data loader in"
        " load_batch (data.py:88), whose process 5001 has ended",
    ),
    "its data loader's process is stuck": (
        (*THREE, child(3, "S")),
        (3,),
        Reason.OUTSIDE,
        f"{WAIT}; rank 3 (n1) waits for the data loader in load_batch (data.py:88),"
        " whose process 5001 is in Images.__getitem__ (data.py:12)",
    ),
    "native code of which nothing is known does not count if another rank is clear": (
        (view(0), view(1), view(2, TRAIN, waits_in="futex_do_wait"), view(3, LOAD)),
        (3,),
        Reason.OUTSIDE,
        "ranks 0-1 wait in all_reduce (train.py:41); rank 3 (n1) is in load_batch (data.py:88)",
    ),
    "all but one wait in native code": (
        (*(view(n, TRAIN, waits_in="futex_do_wait") for n in range(3)), view(3, LOAD)),
        (3,),
        Reason.OUTSIDE,
        "ranks 0-2 wait for a lock or native code in main (train.py:41);"
        " rank 3 (n1) is in load_batch (data.py:88)",
    ),
    "one has locked itself out while the others wait for a signal": (
        (*(view(n, TRAIN, waits_in="sys_pause") for n in (0, 1, 2)), view(3, LOAD, waits_in=FUTEX)),
        (3,),
        Reason.DIFFERENT,
        "ranks 0-2 wait for a signal in main (train.py:41);"
        " rank 3 (n1) waits for a lock or native code in load_batch (data.py:88)",
    ),
    "the same with a lock of threading's, on one of two": (
        (view(0, LOCKED), view(1, TRAIN, waits_in="sys_pause")),
        (0,),
        Reason.DIFFERENT,
        "rank 1 waits for a signal in main (train.py:41);"
        " rank 0 (n0) waits for a lock or a thread in main (train.py:41)",
    ),
    "most wait in native code, perhaps for the one that waits for a signal": (
        (*(view(n, TRAIN, waits_in=FUTEX) for n in (0, 1, 2)), view(3, LOAD, waits_in="sys_pause")),
        (3,),
        Reason.OUTSIDE,
        "ranks 0-2 wait for a lock or native code in main (train.py:41);"
        " rank 3 (n1) waits for a signal in load_batch (data.py:88)",
    ),
    "who waits for a signal keeps the others from a collective": (
        (*THREE, view(3, LOAD, waits_in="sys_pause")),
        (3,),
        Reason.OUTSIDE,
        f"{WAIT}; rank 3 (n1) waits for a signal in load_batch (data.py:88)",
    ),
    "one in the backward pass": (
        (*THREE, view(3, BACKWARD)),
        (3,),
        Reason.DIFFERENT,
        f"{WAIT}; rank 3 (n1) is in the backward pass in main (train.py:41)",
    ),
    "its stack cannot be read": (
        (*THREE, view(3, ())),
        (3,),
        Reason.UNKNOWN,
        f"{WAIT}; the stack of rank 3 (n1) could not be read",
    ),
    "one waits elsewhere": (
        (*THREE, view(3, BARRIER)),
        (3,),
        Reason.DIFFERENT,
        f"{WAIT}; rank 3 (n1) waits in barrier (train.py:55)",
    ),
    "half of them wait elsewhere": (
        (view(0), view(1), view(2, BARRIER), view(3, BARRIER)),
        (),
        Reason.DIFFERENT,
        "ranks 0-1 (n0) wait in all_reduce (train.py:41);"
        " ranks 2-3 (n1) wait in barrier (train.py:55)",
    ),
    "in the backward pass, one loads": (
        (*(view(rank, BACKWARD) for rank in range(3)), view(3, LOAD)),
        (3,),
        Reason.OUTSIDE,
        "ranks 0-2 are in the backward pass in main (train.py:41);"
        " rank 3 (n1) is in load_batch (data.py:88)",
    ),
    "all wait in the same collective": (
        (*THREE, view(3)),
        (),
        Reason.NOBODY,
        "all 4 ranks wait in all_reduce (train.py:41)",
    ),
    "nobody waits for another": (
        (view(0, LOAD), view(1, BACKWARD, active=True)),
        (),
        Reason.NOBODY,
        "rank 0 (n0) is in load_batch (data.py:88);"
        " rank 1 (n0) is in the backward pass in main (train.py:41)",
    ),
    "one rank alone": (
        (view(0, LOAD, waits_in="futex_do_wait", idle=5.0),),
        (),
        Reason.NOBODY,
        "rank 0 (n0) waits for a lock or native code in load_batch (data.py:88) for 5 s",
    ),
    "no rank": ((), (), Reason.NOBODY, "no rank is running"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_sentence(case: str) -> None:
    views, odd, reason, sentence = CASES[case]
    found = explain(ranks(*views))
    assert [found.sentence, found.odd, found.reason] == [sentence, odd, reason]
    assert not {*found.odd} & {*found.waiting}


def test_who_is_behind_by_the_recorded_collectives() -> None:
    views = ranks(
        *(view(rank, BACKWARD, collectives=(collective(rank, 12),)) for rank in range(3)),
        view(3, LOAD, active=True, collectives=(collective(3, 11, "completed"),)),
    )
    found = explain(views)
    assert found.sentence == (
        "ranks 0-2 wait in all_reduce (train.py:41); rank 3 (n1) is in load_batch (data.py:88),"
        " before collective 12 of default_pg (all_reduce)"
    )
    assert [found.odd, found.waiting, found.reason, found.sure] == [
        *((3,), (0, 1, 2)),
        *(Reason.BEHIND, True),
    ]


def test_another_operation_as_the_same_collective() -> None:
    views = ranks(
        *(view(rank, collectives=(collective(rank, 12),)) for rank in range(3)),
        view(3, BARRIER, collectives=(collective(3, 12, operation="barrier"),)),
    )
    found = explain(views)
    assert found.sentence == (
        f"{WAIT}; rank 3 (n1) waits in barrier (train.py:55);"
        " collective 12 of default_pg is all_reduce in ranks 0-2 and barrier in rank 3"
    )
    assert [found.odd, found.reason] == [(3,), Reason.MISMATCH]


def test_half_of_the_ranks_call_something_else() -> None:
    views = ranks(
        view(0, collectives=(collective(0, 12, members=(0, 1)),)),
        view(1, collectives=(collective(1, 12, members=(0, 1), sizes="[[7]]"),)),
    )
    found = explain(views)
    assert found.sentence == (
        "ranks 0-1 (n0) wait in all_reduce (train.py:41); collective 12 of default_pg is"
        " all_reduce of [[10]] ['Float'] in rank 0 and all_reduce of [[7]] ['Float'] in rank 1"
    )
    assert [found.odd, found.reason, found.sure] == [(), Reason.MISMATCH, False]


def odd_and_reason(*views: RankView) -> tuple[tuple[int, ...], Reason]:
    found = explain(ranks(*views))
    assert not {*found.odd} & {*found.waiting}
    return found.odd, found.reason


def called(rank: int, *operations: str, over: int = 0) -> tuple[Collective, ...]:
    """Collectives of a rank from number 7 on, of which so many are over; gloo has no members."""
    states = ["completed" if at < over else "started" for at in range(len(operations))]
    return tuple(
        collective(rank, 7 + at, states[at], operation=one, members=())
        for at, one in enumerate(operations)
    )


def test_a_rank_that_leaves_the_loop_while_ddp_broadcasts_buffers() -> None:
    """Rank 1 has received the buffers, and rank 0, which sends them, is in its next step."""
    first = view(0, BUFFERS, collectives=called(0, "broadcast", "all_reduce", "broadcast", over=0))
    second = view(1, BACKWARD, collectives=called(1, "broadcast", "all_reduce", over=1))
    third = view(2, BARRIER, collectives=called(2, "barrier"))
    found = explain(ranks(first, second, third))
    assert [found.odd, found.waiting, found.reason] == [(2,), (0, 1), Reason.MISMATCH]
    assert found.sentence.startswith("rank 0 waits in _sync_buffers (train.py:41); rank 1 waits in")
    assert found.sentence.endswith(
        "7 of default_pg is broadcast in ranks 0-1 and barrier in rank 2"
    )


@pytest.mark.parametrize("skips", [(0,), (1,), (3,)])
def test_a_rank_that_skips_a_backward_pass(skips: tuple[int, ...]) -> None:
    """It is in the broadcast of its next step; rank 0, as it only sends, even behind that."""
    views = (
        view(rank, BUFFERS, collectives=called(rank, "broadcast", "all_reduce", over=int(not rank)))
        if rank in skips
        else view(rank, BACKWARD, collectives=called(rank, "all_reduce"))
        for rank in range(4)
    )
    assert odd_and_reason(*views) == (skips, Reason.MISMATCH)


def test_as_many_call_one_operation_as_another() -> None:
    views = [
        view(rank, BUFFERS, collectives=called(rank, "broadcast", "all_reduce", over=1))
        if rank % 2
        else view(rank, BARRIER, collectives=called(rank, "barrier"))
        for rank in range(4)
    ]
    assert odd_and_reason(*views) == ((), Reason.MISMATCH)


def test_a_rank_that_skips_new_group() -> None:
    """The others wait for it at the store, and have not called the collective in which it is."""
    inside = [
        view(rank, NEW_GROUP, collectives=called(rank, "broadcast", over=1)) for rank in range(3)
    ]
    skips = view(3, BARRIER, collectives=called(3, "broadcast", "barrier", over=1))
    found = explain(ranks(*inside, skips))
    assert [found.odd, found.waiting, found.reason] == [(3,), (0, 1, 2), Reason.MISMATCH]
    assert found.sentence == (
        "ranks 0-2 wait for the other ranks in new_group (train.py:44);"
        " rank 3 (n1) waits in barrier (train.py:55)"
    )
    assert odd_and_reason(inside[0], skips) == ((), Reason.MISMATCH)


def test_who_waits_elsewhere_is_not_behind_if_another_rank_is() -> None:
    """Rank 2 waits at the store, and rank 3 does not: the others wait for that."""
    come = [view(rank, collectives=called(rank, "all_reduce")) for rank in range(2)]
    done = called(2, "all_reduce", over=1)[0]._replace(sequence=6)
    away = view(2, NEW_GROUP, collectives=(done,)), view(3, LOAD, collectives=(done,))
    found = explain(ranks(*come, *away))
    assert [found.odd, found.waiting, found.reason] == [(3,), (0, 1, 2), Reason.BEHIND]


def test_one_that_waits_elsewhere_than_most_is_behind() -> None:
    come = [view(rank, collectives=called(rank, "all_reduce")) for rank in range(3)]
    done = called(3, "all_reduce", over=1)[0]._replace(sequence=6)
    assert odd_and_reason(*come, view(3, NEW_GROUP, collectives=(done,))) == ((3,), Reason.BEHIND)


def test_many_places_are_counted() -> None:
    elsewhere = [view(rank, (f"f{rank} (/work/x.py:{rank})",)) for rank in range(1, 7)]
    found = explain(ranks(view(0), *elsewhere))
    assert found.odd == (1, 2, 3, 4, 5, 6)
    assert found.sentence.endswith("rank 3 (n1) is in f3 (x.py:3); ranks 4-6 are elsewhere")


def test_what_runs_while_a_lock_is_waited_for() -> None:
    whole = view(3, ALL_REDUCE[3:], waits_in="futex_do_wait")
    busy = whole.threads[0]._replace(name="feeder", main=False, active=True)
    found = explain(ranks(view(0), whole._replace(threads=(*whole.threads, busy))))
    assert found.sentence.endswith(", while its thread 'feeder' is in <module> (train.py:60)")
