"""Elastic jobs on real hosts, with either agent: workers and nodes die, the job goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from ..support.unkillable import unkillable
from .command import Dsrun, own_lines
from .jobs import AT_ONCE, LOST, launchers, options
from .reaching import UNUSABLE, ssh_file
from .rounds import (
    IMPORT,
    WORKER,
    both_agents,
    elastic,
    ended,
    node_launcher,
    placed,
    torch_agent,
    torchs_agent,
    up,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hosts import Cluster

pytestmark = pytest.mark.observed


@pytest.fixture
def dsrun(cluster: Cluster, tmp_path: Path, agent: str) -> Iterator[Dsrun]:
    """`dsrun` with one of the two agents."""
    with closing(Dsrun(cluster, tmp_path, "--elastic_agent", agent)) as dsrun:
        yield dsrun


@pytest.fixture
def work(tmp_path: Path) -> str:
    """A worker that runs until a file says that it is to end, or to fail."""
    (tmp_path / "train.py").write_text(WORKER)
    return str(tmp_path / "train.py")


@pytest.mark.tier("test")
@both_agents
@pytest.mark.parametrize("launcher", ["ssh", "pdsh"])
def test_a_failure_restarts_all(dsrun: Dsrun, tmp_path: Path, work: str, launcher: str) -> None:
    where = options(launcher)
    running = elastic(dsrun, work, "n1:2,n2:1", *where, "--max_restarts", "2", "--log_dir", "logs")
    assert sorted(up(running, 3, 3)) == [("n1", 0), ("n1", 1), ("n2", 2)]
    (tmp_path / "fail-2-0").touch()
    assert sorted(up(running, 3, 3, 1)) == [("n1", 0), ("n1", 1), ("n2", 2)]
    assert "up 2 3 1 0 1 2 n1" in running.stdout
    said = ended(running, tmp_path)
    assert "dsrun: restart 1/2: rank 2 on n2 exited 7" in said
    assert running.stdout.count("hears SIGTERM") == 2
    (log,) = tmp_path.glob("logs/*/rank-0002.out")
    assert log.read_text().count("up 2 3") == 2


@pytest.mark.tier("all")
def test_the_failure_beyond_the_budget_is_the_jobs(dsrun: Dsrun, tmp_path: Path, work: str) -> None:
    running = elastic(dsrun, work, "n1:1,n2:1", "--max_restarts", "1")
    up(running, 2, 2)
    (tmp_path / "fail-1-0").touch()
    up(running, 2, 2, 1)
    (tmp_path / "fail-0-1").touch()
    done = running.wait(IMPORT)
    assert done.returncode == 7
    assert re.search(r"(?m)^dsrun: rank 0 \(n1, .*\) exited with code 7 after", done.stderr)


@pytest.mark.tier("all")
def test_some_failures_are_not_worth_a_restart(dsrun: Dsrun, tmp_path: Path, work: str) -> None:
    running = elastic(dsrun, work, "n1:1,n2:1", "--max_restarts", "3", "--no_restart_codes", "3,7")
    up(running, 2, 2)
    (tmp_path / "fail-1-0").touch()
    done = running.wait(IMPORT)
    assert (done.returncode, done.stderr.count("restart")) == (7, 0)


@pytest.mark.parametrize("lost", ["n1", "n2"])
@both_agents
def test_a_node_is_lost(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str, lost: str, agent: str
) -> None:
    """Its node launcher is killed, or torch's agent if there is one."""
    running = elastic(dsrun, work, "n1:1,n2:2,n3:1", "--elastic_training")
    up(running, 4, 4)
    victim = torch_agent if agent == "torch" else node_launcher
    os.kill(victim(cluster, lost), signal.SIGKILL)
    left = {"n1": ("n2", "n2", "n3"), "n2": ("n1", "n3")}[lost]
    assert sorted(up(running, len(left), len(left))) == sorted(placed(*left))
    running.wait_for_output(rf"{lost} is back", IMPORT)
    assert sorted(up(running, 8, 4)[-4:]) == placed("n1", "n2", "n2", "n3")
    said = ended(running, tmp_path)
    assert re.search(rf"(?m)^dsrun: lost {lost}: .*; going on without it$", said)


