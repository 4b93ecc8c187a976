"""Jobs beside jobs: on the same hosts, after the same ports, and in surroundings that are poor."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from ..support.limits import HANG, wait_for
from .command import COMMAND
from .reaching import HELLO, LOST, PAUSE, UNUSABLE, on, remote, script, workers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .command import Dsrun
    from .hosts import Cluster
    from .machines import Machine

# As rank 0 of torch does with a store: it binds the port and others connect to it.
STORE = """
import os, socket, sys, time
address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    with socket.create_server(("", port)) as store:
        for _ in range(int(os.environ["WORLD_SIZE"]) - 1):
            store.accept()[0].sendall(os.environ["DSRUN_JOB_ID"].encode())
    print("port", port)
else:
    while True:
        try:
            peer = socket.create_connection((address, port))
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    with peer:
        same = peer.recv(100).decode() == os.environ["DSRUN_JOB_ID"]
    print("met my own rank 0" if same else "met a stranger")
"""

# Has half of the ports that the kernel gives away, others every millisecond.
THIEF = """
import collections, socket, sys, threading, time
def steal():
    loot = collections.deque()
    while True:
        loot.append(socket.create_server(("", 0)))
        if len(loot) > 20:
            loot.popleft().close()
        time.sleep(0.001)
threading.Thread(target=steal, daemon=True).start()
print("steals", flush=True)
sys.stdin.read()
"""
FEW_PORTS = "52000 52039"

HOLDER = (
    "import socket, sys; s = socket.create_server(('', {port})); print('up', flush=True); {then}"
)


@contextmanager
def beside(machine: Machine, code: str) -> Iterator[int]:
    """A program that says a word and then runs until its input ends; yields its pid there."""
    command = [sys.executable, "-S", "-c", f"import os; print(os.getpid(), flush=True)\n{code}"]
    with machine.popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        assert process.stdout.readline()
        yield pid
        process.communicate()


def holder(port: int) -> str:
    """The code of a program that listens on a port."""
    return HOLDER.format(port=port, then="sys.stdin.read()")


@pytest.mark.tier("test")
@remote
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_one_of_two_jobs_is_stopped(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str, number: signal.Signals
) -> None:
    paths = [script(tmp_path, PAUSE, f"{name}.py") for name in ("stopped", "other")]
    running = [dsrun.start(*on("n1 n2", launcher), path) for path in paths]
    for one in running:
        for host in ("n1", "n2"):
            one.wait_for_output(f"{host}:[01]. is up")
    before = workers(cluster, paths[1])
    running[0].process.send_signal(number)
    running[0].process.wait(HANG)
    wait_for(lambda: not workers(cluster, paths[0]), "the end of the stopped job")
    assert (len(before), workers(cluster, paths[1])) == (2, before)
    running[1].process.send_signal(signal.SIGINT)
    assert running[1].wait().returncode == 128 + signal.SIGINT


@remote
def test_a_master_port_that_is_taken_names_its_holder(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with beside(cluster.host("n1"), holder(29500)) as pid:
        ended = dsrun(*on("n1 n2", launcher), "--master_port", "29500", path)
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    (said,) = re.findall("^dsrun:   n1: (.*)$", ended.stderr, re.MULTILINE)
    assert said.startswith(f"port 29500 is taken by python (pid {pid})") or re.match(
        f"port 29500 is taken by python[0-9.]* \\(pid {pid}\\)", said
    )
    assert "--master_port" in said


def test_two_jobs_with_one_master_port_are_told_apart(dsrun: Dsrun, tmp_path: Path) -> None:
    """Also where the first does not listen yet; once it is over nothing stands in the way."""
    chosen = [*on("n1 n2", "ssh"), "--master_port", "29511"]
    first = dsrun.start(*chosen, script(tmp_path, PAUSE))
    first.wait_for_output("is up")
    second = dsrun(*chosen, script(tmp_path, STORE, "second.py"))
    assert second.returncode == UNUSABLE
    holder = (
        r"n1: port 29511 is taken by (python.* \(pid \d+\), which|a program that) does not listen"
    )
    assert re.search(holder, second.stderr)
    first.process.send_signal(signal.SIGINT)
    first.wait()
    for _ in range(2):
        assert dsrun(*chosen, str(tmp_path / "second.py")).returncode == 0


def test_another_user_who_takes_the_master_port_is_named(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    running = dsrun.start(*on("n1 n2", "ssh"), "--master_port", "29512", script(tmp_path, PAUSE))
    running.wait_for_output("n1:0. is up")
    with beside(cluster.host("n1"), f"import socket, sys; os.setuid(54321)\n{holder(29512)}"):
        ended = running.wait()
    assert ended.returncode == LOST
    assert re.search(r"port 29512 on n1 was taken by uid 54321 before rank 0", ended.stderr)
    assert not workers(cluster, str(tmp_path / "train.py"))


def test_a_master_port_matters_on_the_first_node_only(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path = script(tmp_path, STORE)
    with beside(cluster.host("n2"), holder(29500)):
        ended = dsrun(*on("n1 n2", "ssh"), "--master_port", "29500", path)
    assert sorted(ended.stdout.splitlines()) == ["n1:0| port 29500", "n2:1| met my own rank 0"]


def test_no_port_is_asked_for_while_the_usual_one_is_taken(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path = script(tmp_path, STORE)
    with beside(cluster.host("n1"), holder(29500)):
        ended = dsrun(*on("n1 n2", "ssh"), path)
    assert (ended.returncode, "met my own rank 0" in ended.stdout) == (0, True)


@pytest.mark.parametrize("rounds", [2, pytest.param(5, marks=pytest.mark.tier("all"))])
def test_a_thief_of_ports_gets_none_of_ours(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, rounds: int
) -> None:
    path = script(tmp_path, STORE)
    n1 = cluster.host("n1")
    with few_ports(n1), beside(n1, THIEF):
        ended = []
        for _ in range(rounds):
            running = [dsrun.start(*on("n1 n2", "ssh"), path) for _ in range(4)]
            ended += [one.wait() for one in running]
    assert {(one.returncode, one.stderr) for one in ended if one.returncode} == set()
    assert all("met my own rank 0" in one.stdout for one in ended)
    assert all(re.search("port 520[0-3][0-9]\n", one.stdout) for one in ended)


@contextmanager
def few_ports(machine: Machine) -> Iterator[None]:
    """The kernel of a host has forty ports to give away, and each is free once it is closed.

    Usually a port of a connection has to wait for a minute: twenty jobs would use them all up.
    """
    with ExitStack() as changed:
        for name, value in (("ip_local_port_range", FEW_PORTS), ("tcp_max_tw_buckets", "0")):
            changed.enter_context(setting(machine, name, value))
        yield


@contextmanager
def setting(machine: Machine, name: str, value: str) -> Iterator[None]:
    """A setting of a host's network has this value inside the `with` block."""
    file = f"/proc/sys/net/ipv4/{name}"
    before = machine.run(["cat", file]).stdout.strip()
    assert machine.run(["sh", "-c", f"echo {value} > {file}"]).returncode == 0
    try:
        yield
    finally:
        machine.run(["sh", "-c", f"echo {before} > {file}"])


