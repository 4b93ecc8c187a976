"""Every commit is judged by the same worlds, or by others that are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .seeds import WORLDS, seeds

if TYPE_CHECKING:
    import pytest


def test_the_seed_that_is_given_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSRUN_TEST_SEED", "7")
    assert seeds() == range(7, 7 + WORLDS)
    monkeypatch.delenv("DSRUN_TEST_SEED")
    assert seeds() == range(WORLDS)
