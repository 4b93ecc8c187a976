"""The virtual cluster itself: hosts that are really apart, and faults that really happen."""

from __future__ import annotations

import os
import pwd
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import HANG, wait_for
from ..support.needs import need
from .command import CHECKOUT, Running
from .hosts import Cluster, Process
from .machines import BLACKHOLE, HOME, PRIVATE, UNREACHABLE
from .traces import Traces, nothing_left

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .machines import Machine

SCRIPT = [sys.executable, str(Path(__file__).with_name("hosts.py"))]
WATCHFUL_SSH = ["ssh", "-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2"]
MOUNTS = re.compile(
    f" (/proc|/etc|/run|/run/(netns|shared|etc)/.*|{'|'.join(PRIVATE)}|/proc/.*/boot_id) "
    "|dsrun-cluster-"
)
"""What a cluster has mounted, and where, in `/proc/self/mountinfo`."""
COUNT = """
cd {folder}; i=0
until [ -e enough ]; do
    echo "line $i"; echo "line $i" >>lines; i=$((i + 1)); sleep 0.02
done
"""
PARAMIKO = """
import sys, paramiko
client = paramiko.SSHClient()
client.load_system_host_keys()
for host in sys.argv[1:]:
    client.connect(host)
    print(client.exec_command("hostname")[1].read().decode(), end="")
    client.close()
"""


def ssh(cluster: Cluster, *arguments: str, timeout: float = HANG) -> tuple[int, str, str]:
    """What `ssh` does at the login: exit code, output, errors."""
    done = cluster.login.run(["ssh", "-o", "BatchMode=yes", *arguments], timeout=timeout)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def start(cluster: Cluster, *command: str) -> Running:
    """Start a command at the login."""
    return Running(cluster.login.popen(command, text=False))


def footprint() -> tuple[str, ...]:
    """What of the real machine a cluster could have changed, and other tests beside it do not."""
    links = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True)
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    keys = sorted(map(str, [*home.glob(".ssh"), *home.glob(".ssh/*")]))
    return (links.stdout, Path("/etc/hosts").read_text(), *filter(MOUNTS.search, mounts), *keys)


def members(name: str) -> list[str]:
    """The processes of the cluster of this name, wherever they run."""
    found = ["grep", "-lsF", f" {name} ", *map(str, Path("/proc").glob("[0-9]*/mountinfo"))]
    return subprocess.run(found, capture_output=True, text=True, check=False).stdout.split()


def test_every_host_answers_to_its_name(cluster: Cluster) -> None:
    for name in cluster.names:
        assert ssh(cluster, name, "hostname") == (0, name, "")
        assert ssh(cluster, f"{name}.cluster", "hostname") == (0, name, "")
        assert ssh(cluster, cluster.host(name).address, "hostname") == (0, name, "")
    assert cluster.login.run(["hostname"]).stdout == "login\n"


def test_hosts_reach_each_other_and_the_login(cluster: Cluster) -> None:
    assert ssh(cluster, "n1", "ssh n2 ssh login hostname") == (0, "login", "")


def test_pdsh_reaches_all_hosts(cluster: Cluster) -> None:
    need("pdsh")
    done = cluster.login.run(["pdsh", "-R", "ssh", "-w", "n[1-4]", "hostname"])
    assert sorted(done.stdout.split("\n")) == ["", "n1: n1", "n2: n2", "n3: n3", "n4: n4"]
    assert (done.returncode, done.stderr) == (0, "")


def test_paramiko_needs_no_options(cluster: Cluster) -> None:
    pytest.importorskip("paramiko")
    done = cluster.login.run([sys.executable, "-W", "ignore", "-c", PARAMIKO, *cluster.names])
    assert (done.stdout.split(), done.stderr) == (list(cluster.names), "")


def test_known_hosts_hides_the_names(cluster: Cluster) -> None:
    known_hosts = cluster.path(f"{HOME}/.ssh/known_hosts").read_text()
    assert known_hosts.count("|1|") == 3 * len(cluster.machines)
    assert "n1" not in known_hosts.split()


