"""A hang in words, and in the report."""

from __future__ import annotations

from dsrun.launcher.features.stacks.runner_culprit import Reason, WaitExplanation, explain
from dsrun.launcher.features.watch.runner_hang_incident import hang_of

from ...support.stacks import LOAD, ranks, view


def test_the_time_is_that_of_the_odd_rank() -> None:
    views = ranks(view(0, idle=50.0), view(1, idle=40.0), view(2, LOAD, idle=62.0))
    found = hang_of(explain(views), views, {}, 100.0)
    assert found.sentence == (
        "no progress for 62 s: ranks 0-1 wait in all_reduce (train.py:41);"
        " rank 2 (n1) has been in load_batch (data.py:88) for 62 s"
    )
    assert [found.ranks, found.hosts, found.seconds, found.at] == [(2,), ("n1",), 62.0, 100.0]


def test_ranks_that_have_ended_are_odd_where_no_other_is() -> None:
    views = ranks(view(0, idle=50.0), view(1, idle=40.0))
    found = hang_of(explain(views), views, {3: "n2", 2: "n1"}, 100.0)
    assert found.sentence.startswith("no progress for 50 s: ranks 2-3 have already exited with ")
    assert [found.ranks, found.hosts, found.seconds] == [(2, 3), ("n1", "n2"), 50.0]


def test_what_workers_have_named_is_harmless() -> None:
    known = WaitExplanation("rank 0 is in \x1b[2Jf (x.py:1)", Reason.OUTSIDE, (0,))
    assert hang_of(known, ranks(view(0)), {}, 1.0).sentence.endswith(r"in \x1b[2Jf (x.py:1)")
