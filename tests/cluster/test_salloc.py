"""`--launcher slurm` outside of a job: dsrun runs in an allocation that it asks for."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..support.limits import wait_for
from .command import COMMAND, Dsrun, Running
from .held import Held
from .test_detached import detached
from .test_terminal import CTRL_C, terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .slurm import Slurm

PLACE = """
import os, sys
print("at", os.uname().nodename, *map(os.environ.get, ("RANK", "LOCAL_RANK", "WORLD_SIZE")))
sys.exit(7 if sys.argv[1:] else 0)
"""


@pytest.fixture
def outside(slurm: Slurm, tmp_path: Path) -> Iterator[Dsrun]:
    """`dsrun` at the login of Slurm, in no job; nothing of one is left after it."""
    (tmp_path / "place.py").write_text(PLACE)
    with slurm.nothing_left(), closing(Dsrun(slurm.cluster, tmp_path)) as dsrun:
        yield dsrun


@pytest.mark.tier("test")
def test_an_allocation_is_asked_for(outside: Dsrun) -> None:
    sizes = ("--num_nodes", "2", "--num_gpus", "2", "--launcher_args", "--exclusive")
    done = outside("--launcher", "slurm", *sizes, "--prefix=", "--no_local_rank", "place.py")
    assert done.returncode == 0, done.stderr
    asked = "salloc --nodes=2 --gpus-per-node=2 --exclusive"
    assert f"dsrun: waiting for an allocation: {asked}\n" in done.stderr
    places = sorted(re.findall(r"(?m)^at (n\d) (\d) (\d) 4$", done.stdout), key=lambda at: at[1])
    assert [place[1:] for place in places] == [("0", "0"), ("1", "1"), ("2", "0"), ("3", "1")]
    first, again, second, last = (place[0] for place in places)
    assert first == again != second == last


def test_the_exit_code_and_the_names_of_hosts_pass_through(outside: Dsrun) -> None:
    done = outside("--launcher=slurm", "--host=n3:1", "--prefix=", "place.py", "fail")
    assert done.returncode == 7, done.stderr
    assert "at n3 0 0 1" in done.stdout


def end_wait(waiting: Running, number: int) -> None:
    """End a wait in the queue by a signal.

    Slurm 22.05's salloc may sleep on where a signal comes just before it goes to sleep. It is sent
    again, with time between: one after another, signals keep salloc from doing anything else.
    """
    last = 0.0

    def is_over() -> bool:
        nonlocal last
        if time.monotonic() > last + 1.0:
            last = time.monotonic()
            waiting.process.send_signal(number)
        return waiting.process.poll() is not None

    wait_for(is_over, "the end of the wait")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_in_the_queue(slurm: Slurm, outside: Dsrun, number: int) -> None:
    with slurm.allocation("n1", "n2", "n3", "n4"):
        waiting = outside.start("--launcher", "slurm", "--num_nodes", "4", "place.py")
        waiting.wait_for_output("queued and waiting for resources")
        assert "dsrun: waiting for an allocation: salloc --nodes=4\n" in waiting.stderr

        end_wait(waiting, number)
        assert waiting.wait().returncode != 0
        wait_for(lambda: len(slurm.jobs()) == 1, "the end of the job that was queued")


def test_a_signal_to_salloc_ends_the_job_that_runs(outside: Dsrun, tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text("import time; print('up'); time.sleep(600)")
    running = outside.start("--launcher=slurm", "--num_nodes=2", "--num_gpus=1", "patient.py")
    running.wait_for_output("up")
    running.process.send_signal(signal.SIGTERM)
    assert running.wait().returncode == 143


QUICK = """
import os, signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    signal.signal(number, lambda *_: os._exit(0))
print("up")
while True:
    signal.pause()
