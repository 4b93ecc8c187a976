"""Each commit is judged by worlds of its own, and they can be played again."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from ..support.checkout import CHECKOUT
from .seeds import PLACES, WORLDS, first_of, seeds

if TYPE_CHECKING:
    import pytest


def test_the_seed_that_is_given_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSRUN_TEST_SEED", "7")
    assert seeds() == range(7, 7 + WORLDS)


def test_each_commit_has_seeds_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSRUN_TEST_SEED", raising=False)
    one, other = (first_of(f"{number:012x}" + 28 * "0") for number in (1, 2))
    assert other - one == WORLDS
    assert 0 <= seeds()[0] < PLACES * WORLDS
    assert seeds() == seeds()


def test_a_copy_without_git_has_some_as_well(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sources are the same, so the seeds are."""
    monkeypatch.delenv("DSRUN_TEST_SEED", raising=False)
    monkeypatch.setenv("GIT_DIR", f"{tmp_path}/none")
    command = ["git", "-C", str(CHECKOUT), "rev-parse", "HEAD"]
    assert subprocess.run(command, capture_output=True, check=False).returncode
    assert seeds() == seeds()
