"""Hangs and healthy jobs of the real torch: what stands in `real_training.py` is named, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .real_training import HANGS, HEALTHY, PATIENT, Training

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .command import Dsrun
    from .hosts import Cluster

pytestmark = pytest.mark.usefixtures("torch_is_here")


def some(kinds: Iterable[str], *ci: str) -> list[Any]:
    """Leave all but these to the last tier: each takes half a minute."""
    late = pytest.mark.tier("all")
    return [one if one in ci else pytest.param(one, marks=late) for one in kinds]


@pytest.mark.parametrize("loader", some(HANGS, "tensors"))
def test_a_rank_that_hangs_in_a_training_is_named(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, loader: str
) -> None:
    kinds = HANGS[loader]
    training = Training(dsrun, tmp_path, loader, kinds)
    for number, kind in enumerate(kinds, 1):
        training.named(cluster, kind)
        training.release(cluster, kind)
        if number < len(kinds):
            training.goes_on(number)
    assert training.running.wait().returncode == 0
    assert len(training.alarms()) == len(kinds), training.running.stderr


@pytest.mark.parametrize("loader", some(HEALTHY, "tensors"))
def test_a_healthy_training_is_not_called_a_hang(dsrun: Dsrun, tmp_path: Path, loader: str) -> None:
    training = Training(dsrun, tmp_path, loader, HEALTHY[loader], PATIENT)
    done = training.running.wait()
    assert (done.returncode, done.stdout.count("is done")) == (0, 2), done.stderr
    assert training.alarms() == []
