"""Elastic jobs on hosts whose nodes come and go: hostfiles, programs, dsrun-job scale, notices."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from ..support.limits import NEVER, wait_for
from .command import CHECKOUT, Dsrun
from .reaching import on, remote
from .rounds import (
    IMPORT,
    WORKER,
    elastic,
    ended,
    node_launcher,
    placed,
    torch_agent,
    torchs_agent,
    up,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from .command import Running
    from .hosts import Cluster

TOO_FEW = 76

SAVING = """
import os, signal, sys, time
def save(*_):
    print("saves", os.environ["RANK"], "at", time.monotonic(), flush=True)
signal.signal(signal.SIGUSR1, save)
"""


@pytest.fixture
def dsrun(cluster: Cluster, tmp_path: Path, agent: str) -> Iterator[Dsrun]:
    """`dsrun` with one of the two agents."""
    with closing(Dsrun(cluster, tmp_path, "--elastic_agent", agent)) as dsrun:
        yield dsrun


@pytest.fixture
def work(tmp_path: Path) -> str:
    """A worker that runs until a file says that it is to end, or to fail."""
    (tmp_path / "train.py").write_text(SAVING + WORKER)
    return str(tmp_path / "train.py")


def growing(dsrun: Dsrun, work: str, *more: str) -> Running:
    """Start an elastic job whose hosts are named by `more`, without waiting for it."""
    common = ("--elastic_training", "--grace", "2", "--heartbeat_timeout", "6")
    return dsrun.start(*common, "--accelerator", "cpu", *more, work)


def write(path: Path, text: str) -> None:
    """Replace a file as an editor does, in one step."""
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.rename(path)


SCALE = (sys.executable, str(CHECKOUT / "bin" / "dsrun-job"), "scale")


def scale(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    """Run dsrun-job scale where dsrun runs."""
    return cluster.login.run([*SCALE, *words])


def job_of(running: Running) -> str:
    return running.wait_for_output(r"; job (\S+)")[1]


# -- hosts that come and go -----------------------------------------------------------------------


def test_a_watched_hostfile_adds_and_takes_away(dsrun: Dsrun, tmp_path: Path, work: str) -> None:
    """With other device counts; without a restart."""
    hosts = tmp_path / "hosts"
    write(hosts, "n1 slots=1\nn2 slots=1\n")
    running = growing(dsrun, work, "-H", str(hosts), "--watch_hostfile")
    assert sorted(up(running, 2, 2)) == placed("n1", "n2")
    write(hosts, "n1 slots=1\nn2 slots=1\nn3 slots=2\n")
    assert sorted(up(running, 4, 4)) == placed("n1", "n2", "n3", "n3")
    write(hosts, "n2 slots=1\nn3 slots=2\n")
    assert sorted(up(running, 3, 3)) == placed("n2", "n3", "n3")
    write(hosts, "n2 slots=1\nn3 slots=2 slots=2\n")
    running.wait_for_output(r"dsrun: .*hosts:2.*; the hosts stay as they are")
    write(hosts, "n1 slots=1\nn2 slots=1\nn3 slots=2\n")
    running.wait_for_output(r"(?s)(n1:\d\| up \d 4 .*){2}", IMPORT)
    said = ended(running, tmp_path)
    assert "dsrun: n3 is here" in said
    assert "dsrun: removing n1 from the job" in said


def test_a_program_names_the_hosts(dsrun: Dsrun, tmp_path: Path, work: str) -> None:
    """In Horovod's form; what fails changes nothing."""
    script, hosts = tmp_path / "discover.sh", tmp_path / "hosts"
    write(hosts, "n1:1\n")
    script.write_text(f"#!/bin/sh\ncat {hosts}\n")
    script.chmod(0o755)
    running = growing(dsrun, work, "--host_discovery_script", str(script))
    assert up(running, 1, 1) == placed("n1")
    hosts.unlink()
    running.wait_for_output(r"exited with code 1: cat: .*; the hosts stay as they are")
    write(hosts, "n1:1\nn2:1\n")
    assert sorted(up(running, 2, 2)) == placed("n1", "n2")
    ended(running, tmp_path)


