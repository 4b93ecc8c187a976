"""Worlds: those that once failed, and as many new ones as there is time for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..support.checkout import CHECKOUT, IMPORTABLE
from .__main__ import judge, judged
from .history import as_text
from .kept import KEPT, UNSOLVED
from .scenario import scenario
from .world import play

WORLDS = 400
"""How many are played."""

PARTS = 8

FIRST = int(os.environ.get("DSRUN_TEST_SEED", "0"))
"""The first seed; without another one, every commit is judged by the same worlds."""


@pytest.mark.parametrize("name", KEPT)
def test_what_once_failed_does_not(name: str) -> None:
    assert judge(KEPT[name]).problems == []


@pytest.mark.parametrize("part", range(PARTS))
def test_new_worlds_are_clean(part: int) -> None:
    """A seed that fails is played again by `python -m tests.simulation --seed SEED --trace`."""
    first = FIRST + part * (WORLDS // PARTS)
    found = [judged(s) for s in range(first, first + WORLDS // PARTS) if s not in UNSOLVED]
    assert {one.seed: one.problems for one in found if one.problems} == {}


STORY = """
from tests.simulation.history import as_text
from tests.simulation.scenario import scenario
from tests.simulation.world import play
print(as_text(play(scenario({seed})).history))
"""


@pytest.mark.parametrize("seed", [3, 8, 21, 34])
def test_the_same_seed_is_the_same_story(seed: int) -> None:
    """Whatever the order of sets is."""
    stories = [
        subprocess.run(
            [sys.executable, "-c", STORY.format(seed=seed)],
            env={**os.environ, **IMPORTABLE, "PYTHONHASHSEED": order},
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for order in ("1", "2")
    ]
    assert stories[0] == stories[1] == f"{as_text(play(scenario(seed)).history)}\n"
