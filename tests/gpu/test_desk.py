"""Commands within limits."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from ..support.limits import HANG, wait_for
from . import desk as desk_module
from .desk import Desk, NotSeen, OverLimit, Ran

SAYS = "import os, sys; print('up', os.environ['WHO'], sys.argv[1:], flush=True)"
WAITS = f"{SAYS}; import signal; signal.pause()"
DEAF = f"import signal; signal.signal(15, signal.SIG_IGN); {WAITS}"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """One whose programs are those in a folder; it has much time."""
    monkeypatch.setattr(desk_module, "PROGRAMS", tmp_path)
    for name, text in (("says.py", SAYS), ("waits.py", WAITS), ("deaf.py", DEAF)):
        (tmp_path / name).write_text(text)
    environ = {**os.environ, "WHO": "me", "DSRUN_NUM_GPUS": "nonsense"}
    made = Desk(tmp_path, sys.executable, environ, HANG)
    made.begin(HANG)
    return made


def test_a_program_runs_to_its_end(desk: Desk) -> None:
    ran = desk.program("says.py", "a b")
    assert (ran.code, ran.text) == (0, "up me ['a b']\n")
    assert [one.words for one in desk.ran] == [ran.words]


def test_a_job_runs_to_its_end_and_has_a_report(desk: Desk) -> None:
    ran = desk.job("--accelerator", "cpu", "--num_gpus", "1", "says.py", WHO="you")
    assert "up you" in ran.text
    assert (ran.code, ran.report["exit_code"], ran.report["world_size"]) == (0, 0, 1)


def test_a_job_is_stopped_at_the_end_of_its_block(desk: Desk) -> None:
    with desk.started_job("--accelerator", "cpu", "--num_gpus", "1", "waits.py") as running:
        assert running.until(r"up (\w+)")[1] == "me"
    (ran,) = desk.ran
    assert (ran.code, ran.report["signal"]) == (143, signal.SIGTERM)


def test_what_does_not_end_is_killed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "GRACE", 0)
    monkeypatch.setattr(desk_module, "LAST", 0.0)
    with desk.started_program("deaf.py") as running:
        running.until("up")
    wait_for(lambda: not Path(f"/proc/{running.pid}").exists(), "its end")
    assert desk.ran[-1].code == -signal.SIGKILL


def test_the_time_of_a_part_is_over(desk: Desk) -> None:
    with desk.started_program("waits.py") as running:
        running.until("up")
        desk.begin(0.0)
        with pytest.raises(OverLimit, match=r"waits\.py did not print"):
            running.until("never")
        with pytest.raises(OverLimit, match=r"waits\.py did not end"):
            running.end()
        with pytest.raises(OverLimit, match=r"no time left"):
            desk.program("says.py")


def test_all_parts_together_have_a_limit_and_patience_multiplies_it(tmp_path: Path) -> None:
    short = Desk(tmp_path, sys.executable, {}, whole=0.0, patience=HANG)
    short.begin(HANG)
    assert short.left == 0.0
    patient = Desk(tmp_path, sys.executable, {}, whole=HANG, patience=HANG)
    patient.begin(HANG)
    assert patient.left > HANG


def test_an_end_without_what_was_awaited(desk: Desk) -> None:
    with (
        desk.started_program("says.py") as running,
        pytest.raises(NotSeen, match=r"ended without 'never'"),
    ):
        running.until("never")


def test_a_condition_is_awaited_no_longer_than_the_part_has(desk: Desk) -> None:
    desk.wait(lambda: True, HANG)
    desk.begin(0.0)
    desk.wait(lambda: False, HANG)


def test_json_is_read_behind_prefixes_and_warnings() -> None:
    text = f"note {{\nlocalhost:0| {json.dumps({'a': 1})}\nwarning: {{x}}\n"
    assert Ran(("p", "q"), 0, text).json == {"a": 1}
    with pytest.raises(LookupError, match="q printed no JSON"):
        _ = Ran(("p", "q"), 0, "Traceback").json
