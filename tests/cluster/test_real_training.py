"""Hangs and healthy jobs of the real torch: what stands in `real_training.py` is named, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .real_training import HANGS, HEALTHY, LOADED, Training

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun
    from .hosts import Cluster

pytestmark = pytest.mark.usefixtures("torch_is_here")


def test_a_rank_that_hangs_in_a_training_is_named(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    training = Training(dsrun, tmp_path, hangs=tuple(HANGS))
    for number, kind in enumerate(HANGS, 1):
        training.named(kind)
        training.release(cluster, kind)
        if number < len(HANGS):
            training.goes_on(number)
    assert len(training.alarms()) == len(HANGS)
    assert training.running.wait().returncode == 0


@pytest.mark.parametrize(
    ("workers", "does"),
    [
        pytest.param(0, HEALTHY, marks=pytest.mark.tier("all"), id="plain"),
        pytest.param(2, LOADED, id="loaded"),
    ],
)
def test_a_healthy_training_is_not_called_a_hang(
    dsrun: Dsrun, tmp_path: Path, workers: int, does: tuple[str, ...]
) -> None:
    training = Training(dsrun, tmp_path, healthy=does, workers=workers)
    done = training.running.wait()
    assert (done.returncode, done.stdout.count("is done")) == (0, 2), done.stderr
    assert training.alarms() == []
