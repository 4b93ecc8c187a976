"""dsrun's own processes are killed with SIGKILL: no worker may outlive the job on any host."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from ..support.local_control import NOBODY
from .jobs import DEAF, GRACE, LOST, OBEDIENT, Job, everywhere, here_and_there, parent

if TYPE_CHECKING:
    from .command import Dsrun
    from .hosts import Cluster

WITH_SESSION = f"""
see, ready = os.pipe()
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    os.write(ready, b".")
    time.sleep(6000)
    os._exit(0)
os.read(see, 1)
{OBEDIENT}
"""
"""Each worker has a child in a session of its own, which hears no SIGTERM."""

LEASE = ("--heartbeat_timeout", "10")
"""What a busy machine keeps, for one that is silent for good."""

LAST = f"""
if rank < 2:
    hear("SIGTERM")
    wait_to_go()
    os._exit(0)
{OBEDIENT}
"""
"""The workers of the first node keep the job until the test has seen what became of the others."""


def kill(*pids: int) -> None:
    """End these processes at one instant: none sees the end of another."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


@everywhere
@pytest.mark.parametrize("which", ["guard", "node launcher"])
def test_one_half_of_a_node_launcher_is_killed(
    site: Cluster, tmp_path: Path, launcher: str, which: str
) -> None:
    with Job(site, tmp_path, WITH_SESSION, launcher=launcher) as job:
        host = job.hosts[-1]
        guard, node_launcher = job.launchers(host)
        kill(guard if which == "guard" else node_launcher)
        wait_for(lambda: not job.pids(host), "the end of the workers there")
        returncode, errors = job.wait()
        job.clean()
    name = "localhost" if launcher == "local" else host
    assert returncode == LOST
    assert re.search(rf"(?m)^dsrun: lost {name} after [\d.]+ s: .+", errors)
    if launcher != "local":
        assert [job.heard(rank) for rank in (0, 1)] == [["SIGTERM"]] * 2