def test_login_shells_start_at_once_and_in_an_empty_home(cluster: Cluster) -> None:
    """But for dsrun's own cache, if it was run before."""
    found = ssh(cluster, "n1", "pwd; ls -A --ignore=.cache; ls -A .cache | grep -v dsrun")
    assert found[:2] == (1, f"{HOME}\n.ssh")


def test_the_same_python_and_folders_are_everywhere(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    for machine in cluster.machines:
        done = machine.run([sys.executable, "-c", "import os; print(os.listdir())"], cwd=tmp_path)
        assert (done.stdout, done.stderr) == ("['here']\n", "")


def test_tmp_is_each_hosts_own(cluster: Cluster) -> None:
    n1, n2 = cluster.host("n1"), cluster.host("n2")
    for folder in ("tmp", "dev/shm"):
        file = n1.root / folder / "of-n1"
        assert n1.run(["touch", f"/{folder}/of-n1"]).returncode == 0
        assert file.exists()
        assert not (n2.root / folder / "of-n1").exists()
        assert not Path(f"/{folder}/of-n1").exists()
        file.unlink()


def test_hosts_see_their_own_processes_only(cluster: Cluster) -> None:
    first = [host.run(["cat", "/proc/1/comm"]).stdout for host in cluster.hosts]
    assert first == ["sleep\n"] * 4
    commands = (
        cluster.host("n1").run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).stdout
    )
    assert "/run/n1/sshd_config" in commands
    assert "/run/n2/sshd_config" not in commands