def test_a_host_that_is_added_and_cannot_be_reached_is_tried_again(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    hosts = tmp_path / "hosts"
    write(hosts, "n1 slots=1\n")
    with ExitStack() as off:
        off.enter_context(cluster.host("n2").powered_off())
        running = growing(dsrun, work, "-H", str(hosts), "--watch_hostfile")
        up(running, 1, 1)
        write(hosts, "n1 slots=1\nn2 slots=1\n")
        running.wait_for_output(r"dsrun: n2: .*; trying again", IMPORT)
    assert sorted(up(running, 2, 2)) == placed("n1", "n2")
    ended(running, tmp_path)


def test_thousands_of_hosts_that_cannot_be_reached_cost_the_training_nothing(
    dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    """One real host is among them, and the job can be stopped."""
    script, names = tmp_path / "discover.sh", [f"x{number}" for number in range(10_000)]
    (tmp_path / "new").write_text("\n".join(["n1:1", "n2:1", *names[:50], "n3:1", *names[50:]]))
    write(tmp_path / "hosts", "n1:1\nn2:1\n")
    script.write_text(f"#!/bin/sh\ncat {tmp_path}/hosts\n")
    script.chmod(0o755)
    # To read so many hosts takes a busy machine several seconds.
    patient = ("--heartbeat_timeout", "60", "--nnodes", "2:3")
    running = growing(dsrun, work, "--host_discovery_script", str(script), *patient)
    up(running, 2, 2)
    (tmp_path / "new").rename(tmp_path / "hosts")
    assert sorted(up(running, 3, 3)) == placed("n1", "n2", "n3")
    told = r"(?s)(dsrun: x\[\d+-\d+\]: its name does not resolve .*){2}"
    running.wait_for_output(told, IMPORT)
    all_told = time.monotonic()
    wait_for(lambda: last_step(tmp_path, "n3") > all_told, "the same worker's next step")
    assert running.stdout.count("| up ") == 2 + 3, "and no other round"
    running.process.send_signal(signal.SIGTERM)
    assert running.wait().returncode == 128 + signal.SIGTERM
    assert "dsrun: lost" not in running.stderr


@remote
@pytest.mark.parametrize("cut", ["n2", "login"])
def test_a_cable_that_is_out_for_a_third_of_the_timeout_costs_no_round(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str, launcher: str, cut: str
) -> None:
    """TCP repeats after pauses that double: the silence may be twice as long."""
    machine = {machine.name: machine for machine in cluster.machines}[cut]
    running = dsrun.start(
        *on("n1 n2", launcher, "--heartbeat_timeout", "9"), "--elastic_training", work
    )
    up(running, 2, 2)
    began = time.monotonic()
    with machine.unplugged():
        wait_for(lambda: last_step(tmp_path, "n2") > began + 3.0, "steps without a cable")
    wait_for(lambda: last_step(tmp_path, "n2") > began + 9.5, "as many with it")
    assert "dsrun: lost" not in ended(running, tmp_path)


def last_step(folder: Path, host: str) -> float:
    return float((folder / f"alive-{host}-0").read_text().split()[-1])


IMPORTING = """
import os, sys, time

folder, restart = os.path.dirname(sys.argv[0]), os.environ["TORCHELASTIC_RESTART_COUNT"]
world, host = os.environ["WORLD_SIZE"], os.uname().nodename
with open(f"{folder}/starts-{host}", "a") as file:
    file.write(world)
while not os.path.exists(f"{folder}/imported-{world}"):
    time.sleep(0.02)
print("up", os.environ["RANK"], world, flush=True)
while not os.path.exists(f"{folder}/end"):
    time.sleep(0.02)
"""


def test_a_host_that_is_back_while_the_others_import_costs_them_one_start(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    """It waits until they have printed something: one start for the loss, one for the return."""
    work, starts = tmp_path / "train.py", tmp_path / "starts-n1"
    work.write_text(IMPORTING)
    (tmp_path / "imported-3").touch()
    running = elastic(dsrun, str(work), "n1:1,n2:1,n3:1", "--nnodes", "1:3")
    for rank in range(3):
        running.wait_for_output(rf"up {rank} 3", IMPORT)
    with cluster.host("n3").powered_off():
        wait_for(lambda: starts.read_text() == "32", "the round without n3", IMPORT)
    running.wait_for_output(r"a round of 3 nodes begins in \d+ s, or when a worker", IMPORT)
    (tmp_path / "imported-2").touch()
    running.wait_for_output(r"(?s)up [01] 2\n.*(up [012] 3\n.*){3}", IMPORT)
    ended(running, tmp_path)
    assert starts.read_text() == "323"


# -- dsrun-job scale ------------------------------------------------------------------------------


@pytest.mark.tier("test")
def test_a_job_is_made_smaller_and_larger(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    running = growing(dsrun, work, "--host", "n1:1,n2:1,n3:1", "--min_elastic_nodes", "2")
    up(running, 3, 3)
    job = job_of(running)
    done = scale(cluster, job, "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"dsrun-job: job {job}: rounds of at most 2 nodes from now on\n"
    assert sorted(up(running, 2, 2)) == placed("n1", "n2")
    scale(cluster, "3")
    running.wait_for_output(r"(?s)(n3:2\| up 2 3 .*){2}", IMPORT)
    ended(running, tmp_path)


def test_sizes_that_are_refused(cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str) -> None:
    running = growing(dsrun, work, "--host", "n1:1,n2:1")
    job = job_of(running)
    up(running, 2, 2)
    refused = {
        (job, "3"): f"dsrun: dsrun-job: job {job}: this job takes 1 to 2 nodes, not 3\n",
        (job, "x"): "dsrun: dsrun-job scale: expected a number of nodes last, not 'x':"
        " dsrun-job scale [JOB] 4\n",
        ("x", "1"): f"dsrun: dsrun-job: no job x on this machine; running: {job}\n",
    }
    for words, said in refused.items():
        done = scale(cluster, *words)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    ended(running, tmp_path)


# -- notices --------------------------------------------------------------------------------------


def test_a_signal_tells_of_a_coming_change(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    notice = ("--change_notice", "SIGUSR1", "--change_delay", "3")
    running = growing(dsrun, work, "--host", "n1:1,n2:1", *notice)
    up(running, 2, 2)
    before = time.monotonic()
    scale(cluster, job_of(running), "1")
    _, told = [running.wait_for_output(rf"saves {rank} at (\S+)")[1] for rank in (0, 1)]
    up(running, 1, 1)
    assert time.monotonic() - before > 3
    assert last_step(tmp_path, "n2") - float(told) > 1, "it has had time to save"
    assert "the nodes of the job will change in 3 s" in ended(running, tmp_path)


def test_a_file_tells_of_a_coming_change_and_is_gone_behind_it(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    sign = tmp_path / "change"
    running = growing(
        dsrun, work, "--host", "n1:1,n2:1", "--change_notice", "change", "--change_delay", "2"
    )
    up(running, 2, 2)
    with cluster.login.popen([*SCALE, job_of(running), "1"]):
        wait_for(sign.exists, "the file")
    up(running, 1, 1)
    assert not sign.exists()
    ended(running, tmp_path)


# -- too few nodes, bad nodes ---------------------------------------------------------------------


@pytest.mark.tier("all")
def test_a_job_starts_with_the_nodes_that_it_needs(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    """The first host is off; it joins when it has its power."""
    with cluster.host("n1").powered_off():
        running = elastic(dsrun, work, "n1:1,n2:1,n3:1", "--elastic_training")
        assert sorted(up(running, 2, 2)) == placed("n2", "n3")
    assert sorted(up(running, 3, 3)) == placed("n1", "n2", "n3")
    assert re.search("(?m)^dsrun: n1: .*; starting without it$", ended(running, tmp_path))


@pytest.mark.tier("all")
def test_below_the_least_a_job_waits_and_goes_on(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    running = elastic(dsrun, work, "n1:1,n2:1", "--nnodes", "2:2", "--max_restarts", "1",
                      "--min_wait", f"{NEVER:g}")  # fmt: skip
    up(running, 2, 2)
    os.kill(node_launcher(cluster, "n2"), signal.SIGKILL)
    running.wait_for_output(
        f"1 node left, but a round needs at least 2: waiting {NEVER:g} s for more"
    )
    running.wait_for_output(r"(?s)(n2:1\| up 1 2 .*){2}", IMPORT)
    ended(running, tmp_path)


@pytest.mark.tier("all")
def test_below_the_least_for_too_long_a_job_ends(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    """All is stopped after the time to wait, and the code is its own."""
    report = tmp_path / "report.json"
    running = elastic(
        dsrun, work, "n1:1,n2:1,n3:1", "--nnodes", "2:3", "--min_wait", "2",
        "--report_file", str(report),
    )  # fmt: skip
    up(running, 3, 3)
    with cluster.host("n2").powered_off(), cluster.host("n3").powered_off():
        running.wait_for_output("1 node left, but a round needs at least 2: waiting 2 s for more")
        done = running.wait()
    assert done.returncode == TOO_FEW
    assert re.search(r"(?m)^dsrun: gave up after .*: too few nodes for too long", done.stderr)
    assert json.loads(report.read_text())["exit_code"] == TOO_FEW


@pytest.mark.tier("all")
def test_a_node_where_workers_fail_again_and_again_is_put_aside(
    dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    running = elastic(dsrun, work, "n1:1,n2:1", "--elastic_training")
    up(running, 2, 2)
    for restart in range(3):
        (tmp_path / f"fail-1-{restart}").touch()
    assert up(running, 1, 1, 3) == placed("n1")
    why = "3 failures within 10 minutes began on n2, and none elsewhere"
    assert f"dsrun: {why}: excluding it for 300 s (--cool_down)" in ended(running, tmp_path)


@pytest.mark.tier("all")
def test_a_failure_that_a_lost_node_has_caused_is_none(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    """Without any restart left: others' workers feel the loss before the runner knows of it."""
    running = elastic(dsrun, work, "n1:1,n2:1,n3:1", "--nnodes", "1:3")
    up(running, 3, 3)
    victim = node_launcher(cluster, "n1")
    (tmp_path / "fail-2-0").touch()
    os.kill(victim, signal.SIGKILL)
    assert sorted(up(running, 2, 2)) == placed("n2", "n3")
    assert "next round: 2 workers on n2, n3" in ended(running, tmp_path)


@torchs_agent
def test_a_frozen_agent_costs_its_node(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    running = elastic(dsrun, work, "n1:1,n2:1,n3:1", "--elastic_training")
    up(running, 3, 3)
    frozen = torch_agent(cluster, "n2")
    os.kill(frozen, signal.SIGSTOP)
    (tmp_path / "fail-0-0").touch()
    assert sorted(up(running, 2, 2, 1)) == placed("n1", "n3")
    assert "lost n2: it did not stop its workers within 12 s" in ended(running, tmp_path)
