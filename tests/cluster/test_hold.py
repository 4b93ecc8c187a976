"""Held nodes: many jobs, side by side and in turn; and what becomes of them when something dies."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ..support.limits import wait_for
from .held import Held, descriptors
from .jobs import LOST
from .traces import Traces

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .command import Running
    from .hosts import Cluster

UNUSABLE = 69
HOSTS = "n1:2,n2:2"
LEASE = ("--heartbeat_timeout", "10")
BOOTED = ("-E", "-S", "-c")
"""What the command of a node launcher, and of its guard, begins with."""

STRANGER = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as line:
    line.settimeout(600)
    line.connect(chr(0) + sys.argv[1])
    print(line.recv(1))
"""


def clean(traces: Traces) -> None:
    wait_for(lambda: not traces.leftovers(), "clean")


def workers(told: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """The processes that have told of themselves."""
    return {(one["host"], one["pid"]) for one in told}


@pytest.mark.parametrize("launcher", ["ssh", "openssh", "pdsh", "openmpi5", "mpich4", "slurm"])
def test_many_jobs_on_held_nodes(site: Cluster, tmp_path: Path, launcher: str) -> None:
    """Other programs, arguments, folders, variables and subsets; failures leave the hold whole."""
    traces = Traces(site)
    (tmp_path / "other").mkdir()
    (tmp_path / "fail.py").write_text("import os, sys\nsys.exit(7 * (os.environ['RANK'] == '3'))\n")
    with Held(site, tmp_path, HOSTS, launcher=launcher) as held:
        first = held.tell("tell.py", "--lr", "0.1")
        assert [(one["host"], one["LOCAL_RANK"], one["argv"]) for one in first] == [
            (f"n{host}", local, ["--lr", "0.1"]) for host in (1, 2) for local in "01"
        ]
        folder, variables = str(tmp_path / "other"), {"GIVEN": "by me"}
        again = held.tell("--export", "GIVEN", "../tell.py", cwd=folder, env=variables)
        assert {(one["folder"], one["given"]) for one in again} == {(folder, "by me")}
        assert not {one["DSRUN_JOB_ID"] for one in first} & {one["DSRUN_JOB_ID"] for one in again}
        assert not workers(first) & workers(again)
        some = held.tell("--include", "n2:1", "tell.py")
        assert [(one["host"], one["WORLD_SIZE"]) for one in some] == [("n2", "1")]
        failed = held("fail.py")
        assert failed.returncode == 7
        assert "rank 3" in failed.stderr
        refused = held("--host", "n1", "tell.py")
        assert refused.returncode == 2
        assert "not with --host, which dsrun-hold sets" in refused.stderr
        (tmp_path / "tell.py").write_text("print('changed', flush=True)")
        assert held("tell.py").stdout.count("changed") == 4, "the code is the code as it is now"
        ended = held.release()
        assert ended.returncode == 0, ended.stderr
    clean(traces)


def test_two_jobs_at_once_on_half_of_the_devices_each(cluster: Cluster, tmp_path: Path) -> None:
    """A third one waits for its turn, and one that does not want to wait is refused."""
    go = str(tmp_path / "go")
    with Held(cluster, tmp_path, HOSTS) as held:
        left = held.start("--include", "n1:0@n2:0", "wait.py", go)
        right = held.start("--include", "n1:1@n2:1", "wait.py", go)
        for client in (left, right):
            held.wait_up(client, 2)
        refused = held("--on_busy", "refuse", "--include", "n1:1", "tell.py")
        assert refused.returncode == UNUSABLE
        assert "slots are in use by job" in refused.stderr
        third = held.start("tell.py")
        third.wait_for_output("waiting for job")
        (tmp_path / "go").touch()
        assert [client.wait().returncode for client in (left, right, third)] == [0, 0, 0]
        assert third.stdout.count('"RANK"') == 4
        again = held.tell("--include", "n1:1", "tell.py")
        assert len(again) == 1


def test_preloaded_modules_are_kept_for_the_next_job(cluster: Cluster, tmp_path: Path) -> None:
    """Unless they have read a variable that is another one now, or have changed: then with a line.

    The jobs after that one have them again.
    """
    (tmp_path / "own.py").write_text("import os\nvalue = os.environ.get('MINE')\n")
    (tmp_path / "look.py").write_text(
        "import sys\nfound = 'own' in getattr(sys.meta_path[0], 'kept', ())\n"
        "import own\nprint(found, own.value)\n"
    )
    with Held(cluster, tmp_path, HOSTS, "--preload", "own") as held:
        for _ in range(2):
            first = held("look.py")
            assert (first.stdout.count("True None"), first.stderr.count("themselves")) == (4, 0)
        other = held("--export", "MINE=2", "look.py")
        assert other.stdout.count("False 2") == 4
        assert "workers import own themselves: the variable MINE," in other.stderr
        assert held("--export", "MINE=2", "look.py").stdout.count("True 2") == 4
        (tmp_path / "own.py").write_text("value = 'new'\n")
        changed = held("--export", "MINE=2", "look.py")
        assert changed.stdout.count("False new") == 4
        assert "own.py has changed since it was imported" in changed.stderr


@pytest.mark.tier("test")
def test_a_job_dies_and_the_hold_lives(cluster: Cluster, tmp_path: Path) -> None:
    """Its worker, its client, or its node launcher is killed; or the user interrupts it."""
    never = str(tmp_path / "never")
    with Held(cluster, tmp_path, HOSTS) as held:

        def up() -> Running:
            client = held.start("wait.py", never)
            held.wait_up(client, 4)
            return client

        client = up()
        os.kill(held.workers()[0], signal.SIGKILL)
        assert client.wait().returncode == 128 + signal.SIGKILL
        client = up()
        client.process.send_signal(signal.SIGINT)
        assert client.wait().returncode == 128 + signal.SIGINT
        client = up()
        client.kill()
        wait_for(lambda: not held.workers(), "the end of the workers of a killed client")
        client = up()
        os.kill(held.launchers("n2")[1], signal.SIGKILL)
        assert client.wait().returncode == LOST
        held.running.wait_for_output("n2 is back")
        assert len(held.tell("tell.py")) == 4
        with cluster.host("n2").sshd(AuthorizedKeysFile="/dev/null"):  # it is not back at once
            os.kill(held.launchers("n2")[0], signal.SIGKILL)
            held.running.wait_for_output("(?s)n2 is back.*lost n2")
            assert [one["host"] for one in held.tell("--exclude", "n2", "tell.py")] == ["n1", "n1"]
            refused = held("--include", "n2", "tell.py")
        assert refused.returncode == UNUSABLE
        assert "n2: " in refused.stderr
        wait_for(lambda: held.running.stderr.count("n2 is back") == 2, "n2")
        assert len(held.tell("tell.py")) == 4


@pytest.mark.parametrize("during", [True, False], ids=["during a job", "between jobs"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_hold_is_killed(cluster: Cluster, tmp_path: Path, number: int, during: bool) -> None:
    """Nothing is left on any node, and the jobs on it end."""
    traces = Traces(cluster)
    with Held(cluster, tmp_path, HOSTS) as held:
        client = held.start("wait.py", str(tmp_path / "never")) if during else None
        if client is not None:
            held.wait_up(client, 4)
        held.running.process.send_signal(number)
        hold = held.running.wait()
        code = client.wait().returncode if client is not None else None
        wait_for(lambda: not traces.leftovers(), "clean")
    killed = number == signal.SIGKILL
    assert hold.returncode == (-number if killed else 128 + number)
    assert code in ({None} if client is None else {LOST} if killed else {143, 129})


def test_a_node_loses_power_while_it_is_held(cluster: Cluster, tmp_path: Path) -> None:
    """It is missed by its heartbeats between two jobs, and comes back with its power."""
    with Held(cluster, tmp_path, "n1:2,n2:2,n3:2", *LEASE) as held:
        with cluster.host("n2").powered_off():
            held.running.wait_for_output("lost n2: no heartbeat for 10 s")
            told = held.tell("tell.py")
            assert [one["host"] for one in told] == ["n1", "n1", "n3", "n3"]
        held.running.wait_for_output("n2 is back")
        assert len(held.tell("tell.py")) == 6


def test_a_hold_whose_machine_is_cut_off_between_jobs(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing stays on the nodes; once the cable is back, the hold has them again."""

    def there() -> list[int]:
        found = cluster.processes()
        return [p.pid for p in found if p.host in {"n1", "n2"} and p.argv[1:4] == BOOTED]

    with Held(cluster, tmp_path, HOSTS, *LEASE) as held:
        assert len(there()) == 4
        with cluster.login.unplugged():
            wait_for(lambda: not there(), "the end of the node launchers")
        wait_for(lambda: held.running.stderr.count("is back") == 2, "both nodes")
        assert len(held.tell("tell.py")) == 4


def test_another_user_is_refused_and_a_detached_hold_stays(
    cluster: Cluster, tmp_path: Path
) -> None:
    with Held(cluster, tmp_path, HOSTS, "--idle_timeout", "60", "--detach") as held:
        assert held.running.wait().returncode == 0
        stranger = cluster.login.run([sys.executable, "-c", STRANGER, held.address])
        assert stranger.stdout == "b''\n", stranger.stderr
        assert len(held.tell("tell.py")) == 4
        held.start("--on=last", "tell.py").wait_for_output('"RANK"')
        released = cluster.login.run(held.release_command())
        assert released.returncode == 0


def no_more(now: Sequence[int], before: Sequence[int]) -> bool:
    """Whether none of these numbers has grown; the last run before may have had a rest left."""
    return all(one <= other for one, other in zip(now, before, strict=True))


@pytest.mark.parametrize("runs", [10, pytest.param(200, marks=pytest.mark.tier("all"))])
def test_many_runs_leave_nothing_in_the_hold(cluster: Cluster, tmp_path: Path, runs: int) -> None:
    """Threads, descriptors and processes are the same afterwards; memory is, but for a MB."""
    with Held(cluster, tmp_path, HOSTS) as held:
        for _ in range(5):
            held("tell.py")
        pids = [pid for host in ("n1", "n2") for pid in held.launchers(host)]
        processes = len(cluster.processes())
        (threads, fds, memory), theirs = held.size(), descriptors(pids)
        for _ in range(runs):
            assert held("tell.py").returncode == 0
        wait_for(lambda: no_more(held.size()[:2], (threads, fds)), "the end of its threads")
        wait_for(lambda: no_more(descriptors(pids), theirs), "the end of their descriptors")
        wait_for(lambda: len(cluster.processes()) <= processes, "the end of their processes")
        assert held.size()[2] - memory < 1024


def test_an_elastic_job_gets_a_lost_node_back_and_so_does_the_hold(
    cluster: Cluster, tmp_path: Path
) -> None:
    """While the job runs, it reaches the node itself; what is lost at its end, the hold does."""
    elastic = ("--min_elastic_nodes", "1", "--max_elastic_nodes", "2", "--max_restarts", "5")
    go = tmp_path / "go"
    with Held(cluster, tmp_path, HOSTS) as held:
        client = held.start(*elastic, "--gain_delay", "0", "wait.py", str(go))
        held.wait_up(client, 4)
        os.kill(held.launchers("n2")[1], signal.SIGKILL)
        client.wait_for_output("next round: 2 workers on n1")
        client.wait_for_output("next round: 4 workers on n1, n2")
        held.wait_up(client, 4 + 2 + 4)
        os.kill(held.launchers("n2")[1], signal.SIGKILL)
        held.wait_up(client, 4 + 2 + 4 + 2)
        go.touch()
        assert client.wait().returncode == 0
        held.running.wait_for_output("n2 is back")
        assert len(held.tell("tell.py")) == 4
