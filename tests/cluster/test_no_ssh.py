"""`--no_ssh`: the same command on every node, and nobody logs in anywhere."""

from __future__ import annotations

import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .command import COMMAND, Running
from .machines import first_descendant, kill_child
from .reaching import LOST, PATIENT, PAUSE, UNUSABLE, USAGE, gone, script, workers

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

    from .hosts import Cluster

HELLO = """
import os
print("here is", os.uname().nodename, "rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
"""
FAIL = """
import os, signal, sys
if os.environ["RANK"] == sys.argv[-2]:
    print("cannot go on", file=sys.stderr)
    sys.exit(int(sys.argv[-1]))
signal.pause()
"""
TOKEN = {"DSRUN_TOKEN": "tulip"}
THREE = "--no_ssh --host n1:1,n2:1,n3:1 --grace 1"
TWO = "--no_ssh --host n1:2,n2:2"
TORCHRUN = "--nnodes 2 --master_addr n1 --master_port 29700 --nproc_per_node 2"

Ended = list["subprocess.CompletedProcess[str]"]


class Nodes:
    """dsrun on the hosts themselves, in one folder, each told which node it is.

    Args:
        options: the same on all of them; no silence ends the job unless they say so.
        program: the script and its arguments.
    """

    def __init__(self, cluster: Cluster, cwd: Path, options: str, *program: str) -> None:
        self._cluster = cluster
        self._cwd = cwd
        self._options = [*PATIENT, *options.split()]
        self._program = program
        self.running: dict[str, Running] = {}

    def start(
        self,
        rank: int,
        *more: str,
        host: str | None = None,
        env: Mapping[str, str] = TOKEN,
        name: str = "",
    ) -> Running:
        """Start it as this node, on the host whose turn it is or on another, as `name`."""
        machine = self._cluster.host(host or self._cluster.names[rank])
        command = [*COMMAND, *self._options, "--node_rank", str(rank), *more, *self._program]
        running = Running(machine.popen(command, env=env, cwd=self._cwd, text=False))
        self.running[name or str(rank)] = running
        return running

    def start_all(self, *ranks: int) -> None:
        """Start these nodes."""
        for rank in ranks:
            self.start(rank)

    def pid(self, name: str) -> int:
        """The process that dsrun was started as on that node."""
        return first_descendant(self.running[name].pid, 1)

    def wait(self) -> Ended:
        """How all of them ended, in the order in which they were started.

        Raises:
            AssertionError: one has not; the outputs of all are told.
        """
        try:
            return [one.wait() for one in self.running.values()]
        except AssertionError as error:
            told = [f"node {name}\n{one}" for name, one in self.running.items()]
            raise AssertionError("\n".join([f"{error}", *told])) from None

    def close(self) -> None:
        """Kill what still runs."""
        for one in self.running.values():
            if one.process.poll() is None:
                kill_child(one.pid)
            one.kill()


@contextmanager
def nodes(
    cluster: Cluster, cwd: Path, *program: str, options: str = "", base: str = THREE
) -> Iterator[Nodes]:
    """Nodes, of n1 to n3 unless `base` says otherwise, that are gone after the `with` block."""
    job = Nodes(cluster, cwd, f"{base} {options}", *program)
    try:
        yield job
    finally:
        job.close()


@pytest.mark.tier("test")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_the_same_command_on_every_node(
    cluster: Cluster, tmp_path: Path, order: tuple[int, ...]
) -> None:
    with nodes(cluster, tmp_path, script(tmp_path, HELLO)) as job:
        job.start_all(*order)
        job.wait()
        ended = {rank: running.wait() for rank, running in job.running.items()}
    said = [f"n{r + 1}:{r}| here is n{r + 1} rank {r} of 3" for r in range(3)]
    assert sorted(ended["0"].stdout.splitlines()) == said
    assert [ended[rank].stdout for rank in ("1", "2")] == ["", ""]
    assert [one.returncode for one in ended.values()] == [0, 0, 0]
    assert "DSRUN_TOKEN" not in "".join(one.stderr for one in ended.values())


