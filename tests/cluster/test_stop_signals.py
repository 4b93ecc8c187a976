"""Signals to dsrun: those that end a job, once, twice and thrice, and those that are passed on."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from ..support.limits import HANG, NEVER, wait_for
from ..support.specs import BOMB
from .command import COMMAND, Running
from .jobs import DEAF, GRACE, OBEDIENT, PATIENT, Job, everywhere, here_and_there, options
from .machines import BLACKHOLE

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun
    from .hosts import Cluster

HUP, INT, TERM = signal.SIGHUP, signal.SIGINT, signal.SIGTERM


def each(job: Job, *names: str) -> bool:
    """Whether every rank has heard these signals, and nothing else."""
    return all(job.heard(rank) == list(names) for rank in range(job.size))


@everywhere
@pytest.mark.parametrize("number", [TERM, INT, HUP])
def test_a_signal_to_stop_reaches_every_worker_once(
    site: Cluster, tmp_path: Path, launcher: str, number: signal.Signals
) -> None:
    with Job(site, tmp_path, PATIENT, launcher=launcher) as job:
        job.running.process.send_signal(number)
        returncode, errors = job.wait()
        job.clean()
    assert returncode == 128 + number
    assert each(job, number.name)
    assert re.search(
        rf"dsrun: stopped by {number.name} after [\d.]+ s: {job.size} ranks told to stop", errors
    )


@pytest.mark.parametrize(
    ("end", "options", "code"),
    [(0, ["--graceful_term_ok"], 0), (0, [], 143), (5, ["--graceful_term_ok"], 143)],
)
def test_graceful_term_ok_needs_every_rank_to_end_well(
    cluster: Cluster, tmp_path: Path, end: int, options: list[str], code: int
) -> None:
    worker = f"hear('SIGTERM', then={end} if rank == 3 else 0); rest()"
    with Job(cluster, tmp_path, worker, *options) as job:
        job.running.process.send_signal(TERM)
        assert job.wait()[0] == code
    assert each(job, "SIGTERM")


@here_and_there
def test_the_grace_is_given_in_full_and_not_more(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    with Job(cluster, tmp_path, DEAF, "--grace", f"{GRACE}", launcher=launcher) as job:
        began = time.monotonic()
        job.running.process.send_signal(TERM)
        returncode, errors = job.wait()
        ended = time.monotonic()
        job.clean()
    assert (returncode, "did not report" in errors) == (143, False)
    assert ended - began >= GRACE
    assert each(job, "SIGTERM")


@everywhere
def test_a_second_interrupt_kills_at_once(site: Cluster, tmp_path: Path, launcher: str) -> None:
    with Job(site, tmp_path, DEAF, launcher=launcher) as job:
        job.running.process.send_signal(INT)
        for rank in range(job.size):
            job.said(rank, "hears SIGINT")
        job.running.process.send_signal(INT)
        returncode, errors = job.wait()
        job.clean()
    assert returncode == 130
    assert "interrupt again to kill them now" in errors
    assert "killing all ranks now" in errors
    assert each(job, "SIGINT")


def test_a_third_interrupt_does_not_wait_for_a_host_that_is_cut_off(
    cluster: Cluster, tmp_path: Path
) -> None:
    """What it leaves there is ended once the host hears of the interrupts, or misses the runner."""
    worker = "hear('SIGINT'); hear('SIGTERM', then=0); rest()"
    with (
        Job(cluster, tmp_path, worker, "--heartbeat_timeout", f"{HANG / 2:g}") as job,
        cluster.host("n2").unplugged(),
    ):
        job.running.process.send_signal(INT)
        for rank in (0, 1):
            job.said(rank, "hears SIGINT")
        job.running.process.send_signal(INT)
        wait_for(lambda: not job.pids("n1"), "the end of n1's workers")
        job.running.process.send_signal(INT)
        returncode, errors = job.wait()
        assert len(job.pids("n2")) == 2
    assert returncode == 130
    # n1's workers have ended, but its word on that may be on its way.
    assert re.search(r"exiting now; may still be running on: (n1, )?n2\n", errors)
    job.clean()
    assert [job.heard(rank) for rank in (0, 1)] == [["SIGINT"]] * 2


def test_another_signal_during_the_grace_is_passed_on_too(cluster: Cluster, tmp_path: Path) -> None:
    with Job(cluster, tmp_path, "hear('SIGINT'); hear('SIGTERM', then=0); rest()") as job:
        job.running.process.send_signal(INT)
        wait_for(lambda: each(job, "SIGINT"), "the first signal")
        job.running.process.send_signal(TERM)
        assert job.wait()[0] == 130
    assert each(job, "SIGINT", "SIGTERM")


def counts(job: Job, number: int) -> bool:
    """Whether every rank has heard so many signals."""
    return all(len(job.heard(rank)) == number for rank in range(job.size))


@everywhere
def test_user_signals_reach_every_worker_once_and_stop_nothing(
    site: Cluster, tmp_path: Path, launcher: str
) -> None:
    worker = "hear('SIGUSR1', 'SIGUSR2', 'SIGCONT', 'SIGWINCH'); wait_to_go()"
    with Job(site, tmp_path, worker, launcher=launcher) as job:
        for name in ("SIGCONT", "SIGWINCH", "SIGUSR1", "SIGUSR2", "SIGUSR1"):
            before = len(job.heard(0))
            job.running.process.send_signal(getattr(signal, name))
            heard = before + name.startswith("SIGUSR")
            wait_for(partial(counts, job, heard), name)
        job.go()
        assert job.wait()[0] == 0
    assert each(job, "SIGUSR1", "SIGUSR2", "SIGUSR1")


@pytest.mark.parametrize("which", [0, 1], ids=["guard", "node launcher"])
def test_a_signal_on_a_node_is_passed_on_there(
    cluster: Cluster, tmp_path: Path, which: int
) -> None:
    """As from a scheduler: user signals reach that node's workers, a stop ends the whole job."""
    with Job(cluster, tmp_path, "hear('SIGUSR1'); hear('SIGTERM', then=0); rest()") as job:
        os.kill(job.launchers("n2")[which], signal.SIGUSR1)
        job.said(2, "hears SIGUSR1")
        job.said(3, "hears SIGUSR1")
        os.kill(job.launchers("n2")[which], TERM)
        assert job.wait()[0] == 143
        job.clean()
    heard = [job.heard(rank) for rank in range(4)]
    assert heard == [["SIGTERM"]] * 2 + [["SIGUSR1", "SIGTERM"]] * 2