def test_orphans_are_reaped(cluster: Cluster) -> None:
    n1 = cluster.host("n1")
    children = Path(f"/proc/{n1.pid}/task/{n1.pid}/children")
    before = children.read_text()
    orphan = n1.run(["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]).stdout.strip()
    assert children.read_text() != before
    n1.run(["kill", orphan])
    wait_for(lambda: children.read_text() == before, "the end of the orphan")


def test_boots_can_be_told_apart(cluster: Cluster) -> None:
    boots = {m.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout for m in cluster.machines}
    assert len(boots) == len(cluster.machines)


def test_a_command_at_the_login_is_our_own_child(cluster: Cluster) -> None:
    with cluster.login.popen(["sleep", "600"]) as process:
        wait_for(
            lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "the command itself"
        )
        process.send_signal(signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM


def test_processes_are_found_by_job_on_all_hosts(cluster: Cluster) -> None:
    remote = "DSRUN_JOB_ID=tulip exec sleep 600"
    clients = [start(cluster, "ssh", "-tt", host, remote) for host in ("n1", "n3")]
    wait_for(lambda: len(cluster.processes("tulip")) == 2, "two sleepers")
    found = sorted(cluster.processes("tulip"), key=lambda process: process.host)
    for process in found:
        os.kill(process.pid, signal.SIGKILL)
    assert [(p.host, p.job, p.argv) for p in found] == [
        ("n1", "tulip", ("sleep", "600")),
        ("n3", "tulip", ("sleep", "600")),
    ]
    assert [client.wait().returncode for client in clients] == [255, 255]


def test_a_cut_cable_is_noticed_by_keepalives_only(cluster: Cluster) -> None:
    n2 = cluster.host("n2")
    session = start(cluster, *WATCHFUL_SSH, "n2", "echo connected; exec sleep 600")
    session.wait_for_output("connected")
    with n2.unplugged():
        ended = session.wait()
        still_there = [p for p in cluster.processes() if p.argv == ("sleep", "600")]
        for process in still_there:
            os.kill(process.pid, signal.SIGKILL)
    assert (ended.returncode, "not responding" in ended.stderr) == (255, True)
    assert [p.host for p in still_there] == ["n2"]
    assert ssh(cluster, "n2", "hostname") == (0, "n2", "")


@pytest.mark.parametrize("name", ["n3", "login"])
def test_a_short_cut_loses_nothing(cluster: Cluster, name: str, tmp_path: Path) -> None:
    def written() -> int:
        return (tmp_path / "lines").read_text().count("\n")

    machine = {machine.name: machine for machine in cluster.machines}[name]
    session = start(cluster, "ssh", "n3", COUNT.format(folder=tmp_path))
    session.wait_for_output("line 3\n")
    with machine.unplugged():
        before = written() + 1  # one may be on its way to both
        wait_for(lambda: written() > before + 10, "lines that cannot be sent")
        assert session.stdout.count("\n") <= before
    (tmp_path / "enough").touch()
    assert session.wait().stdout == "".join(f"line {i}\n" for i in range(written()))


@contextmanager
def ends_of(pids: Iterable[int]) -> Iterator[list[select.poll]]:
    """A poll for the end of each of these processes, but for those that have ended."""
    with ExitStack() as handles:
        polls = []
        for pid in pids:
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                handles.callback(os.close, handle)
                polls.append(select.poll())
                polls[-1].register(handle, select.POLLIN)
        yield polls


def test_a_power_cut_is_silent_and_takes_every_process(cluster: Cluster) -> None:
    n4 = cluster.host("n4")
    session = start(cluster, *WATCHFUL_SSH, "n4", "echo connected; exec setsid sleep 600")
    session.wait_for_output("connected")
    assert n4.run(["touch", "/tmp/lost"]).returncode == 0
    boot_id = n4.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
    pids = [p.pid for p in cluster.processes() if p.host == "n4"]
    with ends_of(pids) as ends, n4.powered_off():
        assert all(one.poll(HANG * 1000) for one in ends), "a process has outlived its host"
        ended = session.wait()
    assert (ended.returncode, "not responding" in ended.stderr) == (255, True)
    assert not (n4.root / "tmp/lost").exists()
    assert n4.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout != boot_id
    assert ssh(cluster, "n4", "hostname") == (0, "n4", "")


def test_addresses_that_nobody_has(cluster: Cluster) -> None:
    assert ssh(cluster, "-o", "ConnectTimeout=1", "blackhole", "true") == (
        255,
        "",
        "ssh: connect to host blackhole port 22: Connection timed out",
    )
    assert "No route to host" in ssh(cluster, "unreachable", "true")[2]
    assert "Name or service not known" in ssh(cluster, "nobody", "true")[2]
    assert {BLACKHOLE, UNREACHABLE}.isdisjoint(m.address for m in cluster.machines)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"AuthorizedKeysFile": "/dev/null"}, "Permission denied"),
        ({"Port": "2222"}, "Connection refused"),
    ],
)
def test_sshd_can_be_made_to_refuse(
    cluster: Cluster, options: dict[str, str], complaint: str
) -> None:
    with cluster.host("n2").sshd(**options):
        code, _, errors = ssh(cluster, "n2", "hostname")
    assert (code, complaint in errors) == (255, True)
    assert ssh(cluster, "n2", "hostname") == (0, "n2", "")


def test_another_host_key_is_noticed(cluster: Cluster) -> None:
    cluster.login.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/run/other_key"])
    with cluster.host("n2").sshd(HostKey="/run/other_key"):
        code, _, errors = ssh(cluster, "n2", "hostname")
    assert (code, "REMOTE HOST IDENTIFICATION HAS CHANGED" in errors) == (255, True)


def test_one_login_at_a_time(cluster: Cluster) -> None:
    stranger = 'exec 3<>/dev/tcp/n2/22; read -u 3; echo "$REPLY"; sleep 600'
    with cluster.host("n2").sshd(MaxStartups="1:100:1"):
        session = start(cluster, "bash", "-c", stranger)
        session.wait_for_output("SSH-2.0")
        code, _, errors = ssh(cluster, "n2", "hostname")
        session.kill()
        assert (code, "kex_exchange_identification" in errors) == (255, True)