@pytest.mark.parametrize(
    "launcher", ["ssh", pytest.param("openssh", marks=pytest.mark.tier("all")), "pdsh"]
)
def test_a_node_that_comes_back_takes_part_again(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str, launcher: str
) -> None:
    """It uses up no restart, and has the rank that it had."""
    running = elastic(dsrun, work, "n1:1,n2:1", "--nnodes", "1:2", "--launcher", launcher)
    up(running, 2, 2)
    with cluster.host("n1").powered_off():
        running.wait_for_output(r"n2:0\| up 0 1 0 0 0 0 127.0.0.1", IMPORT)
    for again in ("n2:1| up 1 2 1 0 0 0 n1", "n1:0| up 0 2 0 0 0 0 n1"):
        twice = rf"{re.escape(again)}(?s:.*){re.escape(again)}"
        running.wait_for_output(twice, 2 * IMPORT)
    assert "dsrun: n1 is back" in ended(running, tmp_path)


def test_a_node_that_comes_back_when_the_others_end(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    """Their work is done, or begun once more with it; nobody is lost by that."""
    running = elastic(dsrun, work, "n1:1,n2:1,n3:1", "--elastic_training")
    up(running, 3, 3)
    os.kill(node_launcher(cluster, "n3"), signal.SIGKILL)
    running.wait_for_output("n3 is back", IMPORT)
    said = ended(running, tmp_path)
    assert re.findall(r"lost (\w+)", said) == ["n3"]


@pytest.mark.tier("all")
def test_workers_have_their_grace_when_a_round_ends(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    work = tmp_path / "slow.py"
    slow = "time.sleep(3); print('has saved', flush=True); os._exit(0)"
    work.write_text(WORKER.replace("os._exit(0)", slow))
    running = elastic(dsrun, str(work), "n1:1,n2:1", "--nnodes", "1:2", "--grace", "20")
    up(running, 2, 2)
    os.kill(node_launcher(cluster, "n2"), signal.SIGKILL)
    running.wait_for_output(r"(?s)n1:0\| has saved\n.*n1:0\| up 0 ", IMPORT)
    ended(running, tmp_path)


def test_names_that_only_ssh_knows(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    """The nodes of a round meet at an address of its first one, whichever that is."""
    hosts = ("n1", "n2", "n3")
    config = "".join(f"Host {n}x\n  HostName {n}\n  HostKeyAlias {n}\n" for n in hosts)
    with ssh_file(cluster, "config", config):
        running = elastic(dsrun, work, "n1x:1,n2x:1,n3x:1", "--nnodes", "1:3")
        up(running, 3, 3)
        os.kill(node_launcher(cluster, "n1"), signal.SIGKILL)
        address = re.escape(cluster.host("n2").address)
        for host in ("n2x:0", "n3x:1"):
            running.wait_for_output(rf"{host}\| up \d 2 \d 0 0 0 {address} ", IMPORT)
        ended(running, tmp_path)


def test_a_node_that_does_not_reach_the_first_one(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    """It is left out, and the others form the round without it."""
    running = elastic(dsrun, work, "n1:1,n2:1,n3:1,n4:1", "--nnodes", "1:4")
    up(running, 4, 4)
    n1, n2, n3 = (cluster.host(name) for name in ("n1", "n2", "n3"))
    n3.run(["ip", "route", "add", "unreachable", n2.address])
    with n1.powered_off():
        assert sorted(up(running, 2, 2)) == placed("n2", "n4")
        said = ended(running, tmp_path)
    n3.run(["ip", "route", "delete", "unreachable", n2.address])
    why = rf"n2 \([^)]+\); {n2.address} \([^)]+\)"
    assert re.search(
        rf"lost n3: cannot reach n2, the first node of the round: {why}; .*going", said
    )
    assert "did not stop its workers" not in said


@pytest.mark.tier("test")
def test_a_node_without_power_is_left_behind(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    running = elastic(dsrun, work, "n1:1,n2:1,n3:1", "--nnodes", "1:3")
    up(running, 3, 3)
    with cluster.host("n1").powered_off():
        assert sorted(up(running, 2, 2)) == placed("n2", "n3")
        ended(running, tmp_path)


@pytest.mark.tier("all")
def test_a_node_that_is_cut_off_is_still_before_the_next_round(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    running = elastic(dsrun, work, "n1:1,n2:1", "--nnodes", "1:2")
    up(running, 2, 2)
    with cluster.host("n2").unplugged():
        up(running, 1, 1)
        formed = time.monotonic()
        wait_for(
            lambda: not [p for p in cluster.processes() if p.host == "n2" and work in p.argv],
            "no worker on n2",
        )
        ended(running, tmp_path)
    assert float((tmp_path / "alive-n2-0").read_text().splitlines()[-1]) < formed


@pytest.mark.tier("all")
def test_a_node_that_stands_still_has_no_workers_in_the_next_round(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    """Its node launcher cannot end them: its guard does, and it comes back."""
    running = elastic(dsrun, work, "n1:1,n2:1", "--nnodes", "1:2")
    up(running, 2, 2)
    (worker,) = [p.pid for p in cluster.processes() if p.host == "n2" and work in p.argv]
    os.kill(node_launcher(cluster, "n2"), signal.SIGSTOP)
    up(running, 1, 1)
    formed = time.monotonic()
    wait_for(lambda: worker not in [p.pid for p in cluster.processes()], "no old worker on n2")
    assert float((tmp_path / "alive-n2-0").read_text().splitlines()[-1]) < formed
    assert sorted(up(running, 4, 2)[-2:]) == placed("n1", "n2")
    assert "dsrun: n2 is back" in ended(running, tmp_path)


@pytest.mark.parametrize("launcher", ["ssh", "openssh"])
def test_a_lost_session_that_its_host_does_not_end_is_not_kept(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str, launcher: str
) -> None:
    """Once the node is back the runner has as much open as before."""
    running = elastic(dsrun, work, "n1:1,n2:1", "--nnodes", "1:2", "--launcher", launcher)
    up(running, 2, 2)
    opened = Path(f"/proc/{running.pid}/fd")
    before = len(list(opened.iterdir()))
    guard, started = launchers(cluster, "n2")[-1]
    os.kill(guard, signal.SIGSTOP)
    os.kill(started, signal.SIGKILL)
    try:
        running.wait_for_output("n2 is back", IMPORT)
        wait_for(lambda: len(list(opened.iterdir())) == before, "what was open")
    finally:
        os.kill(guard, signal.SIGKILL)
    ended(running, tmp_path)


@pytest.mark.tier("all")
def test_a_node_launcher_that_cannot_end_has_no_workers_in_the_next_round(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    """It waits for a dead disk: its workers do not become its guard's, which ends them at once."""
    running = elastic(dsrun, work, "n1:1,n2:1", "--nnodes", "1:2")
    up(running, 2, 2)
    (worker,) = [p.pid for p in cluster.processes() if p.host == "n2" and work in p.argv]
    launcher = node_launcher(cluster, "n2")
    with unkillable(launcher):
        os.kill(launcher, signal.SIGSTOP)
        up(running, 1, 1)
        formed = time.monotonic()
        wait_for(lambda: worker not in [p.pid for p in cluster.processes()], "no old worker on n2")
        assert steps(tmp_path, "n2")[-1] < formed
        assert sorted(up(running, 4, 2)[-2:]) == placed("n1", "n2")
        assert "dsrun: n2 is back" in ended(running, tmp_path)


@torchs_agent
@pytest.mark.parametrize(
    ("torch", "said"),
    [
        (
            "raise ModuleNotFoundError(name='torch')",
            r"\S+ has no torch; torch's agent needs",
        ),
        ("__version__ = '2.1.0'", r"torch's agent needs torch 2\.3 or newer; \S+ has 2\.1\.0 \("),
        (
            "raise ImportError('libcudnn.so.9: oh')",
            r"torch of \S+ cannot be imported: libcudnn\.so\.9",
        ),
    ],
)
def test_a_torch_that_does_not_do_is_refused(
    dsrun: Dsrun, tmp_path: Path, work: str, torch: str, said: str
) -> None:
    """In one line for each node, of which the last is the end of the job."""
    (tmp_path / "torch.py").write_text(torch)
    where = ("--host", "n1:1,n2:1", "--accelerator", "cpu", "--nnodes", "1:2")
    done = dsrun(*where, work, env={"PYTHONPATH": str(tmp_path)})
    first, last = own_lines(done.stderr)[1:]
    assert done.returncode == UNUSABLE
    assert re.match(rf"dsrun: lost n\d: .*{said}.*; going on without it$", first)
    assert re.match(rf"dsrun: n\d: .*{said}", last)


@pytest.mark.parametrize("agent", ["dsrun"], indirect=True)
def test_a_job_without_python_and_torch_is_restarted(dsrun: Dsrun, tmp_path: Path) -> None:
    """Nothing on the nodes imports torch, which cannot be imported here."""
    (tmp_path / "torch.py").write_text("raise ImportError('not here')")
    script = tmp_path / "work.sh"
    script.write_text("#!/bin/sh\necho up $RANK $TORCHELASTIC_RESTART_COUNT\n"
                      f"cd {tmp_path}; touch up.$RANK\n"
                      "while [ ! -e up.0 ]; do sleep 0.05; done\n"
                      "exit $((RANK == 1 && TORCHELASTIC_RESTART_COUNT == 0))\n")  # fmt: skip
    script.chmod(0o755)
    where = ("--host", "n1:1,n2:1", "--accelerator", "cpu", "--no_python", "--max_restarts", "1")
    done = dsrun(*where, str(script), env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    up_lines = sorted(line for line in done.stdout.splitlines() if "up" in line)
    assert up_lines == ["n1:0| up 0 0", "n1:0| up 0 1", "n2:1| up 1 0", "n2:1| up 1 1"]


@pytest.mark.tier("all")
def test_a_spare_takes_the_place_of_a_lost_node(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    running = elastic(
        dsrun, work, "n1:1,n2:1,n3:1", "--elastic_training", "--max_elastic_nodes", "2"
    )
    assert sorted(up(running, 2, 2)) == placed("n1", "n2")
    os.kill(node_launcher(cluster, "n1"), signal.SIGKILL)
    running.wait_for_output(r"n3:1\| up 1 2", IMPORT)
    assert sorted(up(running, 4, 2)[-2:]) == placed("n2", "n3")
    ended(running, tmp_path)


@pytest.mark.tier("all")
def test_too_few_nodes_end_the_job(cluster: Cluster, dsrun: Dsrun, work: str) -> None:
    running = elastic(dsrun, work, "n1:1,n2:1", "--elastic_training", "--min_elastic_nodes", "2")
    up(running, 2, 2)
    os.kill(node_launcher(cluster, "n2"), signal.SIGKILL)
    done = running.wait(IMPORT)
    assert done.returncode == LOST
    assert re.search(r"(?m)^dsrun: lost n2 after ", done.stderr)


@pytest.mark.tier("all")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_job(dsrun: Dsrun, work: str, number: signal.Signals) -> None:
    running = elastic(dsrun, work, "n1:1,n2:1", "--max_restarts", "3")
    up(running, 2, 2)
    running.process.send_signal(number)
    assert running.wait(IMPORT).returncode == 128 + number


@pytest.mark.tier("test")
def test_the_runner_is_killed(cluster: Cluster, dsrun: Dsrun, work: str) -> None:
    """Its workers are told to stop when its lines end, and not by silence or by SIGKILL."""
    restarts = ("--max_restarts", "3")
    running = elastic(dsrun, work, "n1:1,n2:1", *restarts, *AT_ONCE)
    up(running, 2, 2)
    os.kill(running.pid, signal.SIGKILL)
    wait_for(lambda: not [p for p in cluster.processes() if p.job and work in p.argv], "no worker")


def test_a_worker_that_always_fails_is_restarted_so_often_and_no_more(
    dsrun: Dsrun, tmp_path: Path
) -> None:
    """With growing pauses; the code is that of the last failure."""
    failing = tmp_path / "fails.py"
    failing.write_text(
        "import os, time\n"
        "print('at', time.monotonic(), flush=True)\n"
        "os._exit(10 + int(os.environ['TORCHELASTIC_RESTART_COUNT']))\n"
    )
    running = elastic(dsrun, str(failing), "n1:1", "--max_restarts", "3")
    done = running.wait(IMPORT)
    assert done.returncode == 13
    said = [line for line in done.stderr.splitlines() if "restart " in line]
    assert [line[:19] for line in said] == [f"dsrun: restart {n}/3:" for n in (1, 2, 3)]
    at = [float(word) for word in re.findall(r"at ([\d.]+)", done.stdout)]
    pauses = [later - sooner for sooner, later in pairwise(at)]
    assert len(pauses) == 3
    assert pauses[1] >= 1
    assert pauses[2] >= 2


HOLDER = """
import os, signal, socket, subprocess, sys

if sys.argv[-1] == "hold":
    os.setsid()
    with socket.create_server(("127.0.0.1", 47123)):
        os.write(1, b"holds")
        os.close(1)
        signal.pause()
else:
    mine, theirs = os.pipe()
    restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
    subprocess.Popen([sys.executable, __file__, "hold"], stdout=theirs)
    os.close(theirs)
    held = os.read(mine, 16)
    print("restart", restart, held, flush=True)
    os._exit(int(restart == "0"))
"""


def test_what_a_former_round_left_behind_is_gone_before_the_next(
    dsrun: Dsrun, tmp_path: Path
) -> None:
    """A child in a session of its own, which holds a port."""
    holder = tmp_path / "holder.py"
    holder.write_text(HOLDER)
    running = elastic(dsrun, str(holder), "n1:1", "--max_restarts", "1")
    done = running.wait(IMPORT)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"restart \d b'.*?'", done.stdout) == [
        "restart 0 b'holds'",
        "restart 1 b'holds'",
    ]


@pytest.mark.tier("all")
@pytest.mark.parametrize("shorter", [True, False])
def test_a_cable_is_cut_and_mended(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str, shorter: bool
) -> None:
    """A short cut is no event; after a long one the node is back, and never was there twice."""
    lease = 20 if shorter else 6
    beats = ("--heartbeat_timeout", f"{lease}")
    running = elastic(dsrun, work, "n1:1,n2:1", "--elastic_training", *beats)
    up(running, 2, 2)
    cut = time.monotonic()
    with cluster.host("n2").unplugged():
        if shorter:
            goes_on(tmp_path, cut + 0.5)
        else:
            up(running, 1, 1)
    mended = time.monotonic()
    if not shorter:
        running.wait_for_output(r"(?s)(n2:1\| up 1 2 .*){2}", IMPORT)
    goes_on(tmp_path, mended + lease if shorter else mended)
    said = ended(running, tmp_path)
    assert ("lost" in said) != shorter
    assert running.stdout.count("n2:1| up 1 2 ") == (1 if shorter else 2)
    silences = [later - sooner for sooner, later in pairwise(steps(tmp_path, "n2"))]
    assert shorter or max(silences) > 1.5


def goes_on(folder: Path, until: float) -> None:
    """Wait for a step of the worker on n2 after this time."""
    wait_for(lambda: steps(folder, "n2")[-1] > until, "steps on n2")


def steps(folder: Path, host: str) -> list[float]:
    """When the worker of a host was alive, so far."""
    lines = (folder / f"alive-{host}-0").read_text().splitlines(keepends=True)
    return [float(line) for line in lines if line.endswith("\n")]


def test_an_ssh_client_is_killed(cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str) -> None:
    """Its node is lost, and reached again by another."""
    running = elastic(dsrun, work, "n1:1,n2:1", "--elastic_training", "--launcher", "openssh")
    up(running, 2, 2)
    (client,) = [p.pid for p in cluster.processes() if p.argv[0] == "ssh" and "n2" in p.argv]
    os.kill(client, signal.SIGKILL)
    running.wait_for_output(r"(?s)(n2:1\| up 1 2 .*){2}", IMPORT)
    said = ended(running, tmp_path)
    assert "lost n2" in said
    assert "n2 is back" in said


def test_the_last_failure_is_told_with_its_words(dsrun: Dsrun, tmp_path: Path) -> None:
    """There is no other round, though more than the least number of nodes are there."""
    work = tmp_path / "missing.py"
    failing = "import os, time\nif os.environ['RANK'] == '1':\n    import not_there\n"
    work.write_text(failing + "time.sleep(300)\n")
    running = elastic(
        *(dsrun, str(work), "n1:1,n2:1,n3:1", "--elastic_training", "--max_restarts", "0"),
        *("--report_file", "report.json"),
    )
    done = running.wait(IMPORT)
    report = json.loads((tmp_path / "report.json").read_text())
    assert (done.returncode, "next round" in done.stderr) == (1, False), done.stderr
    assert "No module named 'not_there'" in report["first_failure"]["stderr"]
    assert "2 other ranks stopped" in done.stderr
