"""Hangs of the real torch in which ranks wait for each other; see `real_hangs.py`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from .reaching import script
from .real_hangs import HANGS, HEALTHY, PROGRAM, SILENT, TIMEOUT
from .test_real_training import some

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun, Running

pytestmark = pytest.mark.usefixtures("torch_is_here")

HUNG = 77


def started(dsrun: Dsrun, folder: Path, kind: str, size: int = 3) -> Running:
    options = "--host", f"n1:{size}", "--hang_timeout", f"{TIMEOUT}", "--on_hang", "stop"
    report = "--grace", "1", "--report_file", f"{folder}/report.json"
    cache = "--export", f"TORCHINDUCTOR_CACHE_DIR={folder}"  # else torch leaves one in /tmp
    program = script(folder, PROGRAM.format(timeout=TIMEOUT))
    return dsrun.start(*options, *report, *cache, "--workdir", str(folder), program, kind)


@pytest.mark.parametrize("kind", some(HANGS, "leaves_early", "sets_no_key"))
def test_the_rank_for_which_the_others_wait(dsrun: Dsrun, tmp_path: Path, kind: str) -> None:
    known = HANGS[kind]
    running = started(dsrun, tmp_path, kind, known.size)
    running.wait_for_output(f"dsrun: no progress for [0-9]+ s: .*{known.words}")
    assert running.wait().returncode == HUNG
    (found,) = json.loads((tmp_path / "report.json").read_text())["hangs"]
    assert found["ranks"] == known.ranks


@pytest.mark.parametrize("kind", some(HEALTHY, "pass_on", "serve_behind_a_path"))
def test_what_only_looks_like_a_hang_is_not_stopped(
    dsrun: Dsrun, tmp_path: Path, kind: str
) -> None:
    done = started(dsrun, tmp_path, kind).wait()
    assert (done.returncode, done.stdout.count("is done")) == (0, 3), done.stderr


@pytest.mark.parametrize("kind", some(SILENT, "lock"))
def test_ranks_that_wait_for_no_rank(dsrun: Dsrun, tmp_path: Path, kind: str) -> None:
    running = started(dsrun, tmp_path, kind)
    running.wait_for_output(f"dsrun: no progress for [0-9]+ s: {SILENT[kind]}.*; it may be waiting")
    assert running.process.poll() is None
    running.process.terminate()
    running.wait()
