"""Nodes that a program keeps: jobs in turn and side by side, and their release."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.api import Fleet, FleetNode, JobError, LaunchError, RankError, Role, Started
from dsrun.launcher.control import local
from dsrun.launcher.control.local_client import running

from ..support.launched import alive, begun, pause, program
from ..support.limits import HANG, NEVER, wait_for
from ..support.local_control import new_name

if TYPE_CHECKING:
    from collections.abc import Iterator


HERE: dict[str, Any] = {"accelerator": "cpu", "hosts": "localhost:2"}


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """A fleet of this machine, for several tests."""
    with Fleet(**HERE) as one:
        yield one


def test_jobs_in_turn(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert fleet.nodes() == (FleetNode("localhost", (0, 1), "free", ""),)
    ranks = [
        fleet.run(lambda n: (n, int(os.environ["RANK"])), [n], output=None).results(HANG)
        for n in (1, 2)
    ]
    assert ranks == [{0: (n, 0), 1: (n, 1)} for n in (1, 2)]
    fleet.run(print, ["hello"], num_gpus=1).results(HANG)
    assert capsys.readouterr().out == "localhost:0| hello\n"


def test_roles_on_a_fleet(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    def train(base: int) -> int:
        print(os.environ["ROLE_NAME"])
        return base + 1

    words = ["-c", "echo serves; exec sleep 1000"]
    here: dict[str, Any] = {"hosts": "localhost"}
    server = Role("server", "sh", words, no_python=True, ready="line:serves", ends="never", **here)
    trainer = Role("trainer", train, [6], slots="1", after=["server"], ends="job", **here)
    server.options["slots"] = "0"
    job = fleet.run(roles=[server, trainer])
    started = [one.role for one in job.events() if isinstance(one, Started)]
    assert job.results(HANG, role="trainer") == {0: 7}
    assert started == ["server", "trainer"]
    assert set(job.wait().roles) == {"server", "trainer"}
    assert job.stdout(0, "trainer") == "trainer\n"
    assert "trainer/localhost:0| trainer\n" in capsys.readouterr().out
    with pytest.raises(LaunchError, match="which dsrun-hold sets"):
        fleet.run(roles=[server], launcher="ssh")
    assert fleet.nodes()[0].state == "free"


def test_a_job_that_fails_leaves_the_fleet_whole(fleet: Fleet) -> None:
    def work() -> None:
        raise ValueError("no")

    with pytest.raises(RankError, match="on localhost: ValueError: no"):
        fleet.run(work, output=None).results(HANG)
    with begun(fleet.run(pause, output=None)) as job:
        assert fleet.nodes()[0].state == "busy"
    assert job.report is not None
    assert job.report.cause == "signal"
    assert fleet.run(int, ["7"], output=None).results(HANG) == {0: 7, 1: 7}


def test_jobs_side_by_side(fleet: Fleet) -> None:
    halves = [begun(fleet.run(pause, include=f"localhost:{n}", output=None)) for n in (0, 1)]
    for job in halves:
        job.signal(signal.SIGTERM)
    assert [job.wait(HANG).cause for job in halves] == ["signal", "signal"]


def test_jobs_that_cannot_run(fleet: Fleet, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="no such script"):
        fleet.run(tmp_path / "none.py")
    with pytest.raises(LaunchError, match=rf"--on {fleet.name}: not with --host, which"):
        fleet.run(print, hosts="localhost")
    with pytest.raises(LaunchError, match="lock"):
        fleet.run(print, [threading.Lock()])
    with begun(fleet.run(pause, output=None)) as job:
        refused = fleet.run(print, wait=False, output=None)
        with pytest.raises(LaunchError, match=f"slots are in use by job {job.id}"):
            refused.wait(HANG)


def test_the_report_and_the_metrics_of_a_job_are_in_their_files(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though nobody waits for the job; a relative path is one of the program, not of the fleet."""
    monkeypatch.chdir(tmp_path)
    report, metrics = tmp_path / "r.json", tmp_path / "m.prom"

    def threads() -> int:
        return len(list(Path(f"/proc/{fleet.pid}/task").iterdir()))

    before = threads()
    for _ in range(3):
        report.unlink(missing_ok=True)
        job = fleet.run(
            int, ["7"], output=None, report_file="r.json", metrics_file="m.prom", on_event=":"
        )
        wait_for(lambda: report.exists() and report.read_text().endswith("}\n"), "the report")
        assert "dsrun_exit_code" in metrics.read_text()
        ended = job.wait(HANG)
        assert json.loads(report.read_text())["job_id"] == ended.job_id == job.id
        wait_for(lambda: threads() == before, "the end of the threads of the job")


