"""Strangers at the port that node launchers dial back to: they get no word, and do no harm."""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from ..support.needs import need
from .command import Running, own_lines
from .intruder import QUICK, WAYS
from .reaching import UNUSABLE, on, script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .command import Dsrun
    from .hosts import Cluster
    from .machines import Machine

WAIT = """
import os, sys, time
print("is up", flush=True)
while not os.path.exists(sys.argv[-1]):
    time.sleep(0.02)
print("and done")
"""

TOGETHER = {"this token", "thousands of connections", "one way after the other"}
UNINVITED = [
    pytest.param(way, marks=pytest.mark.tier("all")) if way in QUICK else way
    for way in sorted(WAYS.keys() - TOGETHER)
]
"""Below the tier `all`, those that take no time are gone one after the other, in one job."""

SLOW = 'while ! test -e {file}; do sleep 0.05; done; exec $SHELL -c "$SSH_ORIGINAL_COMMAND"'

# What pdsh prints is for the runner alone; a copy of it is what a thief would need.
COPIED = 'PDSH "$@" | tee -a {copy}'

# What a node launcher would see if somebody stood between it and the runner.
OTHER_PIN = 'exec PDSH "${@//--pin=[0-9a-f][0-9a-f]/--pin=zz}"'


@pytest.fixture(autouse=True)
def pdsh() -> None:
    """Skip where there is no engine whose node launchers dial back."""
    need("pdsh")


def door(cluster: Cluster) -> tuple[str, str]:
    """Where the node launchers of the one job of pdsh's dial: address and port."""
    lines = {word for p in cluster.processes() for word in p.argv if "--dial=" in word}
    found = {
        one for line in lines for one in re.findall("--dial=([0-9.]+)(?:,[^:]*)?:([0-9]+)", line)
    }
    ((address, port),) = found
    return address, port


@contextmanager
def intruder(machine: Machine, how: str, *where: str) -> Iterator[Running]:
    """Somebody intrudes from this machine, and has knocked, inside the `with` block."""
    program = [sys.executable, str(Path(__file__).with_name("intruder.py")), how, *where]
    stranger = Running(machine.popen(program, text=False))
    try:
        stranger.wait_for_output("knocked")
        yield stranger
    finally:
        stranger.kill()


def assert_shut_out(stranger: Running) -> None:
    """The stranger was told nothing, and got rid of."""
    ended = stranger.wait()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "knocked\nshut out\n"


