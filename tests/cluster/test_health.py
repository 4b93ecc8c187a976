"""--health_command on real hosts: what it refuses, leaves out, and lets back in."""

from __future__ import annotations

import os
import re
import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from .command import Dsrun
from .held import Held
from .jobs import options
from .rounds import WORKER, elastic, ended, node_launcher, placed, up

if TYPE_CHECKING:
    from pathlib import Path

    from .hosts import Cluster

CHECK = """
host=$(uname -n)
test ! -e bad-$host || { echo checking; cat bad-$host; exit 3; }
test ! -e hang-$host || { echo hangs; sleep 600; }
"""
"""A site's check, which fails or hangs on hosts that have such a file; it runs in the folder."""

HEALTH = ("--health_command", "sh check.sh")

SHOW = "import os\nprint('shows', os.environ['RANK'], os.environ['WORLD_SIZE'], flush=True)\n"

BUS = "GPU 0 has fallen off the bus"
BAD = f"--health_command failed (exit code 3): {BUS}"


def running_on(cluster: Cluster, host: str, word: str) -> list[int]:
    """Return the pids of the processes on a host that have this argument."""
    return [p.pid for p in cluster.processes() if p.host == host and word in p.argv]


@pytest.fixture(autouse=True)
def check(tmp_path: Path) -> None:
    """Write the check and the scripts into the job's folder."""
    (tmp_path / "check.sh").write_text(CHECK)
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "train.py").write_text(WORKER)


@pytest.mark.tier("test")
def test_nodes_that_fail_or_hang_are_named_or_left_out(dsrun: Dsrun, tmp_path: Path) -> None:
    (tmp_path / "bad-n1").write_text(BUS)
    (tmp_path / "hang-n2").touch()
    common = ("--host", "n1:1,n2:1,n3:1", *HEALTH, "--health_timeout", "8")
    refused = dsrun(*common, "show.py")
    assert refused.returncode == 69
    assert f"dsrun:   n1: {BAD}\n" in refused.stderr
    assert "dsrun:   n2: --health_command failed (stopped after 8 s): hangs\n" in refused.stderr
    done = dsrun(*common, "--exclude_unhealthy", "--min_elastic_nodes", "1", "show.py")
    assert (done.returncode, done.stdout.count("shows 0 1")) == (0, 1)
    assert f"dsrun: n1: {BAD}\ndsrun: n2: --health" in done.stderr
    assert "(stopped after 8 s): hangs; starting without them\n" in done.stderr


@pytest.mark.tier("ci")
@pytest.mark.parametrize("launcher", ["ssh", "openssh", "pdsh", "openmpi5", "mpich4", "slurm"])
def test_the_next_host_is_the_first_one(site: Cluster, tmp_path: Path, launcher: str) -> None:
    """Without the first host, the next one gets the master port."""
    (tmp_path / "bad-n1").write_text(BUS)
    hosts = () if launcher == "slurm" else ("--host", "n1:2,n2:2")
    rest = ("--exclude_unhealthy", "--min_elastic_nodes", "1")
    with closing(Dsrun(site, tmp_path, *options(launcher))) as dsrun:
        done = dsrun(*hosts, *HEALTH, *rest, "--num_gpus", "2", "--accelerator", "cpu", "show.py")
    assert done.returncode == 0, done.stderr
    assert [done.stdout.count(f"shows {rank} 2") for rank in (0, 1)] == [1, 1]
    assert f"n1: {BAD}; starting without it" in done.stderr


def test_a_spare_takes_the_place_of_a_node_that_turns_bad(cluster: Cluster, tmp_path: Path) -> None:
    """The failure there is not counted; the node is back once it has recovered."""
    with closing(Dsrun(cluster, tmp_path)) as dsrun:
        running = elastic(
            dsrun, str(tmp_path / "train.py"), "n1:1,n2:1,n3:1",
            "--elastic_training", "--max_elastic_nodes", "2", *HEALTH,
        )  # fmt: skip
        assert sorted(up(running, 2, 2)) == placed("n1", "n2")
        (tmp_path / "bad-n2").write_text(BUS)
        (worker,) = running_on(cluster, "n2", str(tmp_path / "train.py"))
        os.kill(worker, signal.SIGKILL)
        running.wait_for_output(re.escape(f"lost n2: {BAD}; going on without it"))
        running.wait_for_output("that restart is not counted: a node was lost")
        assert sorted(up(running, 4, 2)[-2:]) == placed("n1", "n3")
        (tmp_path / "bad-n2").unlink()
        running.wait_for_output("n2 is back")
        ended(running, tmp_path)


@pytest.mark.tier("all")
def test_a_node_that_comes_back_with_a_full_disk_is_kept_out(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The round of the others goes on, and the node is in the next one once it is well."""
    n2 = cluster.host("n2")
    with closing(Dsrun(cluster, tmp_path)) as dsrun:
        running = elastic(
            dsrun,
            str(tmp_path / "train.py"),
            "n1:1,n2:1",
            "--elastic_training",
            "--gain_delay",
            "0",
        )
        up(running, 2, 2)
        with n2.tmpfs("/dev/shm", "16k"):
            assert n2.run(["sh", "-c", "cat /dev/zero > /dev/shm/full"]).returncode
            os.kill(node_launcher(cluster, "n2"), signal.SIGKILL)
            assert up(running, 1, 1) == placed("n1")
            running.wait_for_output(r"cannot use n2: .*/dev/shm")
        running.wait_for_output("n2 is back")
        assert sorted(up(running, 4, 2)[-2:]) == placed("n1", "n2")
        ended(running, tmp_path)


def test_jobs_on_held_nodes_and_an_interrupt(cluster: Cluster, tmp_path: Path) -> None:
    """A refused or interrupted start leaves the hold whole, and nothing of the command."""
    with Held(cluster, tmp_path, "n1:1,n2:1") as held:
        (tmp_path / "bad-n2").write_text(BUS)
        refused = held(*HEALTH, "tell.py")
        assert (refused.returncode, f"n2: {BAD}" in refused.stderr) == (69, True)
        rest = ("--exclude_unhealthy", "--min_elastic_nodes", "1")
        assert [one["host"] for one in held.tell(*HEALTH, *rest, "tell.py")] == ["n1"]
        (tmp_path / "bad-n2").rename(tmp_path / "hang-n2")
        client = held.start(*HEALTH, "tell.py")
        wait_for(lambda: running_on(cluster, "n2", "600"), "the command")
        client.process.send_signal(signal.SIGINT)
        assert client.wait().returncode == 130
        wait_for(lambda: not running_on(cluster, "n2", "600"), "the end of the command")
        (tmp_path / "hang-n2").unlink()
        assert len(held.tell(*HEALTH, "tell.py")) == 2