def test_a_report_file_that_goes_away_is_a_line(
    fleet: Fleet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    job = fleet.run(folder.rmdir, num_gpus=1, report_file=folder / "r.json")
    assert job.wait(HANG).exit_code == 74
    assert f"--report_file {folder}/r.json: no such file or directory\n" in capfd.readouterr().err


def test_stop_with_a_grace_of_its_own(fleet: Fleet) -> None:
    def stubborn() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pause()

    job = begun(fleet.run(stubborn, output=None, grace=300))
    job.stop(0.1)
    assert job.wait(HANG).cause == "signal"


def test_in_an_event_loop() -> None:
    async def work() -> list[dict[int, Any]]:
        async with Fleet(**HERE) as fleet:
            found = []
            for n in (3, 4):
                job = fleet.run(lambda one: one, [n], output=None)
                await job
                found.append(job.results())
            return found

    assert asyncio.run(work()) == [{0: n, 1: n} for n in (3, 4)]


def test_a_fleet_has_a_name_and_is_released(capfd: pytest.CaptureFixture[str]) -> None:
    name = new_name()
    with Fleet(name=name, **HERE) as fleet:
        assert repr(fleet) == f"<Fleet {name}, ready>"
        assert name in running(local.HOLD)
        with pytest.raises(LaunchError, match=f"name {name}: taken on this machine"):
            Fleet(name=name, **HERE).wait(HANG)
    assert name not in running(local.HOLD)
    assert not alive(fleet.pid)
    assert repr(fleet) == f"<Fleet {name}, closed>"
    with pytest.raises(LaunchError, match=f"fleet {name} is closed"):
        fleet.run(print)
    assert capfd.readouterr().out == ""


def test_nodes_that_cannot_be_held(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="--hostfile "):
        Fleet(hostfile=tmp_path / "none")
    with pytest.raises(LaunchError, match="--max_restarts: an option of dsrun, not"):
        Fleet(max_restarts=1, **HERE)
    with pytest.raises(LaunchError, match="--name 'a b': expected letters"):
        Fleet(name="a b", **HERE)


def test_the_death_of_the_process() -> None:
    fleet = Fleet(heartbeat_timeout=NEVER, **HERE)
    with fleet:
        job = begun(fleet.run(pause, output=None, num_gpus=1))
        os.kill(fleet.pid, signal.SIGKILL)
        with pytest.raises(JobError, match=rf"\(pid {fleet.pid}\) has died"):
            job.wait(HANG)
        with pytest.raises(JobError, match=f"fleet {fleet.name}: "):
            fleet.nodes()


PROGRAM = """
import os, signal
from dsrun.launcher.api import Fleet

def tell():
    print("rank", os.getpid(), flush=True)
    signal.pause()

if __name__ == "__main__":
    with Fleet(hosts="localhost:1", accelerator="cpu", heartbeat_timeout=1200) as fleet:
        print("hold", fleet.pid, flush=True)
        fleet.run(tell, prefix="").wait()
"""


def test_kill_9_of_the_program_releases_the_nodes(tmp_path: Path) -> None:
    with program(tmp_path / "program.py", PROGRAM) as (_, stdout):
        told = [stdout.readline().split() for _ in range(2)]
        pids = {name: int(pid) for name, pid in told}
    wait_for(lambda: not any(map(alive, pids.values())), "the end of all processes")
