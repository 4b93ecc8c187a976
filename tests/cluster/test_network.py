"""The network, sshd and power of a host fail: before the start, and while the job runs."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from .reaching import HELLO, LOST, PAUSE, UNUSABLE, find, gone, on, remote, script, workers

if TYPE_CHECKING:
    from .command import Dsrun, Running
    from .hosts import Cluster, Process

LEASE = 5.0

COUNT = """
import os, sys, time
for number in range(90):
    while number > 3 and not os.path.exists(sys.argv[0] + ".cut"):
        time.sleep(0.005)
    print("line", number, flush=True)
    with open(sys.argv[0] + ".at", "w") as file:
        file.write(str(number))
    time.sleep(0.03)
"""


def start_waiting(dsrun: Dsrun, path: str, launcher: str, hosts: str = "n1 n2") -> Running:
    """Start a job whose workers wait, and return once all of them do."""
    running = dsrun.start(*on(hosts, launcher, "--heartbeat_timeout", f"{LEASE:g}"), path)
    for host in hosts.split():
        running.wait_for_output(f"{host}:[0-9]+. is up")
    return running


def session_of(process: Process) -> bool:
    """Tell whether a process is sshd's for one session."""
    return process.argv[0].startswith("sshd: root@")


def test_a_killed_ssh_client_ends_the_job(cluster: Cluster, dsrun: Dsrun, tmp_path: Path) -> None:
    path = script(tmp_path, PAUSE)
    running = start_waiting(dsrun, path, "openssh")
    client = find(cluster, "login", lambda p: p.argv[0] == "ssh" and "n2" in p.argv)
    os.kill(client, signal.SIGKILL)
    ended = running.wait()
    gone(cluster, path, "n2")
    assert (ended.returncode, workers(cluster, path)) == (LOST, [])
    assert re.search("^dsrun: lost n2 after .*1 other rank stopped$", ended.stderr, re.MULTILINE)