@pytest.mark.usefixtures("torch_is_here")
def test_strangers_while_an_elastic_job_runs(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    """Its port stays open, as nodes may come back. A token serves once, even the right one."""
    path, go, copy = script(tmp_path, WAIT), tmp_path / "go", tmp_path / "copy"
    environ = wrapped_pdsh(tmp_path, COPIED.format(copy=copy))
    options = ("--elastic_training", "--accelerator", "cpu")
    running = dsrun.start(*on("n1 n2", "pdsh", *options), path, str(go), env=environ)
    running.wait_for_output("(?s)is up.*is up")
    (token,) = re.findall("DSRUN-TOKEN n1 (\\S+)\n", copy.read_text())
    for node in ("n1", "n2", "login"):
        with intruder(cluster.host("n3"), "this token", *door(cluster), node, token) as thief:
            assert_shut_out(thief)
    with intruder(cluster.host("n3"), "one way after the other", *door(cluster)) as stranger:
        ended = stranger.wait()
        assert (ended.returncode, ended.stderr) == (0, "")
        assert re.fullmatch("(knocked\nshut out\n)+", ended.stdout)
        assert ended.stdout.count("knocked") >= len(QUICK)
    go.touch()
    ended = running.wait()
    assert sorted(re.findall(".*and done", ended.stdout)) == ["n1:0| and done", "n2:1| and done"]
    told = own_lines(ended.stderr)[1:-1]
    assert (ended.returncode, bool(told)) == (0, True), ended.stderr
    pattern = "dsrun: rejected \\d+ connections? from [0-9.]+ in the last second: no proof"
    assert not [line for line in told if not re.fullmatch(pattern, line)]


@pytest.mark.parametrize("how", UNINVITED)
def test_a_stranger_before_the_nodes_have_dialled(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, how: str
) -> None:
    path, go = script(tmp_path, "print('hello')"), tmp_path / "go"
    with ExitStack() as stack:
        stack.enter_context(cluster.host("n1").sshd(ForceCommand=SLOW.format(file=go)))
        stack.callback(go.touch)
        running = dsrun.start(*on("n1 n2", "pdsh"), path)
        wait_for(lambda: [p for p in cluster.processes() if "--node=n2" in p.argv], "n2")
        with intruder(cluster.host("n3"), how, *door(cluster)) as stranger:
            # With the stranger's foot still in the door.
            go.touch()
            ended = running.wait()
            assert_shut_out(stranger)
    assert sorted(ended.stdout.splitlines()) == ["n1:0| hello", "n2:1| hello"]
    assert ended.returncode == 0


def wrapped_pdsh(folder: Path, text: str) -> dict[str, str]:
    """The environment in which `pdsh` is this script; `PDSH` in it stands for the real one."""
    tools = folder / "tools"
    tools.mkdir()
    program = text.replace("PDSH", f"{shutil.which('pdsh')}")
    (tools / "pdsh").write_text(f"#!/bin/bash\n{program}\n")
    (tools / "pdsh").chmod(0o755)
    return {"PATH": f"{tools}:{os.environ['PATH']}"}


def test_a_token_is_long_and_new_each_time(dsrun: Dsrun, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    environ = wrapped_pdsh(tmp_path, COPIED.format(copy=copy))
    for _ in range(2):
        assert dsrun(*on("n1 n2", "pdsh"), script(tmp_path, ""), env=environ).returncode == 0
    tokens = re.findall("DSRUN-TOKEN n[12] (\\S+)\n", copy.read_text())
    assert len(set(tokens)) == 4
    assert min(map(len, tokens)) * 6 >= 256


@pytest.mark.tier("test")
def test_a_runner_with_another_certificate_is_not_served(dsrun: Dsrun, tmp_path: Path) -> None:
    path = script(tmp_path, "print('hello')")
    ended = dsrun(*on("n1", "pdsh"), path, env=wrapped_pdsh(tmp_path, OTHER_PIN))
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    assert re.search("^dsrun:   n1: .*certificate is not the runner's", ended.stderr, re.MULTILINE)


def test_the_port_is_open_until_all_nodes_are_in(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path, go, come = script(tmp_path, WAIT), tmp_path / "go", tmp_path / "come"
    before = cluster.login.listening()
    with ExitStack() as stack:
        stack.enter_context(cluster.host("n2").sshd(ForceCommand=SLOW.format(file=come)))
        stack.callback(come.touch)
        running = dsrun.start(*on("n1 n2", "pdsh"), path, str(go))
        wait_for(lambda: len(cluster.login.listening() - before) == 1, "the port")
        come.touch()
        running.wait_for_output("(?s)is up.*is up")
    assert cluster.login.listening() == before
    go.touch()
    assert running.wait().returncode == 0


@pytest.mark.tier("test")
@pytest.mark.parametrize("launcher", ["ssh", "openssh"])
def test_sessions_need_no_port(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path, go = script(tmp_path, WAIT), tmp_path / "go"
    before = {machine.name: machine.listening() for machine in cluster.machines}
    running = dsrun.start(*on("n1 n2", launcher), path, str(go))
    running.wait_for_output("(?s)is up.*is up")
    assert {machine.name: machine.listening() for machine in cluster.machines} == before
    go.touch()
    assert running.wait().returncode == 0


@pytest.mark.tier("test")
def test_a_flood_does_not_keep_a_job_from_starting(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path, come = script(tmp_path, "print('hello')"), tmp_path / "come"
    with ExitStack() as stack:
        stack.enter_context(cluster.host("n1").sshd(ForceCommand=SLOW.format(file=come)))
        stack.callback(come.touch)
        running = dsrun.start(*on("n1 n2", "pdsh"), path)
        wait_for(lambda: [p for p in cluster.processes() if "--node=n2" in p.argv], "n2")
        # From the machine of a node, as if all came through one gateway.
        with intruder(cluster.host("n1"), "thousands of connections", *door(cluster)):
            come.touch()
            ended = running.wait()
    assert sorted(ended.stdout.splitlines()) == ["n1:0| hello", "n2:1| hello"]
    assert re.search("rejected \\d{3,} connections from [0-9.]+ in the last second", ended.stderr)
    assert ended.returncode == 0


def test_a_start_that_fails_tells_of_strangers(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    """It fails at n4, after the stranger has come; n1 has only the time to connect from then on."""
    path, come, fail = script(tmp_path, "print('hello')"), tmp_path / "come", tmp_path / "fail"
    with ExitStack() as stack:
        stack.enter_context(cluster.host("n1").sshd(ForceCommand=SLOW.format(file=come)))
        refuses = f"while ! test -e {fail}; do sleep 0.05; done; exit 3"
        stack.enter_context(cluster.host("n4").sshd(ForceCommand=refuses))
        stack.callback(fail.touch)
        stack.callback(come.touch)
        running = dsrun.start(*on("n1 n2 n4", "pdsh", "--connect_timeout", "5"), path)
        wait_for(lambda: [p for p in cluster.processes() if "--node=n2" in p.argv], "n2")
        with intruder(cluster.host("n3"), "a node that is none", *door(cluster)) as stranger:
            assert_shut_out(stranger)
            fail.touch()
            ended = running.wait()
    assert ended.returncode == UNUSABLE
    told = "n1: no answer in time.*\n.*n4: .*\n.*rejected during the start: 1 connection from [0-9]"
    assert re.search(told, ended.stderr)