def test_who_is_missing_is_named_and_waited_for(cluster: Cluster, tmp_path: Path) -> None:
    with nodes(cluster, tmp_path, script(tmp_path, HELLO)) as job:
        job.start_all(0, 1)
        job.running["0"].wait_for_output("2/3 hosts, waiting for n3\n")
        job.running["1"].wait_for_output("node 1 of 3 has joined; n1 shows all output\n")
        job.start(2)
        assert [one.returncode for one in job.wait()] == [0, 0, 0]


def test_a_node_says_what_it_waits_for(cluster: Cluster, tmp_path: Path) -> None:
    with nodes(cluster, tmp_path, script(tmp_path, HELLO)) as job:
        job.start(1).wait_for_output("dsrun: waiting for node 0 at n1:29501\n")
        job.start_all(0, 2)
        assert [one.returncode for one in job.wait()] == [0, 0, 0]


def test_nobody_is_waited_for_longer_than_asked(cluster: Cluster, tmp_path: Path) -> None:
    with nodes(cluster, tmp_path, script(tmp_path, HELLO)) as job:
        job.start(1).wait_for_output("waiting for node 0 at ")
        job.start(0, "--start_timeout", "10")
        second, first = job.wait()
    assert first.returncode == UNUSABLE
    assert re.search("^dsrun:   n3: no answer in time", first.stderr, re.MULTILINE)
    assert second.returncode == first.returncode


