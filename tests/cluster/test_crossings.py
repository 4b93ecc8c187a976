"""Features meet: in whatever way a job is started, what it has promised is there at its end."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from .crossings import CODES, LINES, TRAIN, Combination, Crossing, covering
from .scripts import lines_by_rank

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .hosts import Cluster

ROWS = [
    pytest.param(row, id=row.name, marks=pytest.mark.tier("all") if at % 4 else [])
    for at, row in enumerate(covering())
]


@pytest.fixture
def project(cluster: Cluster) -> Iterator[str]:
    """A folder with the script, which the login alone has; its path there."""
    path = cluster.login.root / "tmp" / f"project-{uuid.uuid4().hex[:8]}"
    path.mkdir()
    (path / "train.py").write_text(TRAIN)
    yield f"/tmp/{path.name}"
    shutil.rmtree(path)


@pytest.mark.parametrize("row", ROWS)
def test_where_features_meet(
    cluster: Cluster, tmp_path: Path, project: str, row: Combination
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    crossing = Crossing(cluster, tmp_path, str(tmp_path) if row.sync == "none" else project, row)
    crossing.run()
    assert crossing.codes == [CODES[row.end]] * crossing.jobs
    lines = [f"start {at} line {n}" for at in range(row.starts) for n in range(LINES)]
    shown = lines_by_rank(crossing.shown)
    for rank in (0, 1):
        assert shown[rank] == lines * crossing.jobs
    for job in range(crossing.jobs):
        check_files(crossing, job, row, lines)


def check_files(crossing: Crossing, job: int, row: Combination, lines: list[str]) -> None:
    """Whether the report, the metrics, the logs and the events of a job are all there."""
    code = CODES[row.end]
    assert json.loads(crossing.file("report", job).read_text())["exit_code"] == code
    metrics = crossing.file("metrics", job).read_text()
    assert re.findall(r"(?m)^dsrun_exit_code\{.*\} (.*)$", metrics) == [f"{code}.0"]
    for rank in (0, 1):
        logs = sorted(crossing.file("logs", job).rglob(f"rank-{rank:04d}.out"))
        assert "".join(log.read_text() for log in logs).splitlines() == lines
    if row.hook != "none":
        check_events([*events(crossing.file("events", job).read_text())], row)


def events(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text."""
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        found, end = decoder.raw_decode(text)
        yield found
        text = text[end:]


def check_events(told: list[dict[str, Any]], row: Combination) -> None:
    """Whether events have been told from the start to the end, and each once."""
    names = [one["event"] for one in told]
    fails = ["failure"] if row.end in {"fails", "killed"} else []
    again = [*fails, "restart"] if row.starts == 2 else []
    assert names == ["start", *again, *fails, "end"]
    assert told[-1]["report"]["exit_code"] == CODES[row.end]