def test_a_slow_login(cluster: Cluster) -> None:
    slow = 'sleep 0.7; eval "$SSH_ORIGINAL_COMMAND"'
    with cluster.host("n3").sshd(ForceCommand=slow):
        begin = time.monotonic()
        assert ssh(cluster, "n3", "hostname") == (0, "n3", "")
        assert time.monotonic() - begin >= 0.7


def test_sshd_does_not_start_with_nonsense(cluster: Cluster) -> None:
    with pytest.raises(OSError, match="Bad configuration option"), cluster.host("n1").sshd(No="1"):
        pass
    assert ssh(cluster, "n1", "hostname") == (0, "n1", "")


def test_sessions_outlive_a_restart_of_sshd(cluster: Cluster) -> None:
    command = ["ssh", "n1", "echo connected; read line; echo $line"]
    session = Running(cluster.login.popen(command, text=False, stdin=subprocess.PIPE))
    session.wait_for_output("connected")
    with cluster.host("n1").sshd(MaxStartups="1:100:1"):
        assert session.process.stdin
        session.process.stdin.write(b"still here\n")
        session.process.stdin.close()
        assert session.wait().stdout == "connected\nstill here\n"


def test_a_full_disk(cluster: Cluster) -> None:
    n1 = cluster.host("n1")
    with n1.tmpfs("/tmp", "64k"):
        done = n1.run(["dd", "if=/dev/zero", "of=/tmp/big", "bs=128k", "count=1"])
    assert "No space left on device" in done.stderr
    assert not (n1.root / "tmp/big").exists()


LEFTOVERS = {
    "a process": ("exec sleep 600 </dev/null >/dev/null 2>&1 & :", "process .* runs: sleep 600"),
    "a file in /tmp": ("touch /tmp/forgotten", "/tmp/forgotten is left"),
    "a file in /dev/shm": ("touch /dev/shm/forgotten", "/dev/shm/forgotten is left"),
}


@pytest.mark.tier("test")
@pytest.mark.parametrize("what", LEFTOVERS)
@pytest.mark.parametrize("name", ["n2", "login"])
def test_what_is_left_behind_is_seen_and_removed(cluster: Cluster, what: str, name: str) -> None:
    machine = {machine.name: machine for machine in cluster.machines}[name]
    command, complaint = LEFTOVERS[what]
    traces = Traces(cluster)
    with pytest.raises(AssertionError, match=f"{name}: {complaint}"), nothing_left(cluster, 0.3):
        leave(cluster, machine, command)
    wait_for(lambda: traces.leftovers() == [], "a clean cluster")


def leave(cluster: Cluster, machine: Machine, command: str) -> None:
    """Run a command that leaves something behind; a process is no shell any more."""
    assert machine.run(["sh", "-c", command]).returncode == 0
    if "sleep" in command:
        sleeper = (machine.name, ("sleep", "600"))
        wait_for(lambda: sleeper in [(p.host, p.argv) for p in cluster.processes()], "the process")


def test_a_listener_left_behind_is_seen(cluster: Cluster) -> None:
    code = "import socket; s = socket.create_server(('', 4711)); print('up', flush=True); input()"
    traces = Traces(cluster)
    with cluster.login.popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as server:
        assert server.stdout
        assert server.stdout.readline() == "up\n"
        assert "login: something listens on port 4711" in traces.leftovers()
        server.communicate("\n")
    assert traces.leftovers() == []


@pytest.mark.tier("test")
def test_a_hurt_bystander_is_seen(cluster: Cluster) -> None:
    before = cluster.processes("of-somebody-else")
    with pytest.raises(AssertionError, match="n1: a bystander was killed"), nothing_left(cluster):
        kill_except(before, cluster.processes("of-somebody-else"))


def kill_except(spared: list[Process], found: list[Process]) -> None:
    """Kill these processes, but for some of them."""
    for process in set(found) - set(spared):
        os.kill(process.pid, signal.SIGKILL)