def test_node_0_never_comes(cluster: Cluster, tmp_path: Path) -> None:
    with nodes(cluster, tmp_path, script(tmp_path, HELLO), options="--start_timeout 2") as job:
        job.start(1)
        (ended,) = job.wait()
    assert ended.returncode == LOST
    assert re.search("n1:29501.*; is dsrun running on node 0", ended.stderr)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--node_rank", "3"], "--node_rank 3: there are 3 nodes, 0 to 2"),
        (["--node_rank", "one"], "--node_rank: expected 0 to N-1 for N nodes"),
        ([], "--no_ssh: give the rank of this node: --node_rank N, from 0"),
    ],
)
def test_a_node_that_there_is_not(
    cluster: Cluster, tmp_path: Path, words: list[str], complaint: str
) -> None:
    command = [*COMMAND, "--no_ssh", "--host", "n1:1,n2:1,n3:1", *words, script(tmp_path, HELLO)]
    ended = cluster.host("n1").run(command, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (USAGE, "")
    assert complaint in ended.stderr


def test_one_node_rank_twice_ends_the_wait(cluster: Cluster, tmp_path: Path) -> None:
    with nodes(cluster, tmp_path, script(tmp_path, HELLO)) as job:
        job.start_all(0, 1)
        job.running["1"].wait_for_output("has joined")
        job.start(1, host="n4", name="twice")
        ended = job.wait()
    told = "two nodes have --node_rank 1: n2 and n4; give each node its own, 0 to 2"
    assert [(one.returncode, told in one.stderr) for one in ended] == [(UNUSABLE, True)] * 3


@pytest.mark.parametrize("hosts", [("n1", "n2"), ("n2", "n1")])
def test_node_rank_0_everywhere_ends_the_wait(
    cluster: Cluster, tmp_path: Path, hosts: tuple[str, str]
) -> None:
    """As it is where a variable in a batch script is expanded there, once."""
    with nodes(cluster, tmp_path, script(tmp_path, HELLO)) as job:
        for host in hosts:
            job.start(0, host=host, name=host)
        job.wait()
    n1, n2 = (job.running[host].wait() for host in ("n1", "n2"))
    assert (n1.returncode, n2.returncode) == (UNUSABLE, UNUSABLE)
    assert "two nodes have --node_rank 0: n1 and n2; give each node its own, 0 to 2" in n1.stderr
    assert "--node_rank 0 on n2, but another machine answers as node 0 at n1:29501" in n2.stderr


def test_another_node_rank_where_node_0_is_to_be(cluster: Cluster, tmp_path: Path) -> None:
    with nodes(cluster, tmp_path, script(tmp_path, HELLO)) as job:
        job.start(1, host="n1")
        (ended,) = job.wait()
    assert ended.returncode == USAGE
    assert "--node_rank 1: this machine is n1, which is node 0" in ended.stderr


@pytest.mark.tier("test")
@pytest.mark.parametrize("env", [{"DSRUN_TOKEN": "daisy"}, {}], ids=["another", "none"])
def test_a_wrong_secret(cluster: Cluster, tmp_path: Path, env: dict[str, str]) -> None:
    with nodes(cluster, tmp_path, script(tmp_path, HELLO)) as job:
        job.start_all(0, 2)
        stranger = job.start(1, env=env, name="stranger")
        refused = stranger.wait()
        job.running["0"].wait_for_output("node 1: its DSRUN_TOKEN differs from node 0's")
        job.start(1)
        ended = [job.running[rank].wait() for rank in ("0", "1", "2")]
    assert (refused.returncode, "rejected this node" in refused.stderr) == (LOST, True)
    assert [one.returncode for one in ended] == [0, 0, 0]


def test_a_false_node_0_is_not_served(cluster: Cluster, tmp_path: Path) -> None:
    path = script(tmp_path, "raise SystemExit('must not run')")
    with nodes(cluster, tmp_path, path) as job:
        job.start(0, env={"DSRUN_TOKEN": "daisy"})
        refused = job.start(1).wait()
        assert refused.returncode != 0
        assert workers(cluster, path) == []
        os.kill(job.pid("0"), signal.SIGTERM)
        job.wait()


@pytest.mark.parametrize("what", ["slots", "script"])
def test_another_command_line(cluster: Cluster, tmp_path: Path, what: str) -> None:
    path, other = script(tmp_path, HELLO), script(tmp_path, HELLO, "other.py")
    slots, program = {"slots": ("--num_gpus 1", path), "script": ("", other)}[what]
    with (
        nodes(cluster, tmp_path, path, base=TWO) as job,
        nodes(cluster, tmp_path, program, base=TWO, options=slots) as odd,
    ):
        job.start(0)
        ended = [odd.start(1).wait(), job.running["0"].wait()]
    told = "node 1 (n2) was started with another command line"
    assert [(one.returncode, told in one.stderr) for one in ended] == [(UNUSABLE, True)] * 2


def test_no_secret_is_warned_of(cluster: Cluster, tmp_path: Path) -> None:
    with nodes(cluster, tmp_path, script(tmp_path, HELLO)) as job:
        for rank in range(3):
            job.start(rank, env={})
        ended = job.wait()
    assert [one.returncode for one in ended] == [0, 0, 0]
    assert ended[0].stderr.count("no DSRUN_TOKEN and no --token_file") == 1


def test_a_secret_in_a_file(cluster: Cluster, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("tulip\n")
    secret.chmod(0o600)
    with nodes(cluster, tmp_path, script(tmp_path, HELLO), options=f"--token_file {secret}") as job:
        for rank in range(3):
            job.start(rank, env={})
        assert [one.returncode for one in job.wait()] == [0, 0, 0]
    secret.chmod(0o640)
    with nodes(cluster, tmp_path, script(tmp_path, HELLO), options=f"--token_file {secret}") as job:
        job.start_all(0, 1)
        for ended in job.wait():
            assert (ended.returncode, "other users can read it" in ended.stderr) == (2, True)


def test_the_secret_is_not_handed_to_the_workers(cluster: Cluster, tmp_path: Path) -> None:
    path = script(tmp_path, PAUSE)
    with nodes(cluster, tmp_path, path) as job:
        job.start_all(0, 1, 2)
        job.running["0"].wait_for_output("(?s)is up.*is up.*is up")
        pids = [process.pid for process in workers(cluster, path)]
        environs = [Path(f"/proc/{pid}/environ").read_text() for pid in pids]
        os.kill(job.pid("0"), signal.SIGINT)
        job.wait()
    assert [("tulip" in text, "DSRUN_JOB_ID" in text) for text in environs] == [(False, True)] * 3


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("code", [3, 143, 255])
def test_a_failure_anywhere_ends_the_job_with_its_code_everywhere(
    cluster: Cluster, tmp_path: Path, rank: int, code: int
) -> None:
    path = script(tmp_path, FAIL)
    with nodes(cluster, tmp_path, path, str(rank), str(code)) as job:
        job.start_all(0, 1, 2)
        ended = job.wait()
    assert [one.returncode for one in ended] == [code, code, code]
    assert f"dsrun: rank {rank} (n{rank + 1}, local rank 0, pid " in ended[0].stderr
    assert f"exited with code {code} " in ended[0].stderr
    assert "cannot go on" in ended[0].stderr
    assert workers(cluster, path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_node_0_is_told_to_stop(cluster: Cluster, tmp_path: Path, number: signal.Signals) -> None:
    path = script(tmp_path, PAUSE)
    with nodes(cluster, tmp_path, path) as job:
        job.start_all(0, 1, 2)
        job.running["0"].wait_for_output("(?s)is up.*is up.*is up")
        os.kill(job.pid("0"), number)
        ended = job.wait()
    assert [one.returncode for one in ended] == [128 + number] * 3
    assert workers(cluster, path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_another_node_is_told_to_stop(
    cluster: Cluster, tmp_path: Path, number: signal.Signals
) -> None:
    path = script(tmp_path, PAUSE)
    with nodes(cluster, tmp_path, path) as job:
        job.start_all(0, 1, 2)
        job.running["0"].wait_for_output("(?s)is up.*is up.*is up")
        os.kill(job.pid("1"), signal.SIGQUIT)
        job.running["1"].wait_for_output(r"on this node: rank 1 \(pid \d+\); Ctrl-\\ on node 0")
        os.kill(job.pid("1"), number)
        ended = job.wait()
    assert [one.returncode for one in ended] == [128 + number] * 3
    assert workers(cluster, path) == []


@pytest.mark.tier("test")
@pytest.mark.parametrize("rank", ["0", "2"])
def test_a_node_is_killed(cluster: Cluster, tmp_path: Path, rank: str) -> None:
    path = script(tmp_path, PAUSE)
    with nodes(cluster, tmp_path, path) as job:
        job.start_all(0, 1, 2)
        job.running["0"].wait_for_output("(?s)is up.*is up.*is up")
        os.kill(job.pid(rank), signal.SIGKILL)
        others = {one: job.running[one].wait().returncode for one in job.running.keys() - {rank}}
        for host in ("n1", "n2", "n3"):
            gone(cluster, path, host)
    assert set(others.values()) == {LOST}


def test_a_node_is_cut_off(cluster: Cluster, tmp_path: Path) -> None:
    path = script(tmp_path, PAUSE)
    with nodes(cluster, tmp_path, path, options="--heartbeat_timeout 10") as job:
        job.start_all(0, 1, 2)
        job.running["0"].wait_for_output("(?s)is up.*is up.*is up")
        with cluster.host("n3").unplugged():
            ended = job.wait()
    assert [one.returncode for one in ended] == [LOST] * 3
    assert "dsrun: lost n3 after " in ended[0].stderr


def test_a_control_port_that_is_taken(cluster: Cluster, tmp_path: Path) -> None:
    with nodes(cluster, tmp_path, script(tmp_path, HELLO), options="--control_port 22") as job:
        job.start(0)
        (ended,) = job.wait()
    assert (ended.returncode, "control port 22: address already in use" in ended.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize("spelling", ["_", "-"])
def test_torchruns_static_form(cluster: Cluster, tmp_path: Path, spelling: str) -> None:
    base = TORCHRUN.replace("_", spelling)
    with nodes(cluster, tmp_path, script(tmp_path, HELLO), base=base) as job:
        job.start_all(1, 0)
        second, first = job.wait()
    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    hosts = ["n1", "n1", "n2", "n2"]
    said = [f"node-{r // 2}:{r}| here is {host} rank {r} of 4" for r, host in enumerate(hosts)]
    assert sorted(first.stdout.splitlines()) == said