def test_the_reserved_port_is_nobody_elses_before_the_store_is_up(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    wait = "import os, signal; print('port', os.environ['MASTER_PORT'], flush=True); signal.pause()"
    running = dsrun.start(*on("n1 n2", "ssh"), script(tmp_path, wait))
    port = int(running.wait_for_output("port ([0-9]+)\n")[1])
    attempt = f"import socket; socket.socket().bind(('', {port}))"
    tried = cluster.host("n1").run([sys.executable, "-c", attempt])
    assert "Address already in use" in tried.stderr
    running.process.send_signal(signal.SIGINT)
    assert running.wait().returncode == 128 + signal.SIGINT


@pytest.mark.parametrize(
    "attempt", [0, 1, *(pytest.param(n, marks=pytest.mark.tier("all")) for n in range(2, 10))]
)
def test_two_jobs_at_a_time_do_not_meet(dsrun: Dsrun, tmp_path: Path, attempt: int) -> None:
    path = script(tmp_path, STORE)
    launchers = ("ssh", "openssh") if attempt % 2 else ("ssh", "ssh")
    running = [dsrun.start(*on("n1 n2 n3", launcher), path) for launcher in launchers]
    ended = [one.wait() for one in running]
    assert [one.returncode for one in ended] == [0, 0]
    for one in ended:
        assert one.stdout.count("met my own rank 0") == 2


MANY = pytest.mark.parametrize("many", [8, pytest.param(20, marks=pytest.mark.tier("all"))])


@MANY
def test_many_jobs_at_once(dsrun: Dsrun, tmp_path: Path, many: int) -> None:
    path = script(tmp_path, f"{STORE}\nprint('job', os.environ['DSRUN_JOB_ID'])")
    running = [dsrun.start(*on("n1 n2", "openssh"), path) for _ in range(many)]
    ended = [one.wait() for one in running]
    assert Counter(one.returncode for one in ended) == {0: many}
    assert all("met my own rank 0" in one.stdout for one in ended)
    jobs = Counter(job for one in ended for job in re.findall("job (\\S+)\n", one.stdout))
    assert sorted(jobs.values()) == [2] * many


@MANY
def test_many_jobs_at_once_on_this_machine(dsrun: Dsrun, tmp_path: Path, many: int) -> None:
    path = script(tmp_path, STORE)
    running = [dsrun.start("--num_gpus", "2", path) for _ in range(many)]
    ended = [one.wait() for one in running]
    assert Counter(one.returncode for one in ended) == {0: many}
    assert all("met my own rank 0" in one.stdout for one in ended)


@remote
@pytest.mark.parametrize("folder", ["/proc/nowhere", "/proc"], ids=["missing", "read-only"])
def test_a_temporary_folder_of_no_use(
    dsrun: Dsrun, tmp_path: Path, launcher: str, folder: str
) -> None:
    path = script(tmp_path, HELLO)
    ended = dsrun(*on("n1", launcher), path, env={"TMPDIR": folder})
    assert (ended.returncode, ended.stdout) == (0, "n1:0| here is n1\n")


@pytest.mark.parametrize("home", [[], ["HOME=/no/such/home"]], ids=["unset", "missing"])
def test_no_home(cluster: Cluster, tmp_path: Path, home: list[str]) -> None:
    path = script(tmp_path, HELLO)
    command = ["env", "--unset=HOME", *home, *COMMAND, "--num_gpus", "1", path]
    ended = cluster.login.run(command, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "localhost:0| here is login\n"), ended.stderr


@pytest.mark.parametrize("launcher", ["openssh", "pdsh"])
def test_no_home_and_other_hosts(cluster: Cluster, tmp_path: Path, launcher: str) -> None:
    # OpenSSH itself does not go by HOME but by the account's own folder.
    path = script(tmp_path, HELLO)
    command = ["env", "--unset=HOME", *COMMAND, *on("n1", launcher), path]
    ended = cluster.login.run(command, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "n1:0| here is n1\n"), ended.stderr


@remote
def test_a_machine_on_which_no_program_may_run_from_tmp(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    n1 = cluster.host("n1")
    assert n1.run(["mount", "-o", "remount,noexec", "/tmp"]).returncode == 0
    try:
        ended = dsrun(*on("n1", launcher), path)
    finally:
        n1.run(["mount", "-o", "remount,exec", "/tmp"])
    assert (ended.returncode, ended.stdout) == (0, "n1:0| here is n1\n")