def test_two_clusters_do_not_meet(cluster: Cluster) -> None:
    with Cluster(2) as other:
        assert other.host("n1").address == cluster.host("n1").address
        other.login.run(["touch", f"{HOME}/other"])
        assert "other" not in ssh(cluster, "n1", "ls")[1]
        pids = {process.pid for process in other.processes()}
        assert pids.isdisjoint(process.pid for process in cluster.processes())
    assert ssh(cluster, "n1", "hostname") == (0, "n1", "")


def test_nothing_is_left_of_a_cluster() -> None:
    before = footprint()
    with Cluster(2, prefix="worker-") as cluster:
        assert footprint() == before
        assert cluster.names == ("worker-1", "worker-2")
        assert cluster.hostfile(2) == "worker-1 slots=2\nworker-2 slots=2\n"
        name = cluster.login.run(["findmnt", "-n", "-o", "SOURCE", "/run"]).stdout.split()[-1]
        sleeper = cluster.login.popen(["setsid", "sleep", "600"])
        wait_for(lambda: sleeper.pid in [p.pid for p in cluster.processes()], "the sleeper")
        assert len(members(name)) >= 4
    assert sleeper.wait(HANG) == -signal.SIGKILL
    sleeper.communicate()
    assert footprint() == before
    wait_for(lambda: members(name) == [], "the end of every process of the cluster")


@pytest.fixture
def owner() -> Iterator[Running]:
    """The script, with a cluster up and something running at its login."""
    command = "findmnt -n -o SOURCE /run | tail -n 1; exec setsid sleep 600"
    arguments = ["--hosts", "2", "--", "sh", "-c", command]
    script = subprocess.Popen(
        [*SCRIPT, *arguments], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    running = Running(script)
    yield running
    running.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_nothing_outlives_the_owner(owner: Running, number: signal.Signals) -> None:
    name = owner.wait_for_output("dsrun-cluster-[0-9a-f]+").group()
    assert len(members(name)) >= 4
    owner.process.send_signal(number)
    owner.process.wait(HANG)
    wait_for(lambda: not members(name), "the end of every process of the cluster")


def test_the_script_runs_a_command_at_the_login() -> None:
    command = "hostname; cat /run/hostfile; exit 7"
    done = subprocess.run(
        [*SCRIPT, "--hosts", "2", "--slots", "3", "--", "sh", "-c", command],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "login\nn1 slots=3\nn2 slots=3\n")
    assert done.stderr == ""


def test_many_hosts(big_cluster: Cluster) -> None:
    need("pdsh")
    hosts = ",".join(big_cluster.names)
    done = big_cluster.login.run(["pdsh", "-R", "ssh", "-f", "64", "-w", hosts, "hostname"])
    assert done.returncode == 0
    assert sorted(done.stdout.split()) == sorted(w for n in big_cluster.names for w in (f"{n}:", n))


REPLACED = """
set -e
mkdir etc
cp -a /etc/. etc
mount --bind etc /etc
"$@" &
until [ -e up ]; do sleep 0.02; done
for name in passwd hosts nsswitch.conf shadow; do
    echo other:x:4711:4711::/home/other:/bin/sh >/etc/other
    mv /etc/other "/etc/$name"
done
touch replaced
wait $!
"""
"""Run a cluster where `/etc` is a copy, and replace files of that as `useradd` does."""

USED = """
touch up
until [ -e replaced ]; do sleep 0.02; done
ssh -o BatchMode=yes n1 'hostname; ssh -o BatchMode=yes n2 whoami; echo ~'
"""


def test_files_that_are_replaced_outside_do_not_change_hosts(tmp_path: Path) -> None:
    apart = ["unshare", "--mount", "sh", "-c", REPLACED, "sh"]
    script = [*apart, *SCRIPT, "--hosts", "2", "--", "sh", "-c", USED]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (f"n1\nroot\n{HOME}\n", "", 0)