@pytest.mark.parametrize("launcher", ["openssh", "pdsh"])
def test_a_stopped_ssh_client_does_not_outlive_the_job(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    """SIGTERM alone ends it only once somebody lets it go on."""
    running = start_waiting(dsrun, script(tmp_path, PAUSE), launcher)
    client = find(cluster, "login", lambda p: p.argv[0] == "ssh" and "n2" in p.argv)
    os.kill(client, signal.SIGSTOP)
    running.process.send_signal(signal.SIGINT)
    running.process.send_signal(signal.SIGINT)
    running.wait()
    wait_for(lambda: not Path(f"/proc/{client}").exists(), "the end of the client", 20)


@pytest.mark.parametrize("launcher", ["ssh", "openssh"])
def test_a_killed_session_of_sshd_ends_the_job(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, PAUSE)
    running = start_waiting(dsrun, path, launcher)
    os.kill(find(cluster, "n2", session_of), signal.SIGKILL)
    ended = running.wait()
    gone(cluster, path, "n2")
    assert (ended.returncode, workers(cluster, path)) == (LOST, [])
    assert re.search("^dsrun: lost n2 after ", ended.stderr, re.MULTILINE)


@remote
def test_a_cut_cable_ends_the_job_at_both_ends(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, PAUSE)
    running = start_waiting(dsrun, path, launcher)
    n2 = cluster.host("n2")
    with n2.unplugged():
        ended = running.wait()
        gone(cluster, path, "n2")
    assert (ended.returncode, workers(cluster, path)) == (LOST, [])
    assert re.search("^dsrun: lost n2 after .*1 other rank stopped$", ended.stderr, re.MULTILINE)
    assert "n1" not in ended.stderr.partition("dsrun: lost")[2]


@remote
def test_a_cut_at_the_login_ends_the_job_everywhere(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, PAUSE)
    running = start_waiting(dsrun, path, launcher)
    with cluster.login.unplugged():
        ended = running.wait()
        for host in ("n1", "n2"):
            gone(cluster, path, host)
    assert ended.returncode == LOST
    assert re.search("^dsrun: lost n[12] after ", ended.stderr, re.MULTILINE)


@remote
@pytest.mark.parametrize("cut", ["n2", "login"])
def test_a_short_cut_loses_nothing(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str, cut: str
) -> None:
    """Nor does any that is out for half of the time after which a node is lost."""
    path = script(tmp_path, COUNT)
    machine = {machine.name: machine for machine in cluster.machines}[cut]
    at = tmp_path / "train.py.at"
    running = dsrun.start(*on("n2", launcher, "--heartbeat_timeout", "30"), path)
    running.wait_for_output("line 3\n")
    with machine.unplugged():
        (tmp_path / "train.py.cut").touch()
        wait_for(lambda: at.read_text() == "89", "the worker's last line")
        assert "line 89\n" not in running.stdout
    ended = running.wait()
    assert ended.stdout == "".join(f"n2:0| line {number}\n" for number in range(90))
    assert ended.returncode == 0


@pytest.mark.tier("test")
@remote
def test_a_power_cut_ends_the_job(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, PAUSE)
    running = start_waiting(dsrun, path, launcher)
    with cluster.host("n2").powered_off():
        ended = running.wait()
    assert (ended.returncode, workers(cluster, path)) == (LOST, [])
    assert re.search("^dsrun: lost n2 after ", ended.stderr, re.MULTILINE)


@remote
def test_a_host_that_does_not_answer_is_named_within_the_timeout(
    dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    ended = dsrun(*on("n1 blackhole", launcher, "--connect_timeout", "5"), path)
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    assert "\ndsrun:   blackhole: no answer: the connection timed out" in ended.stderr
    assert "n1: " not in ended.stderr


@remote
def test_all_bad_hosts_are_listed_together(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with (
        cluster.host("n2").sshd(Port="2222"),
        cluster.host("n3").sshd(AuthorizedKeysFile="/dev/null"),
    ):
        hosts = "n1 n2 n3 nobody blackhole"
        ended = dsrun(*on(hosts, launcher, "--connect_timeout", "8"), path)
    causes = dict(re.findall("^dsrun:   (\\S+): (.*)$", ended.stderr, re.MULTILINE))
    assert list(causes) == ["n2", "n3", "nobody", "blackhole"]
    assert causes["n2"].startswith("connection refused")
    assert causes["n3"].startswith("authentication failed")
    assert causes["nobody"].startswith("its name does not resolve")
    assert causes["blackhole"].startswith("no answer")
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")


@remote
def test_hosts_that_refuse_are_named_at_once(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with cluster.host("n2").sshd(Port="2222"):
        ended = dsrun(*on("n1 n2 nobody", launcher), path)
    assert ended.returncode == UNUSABLE
    assert re.search("  n2: .*\n.*  nobody: ", ended.stderr)


@remote
def test_a_slow_login_is_waited_for_by_name(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    """Even for longer than the others may be silent later."""
    path = script(tmp_path, HELLO)
    go = tmp_path / "go"
    waits = f"sleep 7; while [ ! -e {go} ]; do sleep 0.02; done"
    slow = f'{waits}; exec $SHELL -c "$SSH_ORIGINAL_COMMAND"'
    with cluster.host("n3").sshd(ForceCommand=slow):
        patience = ("--connect_timeout", "5", "--heartbeat_timeout", "5")
        running = dsrun.start(*on("n1 n2 n3", launcher, *patience), path)
        running.wait_for_output("2/3 hosts, waiting for n3")
        go.touch()
        ended = running.wait()
    assert sorted(ended.stdout.splitlines()) == [f"n{i}:{i - 1}| here is n{i}" for i in (1, 2, 3)]
    assert ended.returncode == 0


@remote
def test_logins_that_are_turned_away_for_the_moment_are_tried_again(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with cluster.host("n2").sshd(MaxStartups="1:100:1"):
        running = [dsrun.start(*on("n2", launcher), path) for _ in range(5)]
        ended = [one.wait() for one in running]
    assert [(one.returncode, one.stdout) for one in ended] == [(0, "n2:0| here is n2\n")] * 5
