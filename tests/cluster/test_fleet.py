"""Several runs, one after another, on the same connected nodes of real hosts."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..support.limits import wait_for
from .command import CHECKOUT, Running
from .jobs import BY_NAME, launchers, options
from .traces import Traces

if TYPE_CHECKING:
    from .hosts import Cluster

SCRIPT = CHECKOUT / "tests" / "cluster" / "several_runs.py"
LOST = "lost n2: the connection to its node launcher ended"


class Runs:
    """What several_runs.py does at the login, and has noted so far."""

    def __init__(self, cluster: Cluster, folder: Path, launcher: str) -> None:
        self._cluster, self._folder = cluster, folder
        words = [*options(launcher), "--host", "n1:2,n2:2,n3:2", "--grace", "1"]
        argv = [sys.executable, str(SCRIPT), str(folder), *words]
        self.running = Running(cluster.login.popen(argv, cwd=folder, text=False))

    def notes(self) -> list[dict[str, Any]]:
        """All that it has noted."""
        noted = self._folder / "runs"
        return (
            [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []
        )

    def waits(self) -> bool:
        """Whether it waits for the loss of a node."""
        assert self.running.process.poll() is None, str(self.running)
        return any("waits" in note for note in self.notes())

    def kill_launcher(self, host: str) -> None:
        """Kill the node launcher of a host, not its guard."""
        ((_, launcher),) = launchers(self._cluster, host)
        os.kill(launcher, signal.SIGKILL)

    def ends(self) -> dict[str, tuple[int, str]]:
        """The exit code of each run, and the error of one that could not be started."""
        return {n["run"]: (n["code"], n.get("error", "")) for n in self.notes() if "run" in n}

    def workers(self, run: str) -> list[dict[str, Any]]:
        """What the workers of a run have told of themselves, by rank."""
        (job,) = [note["job"] for note in self.notes() if note.get("run") == run]
        lines = [line.partition("| ")[2] for line in self.running.stdout.splitlines()]
        told = [json.loads(line) for line in lines if line.startswith("{")]
        mine = [one for one in told if one["DSRUN_JOB_ID"] == job]
        return sorted(mine, key=lambda one: int(one["RANK"]))


@pytest.mark.parametrize("launcher", ["ssh", "pdsh", "openmpi5", "mpich4"])
def test_several_runs_on_one_fleet(cluster: Cluster, tmp_path: Path, launcher: str) -> None:
    """Other programs, other ranks, subsets; a run that fails or is refused leaves all whole."""
    traces = Traces(cluster)
    runs = Runs(cluster, tmp_path, launcher)
    by_engine = launcher in BY_NAME
    if not by_engine:
        wait_for(runs.waits, "all runs before a loss")
        runs.kill_launcher("n2")
    assert runs.running.wait().returncode == 0, str(runs.running)
    ends = runs.ends()
    assert [ends[name][0] for name in ("first", "other ranks", "one node", "all again")] == [0] * 4
    assert ends["fails"] == (7, "")
    code, error = ends["refused"]
    assert code == 2
    assert "nothing.py" in error
    first = [(one["host"], one["LOCAL_RANK"], one["argv"]) for one in runs.workers("first")]
    assert first == [(f"n{at}", local, ["--lr", "0.1"]) for at in (1, 2, 3) for local in "01"]
    other = runs.workers("other ranks")
    assert [one["host"] for one in other] == ["n3", "n3", "n1", "n1"]
    assert {(one["WORLD_SIZE"], *one["argv"]) for one in other} == {("4", "two words")}
    assert [one["host"] for one in runs.workers("one node")] == ["n2", "n2"]
    assert len(runs.workers("all again")) == 6
    if not by_engine:
        (lost,) = [note["lost"] for note in runs.notes() if "lost" in note]
        assert lost.startswith(LOST)
        assert ends["without n2"][0] == 0
        code, error = ends["with n2"]
        assert code == 69
        assert "n2: lost: the connection to its node launcher ended" in error
    wait_for(lambda: not traces.leftovers(), "clean")
