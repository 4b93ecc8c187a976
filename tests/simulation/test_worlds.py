"""Worlds: those that once failed, and as many new ones as there is time for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..support.checkout import CHECKOUT, IMPORTABLE
from .__main__ import judge, judged
from .kept import KEPT, each
from .seeds import seeds

PARTS = 8

SEEDS = seeds()
"""Every commit is judged by other worlds; those that were shown to be wrong are kept."""


@pytest.mark.parametrize("name", KEPT)
def test_what_once_failed_does_not(name: str) -> None:
    assert [problems for one in each(KEPT[name]) if (problems := judge(one).problems)] == []


@pytest.mark.parametrize("part", range(PARTS))
def test_new_worlds_are_clean(part: int) -> None:
    """Each line names a seed and what was wrong, and how it is played again."""
    found = [judged(seed) for seed in SEEDS[part::PARTS]]
    told = [f"{AGAIN} --seed {one.seed} --trace: {one.problems}" for one in found if one.problems]
    if told:
        played = f"of seeds from {SEEDS[0]} on (DSRUN_TEST_SEED={SEEDS[0]}):"
        pytest.fail("\n".join([played, *told]), pytrace=False)


AGAIN = "python -m tests.simulation"

STORY = """
from tests.simulation.history import as_text
from tests.simulation.scenario import scenario
from tests.simulation.world import play
print(as_text(play(scenario({seed})).history))
"""


@pytest.mark.parametrize("seed", [3, 8, 21, 31, 34, 1000002, 1000005])
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
    assert stories[0] == stories[1] != ""


REAL = """
import sys
from tests.simulation.scenario import scenario
from tests.simulation.world import play
EFFECTS = {{"os.fork", "os.kill", "socket.connect", "socket.bind", "subprocess.Popen"}}
sys.addaudithook(lambda event, _: event in EFFECTS and print(event))
for seed in {seeds}:
    play(scenario(seed))
"""


def test_a_world_does_nothing_to_the_real_system() -> None:
    """Nothing in it depends on what goes on beside it, so that a seed is always the same."""
    seeds = [3, 21, 34, 52, 1771, 1000005]
    command = [sys.executable, "-c", REAL.format(seeds=seeds)]
    told = subprocess.run(
        command,
        env={**os.environ, **IMPORTABLE},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == ""
