"""Some rows on virtual hosts, drawn by the commit: they hold, however long a busy machine takes."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.checkout import CHECKOUT
from ..support.promises import late
from .__main__ import PLACE, shared
from .figures import read
from .played import Stage, lacking
from .rows import ROWS, Row
from .trial import play

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = 20


def drawn() -> list[Row]:
    """Rows that may be played here, and have held so far, in an order of the commit's own."""
    git = ["git", "-C", str(CHECKOUT), "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    broken = {name for name, seen in read().items() if seen.failures}
    rows = [row for row in ROWS.values() if not row.skip and row.name not in broken]
    return random.Random(commit).sample(rows, MANY)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The hosts, where this machine can have some."""
    if os.geteuid():
        pytest.skip("virtual hosts need root")
    with closing(Stage(shared())) as made:
        yield made


@pytest.mark.tier("ci")
@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in drawn()])
def test_a_drawn_row_holds(stage: Stage, row: Row) -> None:
    if lack := lacking(row.way):
        pytest.skip(lack)
    with tempfile.TemporaryDirectory(prefix="dsrun-promised-", dir=PLACE) as folder:
        trial = play(row, stage, Path(folder), seed=0)
    assert [one for one in trial.why if not late(one)] == []
