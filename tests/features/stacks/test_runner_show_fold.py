"""Equal stacks once, and stacks without what is within libraries."""

from __future__ import annotations

from dsrun.launcher.features.stacks.runner_show import fold
from dsrun.launcher.features.stacks.runner_view import RankView

from ...support.stacks import (
    ALL_REDUCE,
    FETCH,
    IDLE,
    LIB,
    LOAD,
    NEXT,
    TRAIN,
    process,
    ranks,
    thread,
    view,
)


def test_equal_stacks_are_one_and_the_odd_one_comes_first() -> None:
    folded = fold(ranks(view(0), view(1), view(2, LOAD), view(3)))
    assert [*folded.values()] == [[2], [0, 1, 3]]
    (load, reduce) = folded
    assert load.does == "is in load_batch (data.py:88)"
    assert reduce.several == "wait in all_reduce (train.py:41)"


def test_other_lines_are_other_stacks() -> None:
    other = (*ALL_REDUCE[:2], "main (/work/train.py:42)", ALL_REDUCE[3])
    assert len(fold(ranks(view(0), view(1, other)))) == 2


def test_what_is_within_libraries_is_left_out() -> None:
    (picture,) = fold(ranks(view(0)))
    (stack,) = picture.stacks
    assert [one.name for one in stack.frames] == ["all_reduce", "main", "<module>"]
    (picture,) = fold(ranks(view(0, NEXT)))
    (stack,) = picture.stacks
    names = ["select", "__next__", "load_batch", "main", "<module>"]
    assert [one.name for one in stack.frames] == names


def test_libraries_around_the_users_code() -> None:
    inner = f"forward ({LIB}/site-packages/torch/nn/modules/module.py:1)"
    outer = f"_run_code ({LIB}/runpy.py:88)"
    frames = LOAD[0], inner, f"wrapper ({LIB}/functools.py:3)", TRAIN[0], outer, outer
    (picture,) = fold(ranks(view(0, frames)))
    (stack,) = picture.stacks
    assert [one.name for one in stack.frames] == ["load_batch", "forward", "main"]
    (picture,) = fold(ranks(view(0, (outer, outer))))
    assert [one.name for one in picture.stacks[0].frames] == ["_run_code"]


def test_native_code_at_the_inner_end_is_kept() -> None:
    native = "0x7f6011aa3f16 (libc.so.6)", "pthread_cond_wait (libc.so.6)", "wait (libtorch.so)"
    (picture,) = fold(ranks(view(0, (*native, *ALL_REDUCE))))
    (stack,) = picture.stacks
    names = ["pthread_cond_wait", "wait", "all_reduce", "main", "<module>"]
    assert [one.name for one in stack.frames] == names


def test_the_process_that_a_rank_waits_for_is_shown() -> None:
    children = (process(0, 5000), IDLE), (process(0, 5001), FETCH)
    (picture,) = fold(ranks(view(0, NEXT, children=children)))
    (_, child) = picture.stacks
    assert child.title == "process 5001 is in Images.__getitem__ (data.py:12)"
    assert [one.name for one in child.frames] == ["__getitem__"]


def test_all_threads_with_all_frames() -> None:
    busy = thread(4000, LOAD, active=True)._replace(name="feeder", main=False)
    children = (process(0, 5001), FETCH), (process(0, 5002, "Z"), ())
    whole = view(0, NEXT, children=children)
    (picture,) = fold(ranks(whole._replace(threads=(busy, *whole.threads))), whole=True)
    assert [one.title for one in picture.stacks] == [
        *("", "thread feeder, runs"),
        *("process 5001 (python train.py)", "process 5002 (python train.py) has ended"),
    ]
    assert [len(one.frames) for one in picture.stacks] == [len(NEXT), len(LOAD), len(FETCH), 0]


def test_why_there_is_no_stack() -> None:
    problem = "py-spy: permission denied"
    closed = view(0, ())
    closed = closed._replace(processes=(closed.processes[0]._replace(problem=problem),))
    silent = RankView(1, "n0", 4001, problem="no stacks within 1 s")
    ended = RankView(2, "n1", 4002)
    stopped = view(3, LOAD, state="T")
    said = {
        some[0]: picture for picture, some in fold(ranks(closed, silent, ended, stopped)).items()
    }
    assert [said[rank].does for rank in range(4)] == [
        problem,
        "no stacks within 1 s",
        "nothing was reported about it",
        "is stopped by a signal such as SIGSTOP, in load_batch (data.py:88)",
    ]
    (picture,) = fold(ranks(closed), whole=True)
    assert picture.stacks[0].title == problem
