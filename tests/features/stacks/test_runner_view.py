"""A rank as it is seen."""

from __future__ import annotations

from dsrun.launcher.features.stacks.runner_view import RankView

from ...support.stacks import FETCH, NEXT, process, thread, view


def test_the_worker_and_its_processes() -> None:
    child = process(3, 5000)
    whole = view(3, NEXT, children=((child, FETCH),))
    assert [whole.worker, whole.children] == [process(3), (child,)]
    assert [one.frames for one in whole.threads_of(5000)] == [FETCH]


def test_the_main_thread_comes_first() -> None:
    other = thread(4003, FETCH)._replace(main=False)
    whole = view(3, NEXT)
    whole = whole._replace(threads=(other, *whole.threads))
    assert [one.main for one in whole.threads_of(4003)] == [True, False]


def test_nothing_is_known() -> None:
    empty = RankView(3, "n1", 4003, problem="no answer")
    assert [empty.worker, empty.children, empty.threads_of(4003)] == [None, (), []]
