"""The status of a job, from a runner to dsrun-job."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsrun.launcher.control.frames import BadFrame
from dsrun.launcher.features.jobs.runner_job_status import (
    JobStatus,
    NodeStatus,
    RankStatus,
    as_fields,
    from_answer,
)

STATUS = JobStatus(
    version="1",
    job_id="20261122-101112-abcdef",
    pid=7,
    state="running",
    since=1.5,
    program="train.py --lr 1",
    workdir="/w\udcff",
    launcher="ssh",
    elastic=True,
    round=2,
    restarts=1,
    world_size=2,
    running=1,
    nodes=(NodeStatus("n0", "running", ""), NodeStatus("n1", "lost", "no heartbeat")),
    ranks=(
        RankStatus(0, "n0", "GPU-1", 7, "running", 1.5, None, "epoch 3"),
        RankStatus(1, "n1", "", 0, "failed", 0.0, -9, "", "cpu"),
    ),
    last="epoch 3",
    last_rank=0,
)


def wire(**changed: object) -> dict[str, Any]:
    """Return the fields as they arrive."""
    return dict(json.loads(json.dumps({"ok": True, "id": 1, **as_fields(STATUS), **changed})))


def test_a_status_comes_back_as_it_was() -> None:
    assert from_answer(wire()) == STATUS
    assert from_answer(wire(more=1)) == STATUS, "a newer runner may tell more"


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": "7"},
        {"state": None},
        {"since": "now"},
        {"nodes": None},
        {"nodes": 3},
        {"nodes": [{"host": "n0"}]},
        {"nodes": [3]},
        {"ranks": [["n0"]]},
        {"ranks": [{**wire()["ranks"][0], "rank": -1}]},
        {"last_rank": "0"},
    ],
)
def test_anything_else_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(BadFrame):
        from_answer(wire(**changed))


def test_what_lacks_fields_is_refused() -> None:
    with pytest.raises(BadFrame, match="of this version"):
        from_answer({"ok": True})