def start_up(cluster: Cluster, dsrun: Dsrun, tmp_path: Path, host: str) -> Running:
    """A dsrun that has reached n1 and is still on its way to another host."""
    (tmp_path / "end.py").write_text("print('has run')")
    waits_long = ("--connect_timeout", f"{NEVER:g}", "--start_timeout", f"{NEVER:g}")
    running = dsrun.start(
        "--launcher", "openssh", "--host", f"n1:1,{host}:1", *waits_long, "end.py"
    )

    def waits() -> bool:
        arrived = [p for p in cluster.processes() if p.argv[1:4] == ("-E", "-S", "-c")]
        clients = [p for p in cluster.processes() if p.argv[0] == "ssh" and host in p.argv]
        return len([p for p in arrived if p.host == "n1"]) == 2 and len(clients) == 1

    wait_for(waits, "the start phase")
    return running


@pytest.mark.parametrize("number", [TERM, INT, HUP])
def test_a_start_can_be_interrupted(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, number: signal.Signals
) -> None:
    running = start_up(cluster, dsrun, tmp_path, BLACKHOLE)
    running.process.send_signal(number)
    assert running.wait().returncode == 128 + number


def test_user_signals_do_no_harm_during_the_start(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    slow = 'while [ ! -e $HOME/go ]; do sleep 0.02; done; eval "$SSH_ORIGINAL_COMMAND"'
    with cluster.host("n2").sshd(ForceCommand=slow):
        running = start_up(cluster, dsrun, tmp_path, "n2")
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
            running.process.send_signal(number)
        go = cluster.path("/run/home/go")
        go.touch()
        ended = running.wait()
        go.unlink()
    assert ended.returncode == 0, running
    assert ended.stdout.count("has run") == 2


LIBC = 0b11 << 31
"""Signals 32 and 33, which are glibc's own: it has them ignored in what posix_spawn(3) starts."""

INHERITED = """
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs a command with every signal blocked and some ignored."""


@everywhere
def test_workers_start_with_the_signals_of_a_login(
    site: Cluster, tmp_path: Path, launcher: str
) -> None:
    hosts = [] if launcher == "local" else ["--host", "n1,n2"]
    program = ["--no_local_rank", "--no_python", "grep", "^Sig[BI]", "/proc/self/status"]
    words = [*COMMAND, *options(launcher), *hosts, "--num_gpus", "1", "--prefix", "", *program]
    done = site.login.run([sys.executable, "-c", INHERITED, *words], cwd=tmp_path)
    nodes = 1 if launcher == "local" else 2
    assert done.returncode == 0, done
    masks = [int(line.split()[1], 16) & ~LIBC for line in done.stdout.splitlines()]
    assert masks == [0] * 2 * nodes


@here_and_there
def test_a_blocked_signal_still_stops_the_job(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    before = [sys.executable, "-c", INHERITED]
    with Job(cluster, tmp_path, OBEDIENT, launcher=launcher, before=before) as job:
        job.running.process.send_signal(TERM)
        assert job.wait()[0] == 143
    assert each(job, "SIGTERM")


@pytest.mark.tier("test")
def test_fork_bombs_are_ended_with_the_job(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "seats"
    folder.mkdir()
    code = f"say('is up')\n{BOMB.format(folder=folder, seats=60, lasts=2 * HANG)}"
    with Job(cluster, tmp_path, code, "--grace", "2", slots=1) as job:
        wait_for((folder / "full").exists, "as many processes as there may be")
        job.running.process.send_signal(TERM)
        assert job.wait()[0] == 143
        job.clean()
