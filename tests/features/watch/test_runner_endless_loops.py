"""Ranks that compute while others wait for them; `test_hang.py` has whole histories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.stacks.messages import NetworkUse
from dsrun.launcher.features.watch.runner_endless_loops import MAY_BE_A_LOOP, Loops, goes_round
from dsrun.launcher.features.watch.runner_hang_verdict import LONGER

from ...support.recorded_stacks import recorded
from ...support.stacks import FETCH, LIB, LOAD, collective, view

if TYPE_CHECKING:
    from dsrun.launcher.features.stacks.runner_view import RankView

TIMEOUT = 20.0


@pytest.mark.parametrize("name", ["train-pyloop", "train-cloop"])
def test_loops_of_real_ranks(name: str) -> None:
    loops, views = Loops(TIMEOUT), recorded(name, 0.0)
    seen = []
    for half in range(1, 2 * LONGER + 1):
        now = half * TIMEOUT / 2
        called = collective(0, 12)._replace(members=(0, 1), age=now)
        at = {
            0: views[0]._replace(idle=now, collectives=(called,)),
            1: views[1]._replace(still=now),
        }
        seen.append(loops.sample(at, (1,), now))
    assert seen[:-1] == [None] * (2 * LONGER - 1)
    assert seen[-1] is not None
    assert (seen[-1].odd, seen[-1].doubt) == ((1,), MAY_BE_A_LOOP)


SYNCHRONIZE = (
    f"synchronize ({LIB}/site-packages/torch/cuda/__init__.py:1083)",
    "spin (/work/train.py:33)",
    "<module> (/work/train.py:60)",
)


@pytest.mark.parametrize("active", [True, False])
def test_a_rank_whose_kernel_does_not_end_goes_round(active: bool) -> None:
    """CUDA waits for it in a loop, unless it was told to sleep."""
    loops, seen = Loops(TIMEOUT), []
    for half in range(1, 2 * LONGER + 1):
        now = half * TIMEOUT / 2
        called = collective(0, 12)._replace(members=(0, 1), age=now)
        over = collective(1, 11, "completed")._replace(members=(0, 1))
        spins = view(1, SYNCHRONIZE, active=active, collectives=(over,))._replace(still=now)
        at = {0: view(0, collectives=(called,), idle=now), 1: spins}
        seen.append(loops.sample(at, (1,), now))
    found = seen[-1]
    assert bool(found) is active
    assert seen[:-1] == [None] * (2 * LONGER - 1)
    if found is not None:
        assert (found.odd, found.doubt) == ((1,), MAY_BE_A_LOOP)
        assert "waits for the device in spin (train.py:33)" in found.sentence


def test_a_look_that_could_not_read_a_rank_says_nothing_of_it() -> None:
    """As on a busy node; what was seen of it before still counts."""
    loops, views = Loops(TIMEOUT), recorded("train-pyloop", 0.0)
    seen = []
    for half in range(1, 2 * LONGER + 2):
        now = half * TIMEOUT / 2
        called = collective(0, 12)._replace(members=(0, 1), age=now)
        odd = views[1]._replace(still=now, threads=() if half == 3 else views[1].threads)
        at = {0: views[0]._replace(idle=now, collectives=(called,)), 1: odd}
        seen.append(loops.sample(at, (1,), now))
    assert [bool(one) for one in seen] == [False] * (2 * LONGER - 1) + [True, True]


def received(size: int) -> RankView:
    return view(3, LOAD)._replace(network=(NetworkUse(3, 4003, "", "", size, -1.0),))


ELSEWHERE: dict[str, tuple[RankView, RankView]] = {
    "another function": (view(3, LOAD), view(3, FETCH)),
    "another process": (view(3, LOAD), view(3, LOAD)._replace(pid=7)),
    "another collective": (
        view(3, LOAD, collectives=(collective(3, 4),)),
        view(3, LOAD, collectives=(collective(3, 5),)),
    ),
    "it has received something": (received(0), received(1 << 20)),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_rank_that_is_elsewhere_does_not_go_round(case: str) -> None:
    assert not goes_round(*ELSEWHERE[case])


SAME: dict[str, dict[str, Any]] = {
    "another line": {"frames": ("load_batch (/work/data.py:89)", *LOAD[1:])},
    "its collectives could not be read": {"collectives": (collective(3, 4),)},
}


@pytest.mark.parametrize("case", SAME)
def test_a_rank_that_goes_round(case: str) -> None:
    assert goes_round(view(3, LOAD), view(3, **{"frames": LOAD, **SAME[case]}))