@here_and_there
def test_a_guard_that_was_stopped_is_not_left_behind(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    with Job(cluster, tmp_path, OBEDIENT, launcher=launcher) as job:
        os.kill(job.launchers(job.hosts[-1])[0], signal.SIGSTOP)
        job.running.process.send_signal(signal.SIGTERM)
        returncode, _ = job.wait()
        job.clean()
    assert returncode == 128 + signal.SIGTERM


@here_and_there
def test_a_node_launcher_is_stopped_for_good(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    """Its guard ends it and its workers; the runner misses it at about the same time."""
    with Job(cluster, tmp_path, WITH_SESSION, *LEASE, launcher=launcher) as job:
        os.kill(job.launchers(job.hosts[-1])[1], signal.SIGSTOP)
        returncode, errors = job.wait()
        job.clean()
    assert returncode == LOST
    cause = "no heartbeat|no sign of life|connection.* ended"
    assert re.search(rf"dsrun: lost \w+ after [\d.]+ s: .*({cause})", errors)


@here_and_there
def test_both_halves_are_stopped_for_good(cluster: Cluster, tmp_path: Path, launcher: str) -> None:
    """Nobody is left to end the workers: the report says what may run on, and how it ends."""
    with Job(cluster, tmp_path, WITH_SESSION, *LEASE, launcher=launcher) as job:
        host = job.hosts[-1]
        guard, node_launcher = job.launchers(host)
        workers = [inner(pid) for pid in job.pids(host) if parent(pid) == node_launcher]
        for pid in (guard, node_launcher):
            os.kill(pid, signal.SIGSTOP)
        returncode, errors = job.wait()
        line = (
            r"(?m)^  may still be running on (\S+): pids? ([\d,-]+); .*guard (\d+), launcher (\d+)"
        )
        found = re.search(line, errors)
        assert found is not None, errors
        machine = next(one for one in cluster.machines if one.name == host)
        machine.run(["sh", "-c", f"kill -KILL {found[4]}; kill -CONT {found[3]}"])
        job.clean()
    assert returncode == LOST
    assert all(str(pid) in found[2] for pid in (min(workers), max(workers)))


def sessions(cluster: Cluster, host: str) -> list[int]:
    """The processes of sshd on a host that serve a login."""
    found = [p for p in cluster.processes() if p.host == host]
    return [p.pid for p in found if p.argv[0].startswith("sshd") and "[listener]" not in p.argv[0]]


def test_the_loss_is_told_in_words(cluster: Cluster, tmp_path: Path) -> None:
    """Not only that the line ended, but what ended it."""
    with Job(cluster, tmp_path, LAST) as job:
        kill(job.launchers("n2")[1])
        wait_for(lambda: not sessions(cluster, "n2"), "the end of the session")
        job.go()
        errors = job.wait()[1]
    assert re.search(r"dsrun: lost n2 .*the node launcher was killed by SIGKILL", errors)
    assert "may still run" not in errors


def test_a_killed_guard_is_told_in_words(cluster: Cluster, tmp_path: Path) -> None:
    with Job(cluster, tmp_path, LAST) as job:
        kill(job.launchers("n2")[0])
        wait_for(lambda: not sessions(cluster, "n2"), "the end of the session")
        job.go()
        errors = job.wait()[1]
    assert re.search(r"dsrun: lost n2 .*its guard was killed; \d other ranks stopped", errors)


@here_and_there
def test_both_halves_are_killed_at_once(
    cluster: Cluster, tmp_path: Path, launcher: str, dsrun: Dsrun
) -> None:
    """The workers die; a child with a session of its own may stay, and the next job names it."""
    with Job(cluster, tmp_path, WITH_SESSION, launcher=launcher) as job:
        host = job.hosts[-1]
        started = [inner(pid) for pid in job.pids(host)]
        workers = {pid for pid in job.pids(host) if parent(pid) == job.launchers(host)[1]}
        kill(*job.launchers(host))
        wait_for(lambda: not workers & set(job.pids()), "the workers' end")
        assert job.wait()[0] == LOST
        left = job.pids()
        named = [inner(pid) for pid in left]
        where = ("--launcher", "local") if launcher == "local" else ("--host", f"{host}:1")
        sleeping = ("--num_gpus", "1", "--no_local_rank", "--no_python", "sleep", "10")
        later = dsrun(*where, *sleeping)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert len(left) == 2
    assert later.returncode == 0
    found = left_over(later.stderr)
    if launcher == "local":  # other tests may have left something on this machine, too
        found = [pid for pid in found if pid in started]
    assert sorted(found) == sorted(named)


def test_what_a_guard_has_still_to_end_is_not_left_over(
    cluster: Cluster, tmp_path: Path, dsrun: Dsrun
) -> None:
    with Job(cluster, tmp_path, WITH_SESSION) as job:
        guard, node_launcher = job.launchers("n2")
        workers = {pid for pid in job.pids("n2") if parent(pid) == node_launcher}
        os.kill(guard, signal.SIGSTOP)
        kill(job.running.pid, node_launcher)
        wait_for(lambda: not workers & set(job.pids("n2")), "the workers' end")
        left = job.pids("n2")
        later = dsrun("--host", "n2:1", "--no_python", "true")
        os.kill(guard, signal.SIGCONT)
        job.clean()
    assert left
    assert (later.returncode, left_over(later.stderr)) == (0, [])


@pytest.mark.parametrize("owners", ["4000000:1", f"{'9' * 5000}:1"], ids=["gone", "nines"])
def test_what_other_users_pretend_keeps_no_job_from_starting(
    cluster: Cluster, dsrun: Dsrun, owners: str
) -> None:
    """Anybody can start a process with the variable of the workers."""
    pretends = ["env", f"DSRUN_NODE_LAUNCHER={owners}"]
    argv = [*pretends, "setpriv", f"--reuid={NOBODY}", "--clear-groups", "sleep", "1000"]
    with cluster.host("n2").popen(argv):
        wait_for(lambda: others(cluster), "the process")
        ran = dsrun("--host", "n2:1", "--no_python", "true")
        for pid in others(cluster):
            os.kill(pid, signal.SIGKILL)
    assert (ran.returncode, left_over(ran.stderr)) == (0, [])


def others(cluster: Cluster) -> list[int]:
    """The processes of another user on n2."""
    found = [p for p in cluster.processes() if (p.host, p.argv) == ("n2", ("sleep", "1000"))]
    return [p.pid for p in found if Path(f"/proc/{p.pid}").stat().st_uid == NOBODY]


def left_over(errors: str) -> list[int]:
    """The processes that dsrun has named as left over."""
    found = re.findall(r"left over on \w+: pid (\d+) of a dsrun job that has ended", errors)
    return [int(pid) for pid in found]


def inner(pid: int) -> int:
    """The number that a process has on its own host."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("NSpid:")[2].split("\n")[0].split()[-1])


@everywhere
def test_the_runner_is_killed(site: Cluster, tmp_path: Path, launcher: str) -> None:
    """The workers are told to stop, as by the runner itself."""
    with Job(site, tmp_path, WITH_SESSION, launcher=launcher) as job:
        kill(job.running.pid)
        job.clean()
    assert [job.heard(rank) for rank in range(job.size)] == [["SIGTERM"]] * job.size


@here_and_there
def test_the_grace_holds_without_a_runner(cluster: Cluster, tmp_path: Path, launcher: str) -> None:
    with Job(cluster, tmp_path, DEAF, "--grace", f"{GRACE}", launcher=launcher) as job:
        began = time.monotonic()
        kill(job.running.pid)
        wait_for(lambda: not job.pids(), "the end of the workers")
        ended = time.monotonic()
        job.clean()
    assert [job.heard(rank) for rank in range(job.size)] == [["SIGTERM"]] * job.size
    assert ended - began >= GRACE


@pytest.mark.parametrize("launcher", ["openssh", "pdsh"])
def test_the_runner_and_its_clients_are_killed(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    """As when the login runs out of memory, or the user of it does `kill -9 -1`."""
    with Job(cluster, tmp_path, OBEDIENT, launcher=launcher) as job:
        clients = [p.pid for p in cluster.processes() if p.argv[0] in {"ssh", "pdsh"}]
        kill(job.running.pid, *clients)
        job.clean()
    assert len(clients) >= 2
    assert [job.heard(rank) for rank in range(job.size)] == [["SIGTERM"]] * job.size


def test_runner_and_node_launcher_are_killed_at_once(cluster: Cluster, tmp_path: Path) -> None:
    with Job(cluster, tmp_path, WITH_SESSION) as job:
        kill(job.running.pid, job.launchers("n2")[1])
        job.clean()


def test_jobs_in_containers_are_not_taken_for_leftovers(
    cluster: Cluster, tmp_path: Path, dsrun: Dsrun
) -> None:
    """The login sees the processes of the hosts, but counts them differently."""
    with Job(cluster, tmp_path, OBEDIENT) as job:
        own = dsrun("--launcher", "local", "--num_gpus", "1", "--no_python", "true")
        pids = set(job.pids())
    assert (own.returncode, len(pids)) == (0, job.size)
    assert pids.isdisjoint(left_over(own.stderr))