"""
"""Saves its state at a signal, so to say, and ends well."""


@pytest.mark.tier("test")
@pytest.mark.parametrize("how", ["TERM", "INT", "USR1", "scancel"])
def test_workers_that_end_well_at_once_are_cancelled_all_the_same(
    slurm: Slurm, outside: Dsrun, tmp_path: Path, how: str
) -> None:
    (tmp_path / "quick.py").write_text(QUICK)
    report = ("--report_file", "r.json")
    running = outside.start(
        "--launcher=slurm", "--num_nodes=2", *report, "--num_gpus=1", "quick.py"
    )
    wait_for(lambda: running.stdout.count("up") == 2, "both workers")
    if how == "scancel":
        slurm.run("scancel", slurm.jobs()[0].split()[0])
    else:
        running.process.send_signal(signal.Signals[f"SIG{how}"])
    done = running.wait()
    assert done.returncode == 143, done.stderr
    assert "dsrun: stopped by SIGTERM after" in done.stderr
    assert json.loads((tmp_path / "r.json").read_text())["cause"] == "signal"


def test_the_allocation_of_a_salloc_that_is_killed_is_given_back(
    slurm: Slurm, outside: Dsrun, tmp_path: Path
) -> None:
    (tmp_path / "quick.py").write_text(QUICK)
    running = outside.start("--launcher=slurm", "--num_nodes=2", "--num_gpus=1", "quick.py")
    wait_for(lambda: running.stdout.count("up") == 2, "both workers")
    running.process.kill()
    done = running.wait()
    wait_for(lambda: not slurm.jobs(), "the end of the allocation")
    assert "dsrun: stopped by SIGTERM after" in done.stderr
    assert "dsrun: salloc was killed: giving back the allocation of Slurm job" in done.stderr


def test_ctrl_c_reaches_dsrun_inside(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text("import time; print('up'); time.sleep(600)")
    sized = ("--launcher=slurm", "--num_nodes=2", "--num_gpus=1", "patient.py")
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": False}
    with terminal() as at:
        pipes |= at.popen()
        words = [*at.before, *COMMAND, *sized]
        login = slurm.cluster.login
        running = Running(login.popen(words, cwd=tmp_path, **pipes))
        running.wait_for_output("up")
        at.type(CTRL_C)
        done = running.wait()
    assert done.returncode == 130, done.stderr
    assert "dsrun: stopped by SIGINT" in done.stderr


SIZED = ("--launcher=slurm", "--num_nodes=2", "--num_gpus=2")


@pytest.mark.tier("test")
def test_a_detached_job_has_an_allocation_of_its_own(slurm: Slurm, tmp_path: Path) -> None:
    """Both outlive the terminal, and hold none of its streams open."""
    with slurm.nothing_left(), detached(slurm.cluster, tmp_path, *SIZED) as (terminal, job):
        asked = "dsrun: waiting for an allocation: salloc --nodes=2 --gpus-per-node=2\n"
        assert asked in terminal.said
        assert "salloc: Granted job allocation" in terminal.said
        assert "this job ends with Slurm job" not in terminal.said
        assert sum("is up" in line for line in terminal.up(job)) == 4
        assert len(slurm.jobs()) == 1
        terminal.go()
        assert terminal.job("wait", job).returncode == 3
        wait_for(lambda: not slurm.jobs(), "the end of the allocation")


def test_a_detached_job_whose_runner_is_killed_keeps_no_allocation(
    slurm: Slurm, tmp_path: Path
) -> None:
    with slurm.nothing_left(), detached(slurm.cluster, tmp_path, *SIZED) as (terminal, job):
        terminal.up(job)
        runner = next(
            p.pid
            for p in slurm.cluster.processes()
            if p.host == "login" and "--detach" in p.argv and "salloc" not in p.argv[0]
        )
        os.kill(runner, signal.SIGKILL)
        assert terminal.job("wait", job).returncode == 75
        wait_for(lambda: not slurm.jobs(), "the end of the allocation")


def test_a_detached_job_that_does_not_start_says_why_and_leaves_nothing(outside: Dsrun) -> None:
    sized = ("--detach", "--launcher=slurm", "--num_gpus=2")
    done = outside(*sized, "--num_nodes=2", "--launcher_args=-p absent", "place.py")
    assert done.returncode == 1
    assert "salloc: error: invalid partition specified: absent" in done.stderr
    done = outside(*sized, "--num_nodes=2", "absent.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "absent.py" in done.stderr


def test_the_end_of_the_terminal_ends_a_detached_start_in_the_queue(
    slurm: Slurm, outside: Dsrun
) -> None:
    with slurm.allocation("n1", "n2", "n3", "n4"):
        words = ("--detach", "--launcher=slurm", "--num_nodes=4", "place.py")
        waiting = outside.start(*words)
        waiting.wait_for_output("queued and waiting for resources")
        end_wait(waiting, signal.SIGHUP)
        wait_for(lambda: len(slurm.jobs()) == 1, "the end of the job that was queued")


def test_a_detached_start_that_is_killed_in_the_queue_leaves_no_request(
    slurm: Slurm, outside: Dsrun
) -> None:
    with slurm.allocation("n1", "n2", "n3", "n4"):
        words = ("--detach", "--launcher=slurm", "--num_nodes=4", "place.py")
        waiting = outside.start(*words)
        waiting.wait_for_output("queued and waiting for resources")
        asks = next(
            p.pid for p in slurm.cluster.processes() if p.host == "login" and "salloc" in p.argv[0]
        )
        # It must sleep already (see `end_wait`).
        wait_for(lambda: "(sleeping)" in Path(f"/proc/{asks}/status").read_text(), "the wait")
        waiting.process.kill()
        wait_for(lambda: len(slurm.jobs()) == 1, "the end of the job that was queued")


HELD = ("--num_nodes", "2", "--num_gpus", "2")


def test_a_hold_has_an_allocation_of_its_own(slurm: Slurm, tmp_path: Path) -> None:
    """What salloc gets is not for srun; the allocation ends with the hold."""
    words = (*HELD, "--launcher_args", "--exclusive")
    held_at = Held(slurm.cluster, tmp_path, "", *words, launcher="slurm")
    with slurm.nothing_left(), held_at as held:
        asked = "salloc --nodes=2 --gpus-per-node=2 --exclusive"
        assert f"dsrun: waiting for an allocation: {asked}\n" in held.running.stderr
        told = held.tell("tell.py")
        assert [one["LOCAL_RANK"] for one in told] == ["0", "1", "0", "1"]
        assert len({one["host"] for one in told} - {"login"}) == 2
        assert held.release().returncode == 0


def test_a_detached_hold_outlives_its_command_with_its_allocation(
    slurm: Slurm, tmp_path: Path
) -> None:
    held_at = Held(slurm.cluster, tmp_path, "", *HELD, "--detach", launcher="slurm")
    with slurm.nothing_left(), held_at as held:
        assert held.running.wait().returncode == 0
        assert "salloc: Granted job allocation" in held.running.stderr
        assert len(held.tell("tell.py")) == 4
        assert len(slurm.jobs()) == 1
        held.release()


def test_a_hold_ends_with_its_allocation(slurm: Slurm, tmp_path: Path) -> None:
    held_at = Held(slurm.cluster, tmp_path, "", *HELD, launcher="slurm")
    with slurm.nothing_left(), held_at as held:
        slurm.run("scancel", slurm.jobs()[0].split()[0])
        ended = held.running.wait()
        assert ended.returncode == 143, ended.stderr
        assert re.search(r"dsrun: Slurm job \d+ has ended \(\w+\): releasing", ended.stderr)
