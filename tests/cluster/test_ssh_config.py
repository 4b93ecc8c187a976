"""What the user has set up for ssh, dsrun finds: configuration, keys, agent, jump hosts."""

from __future__ import annotations

import os
import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from .machines import HOME
from .reaching import HELLO, UNUSABLE, at_most, known, on, remote, script, sessions, ssh_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .command import Dsrun
    from .hosts import Cluster

GREETING = "n2:0| here is n2\n"


@contextmanager
def key_elsewhere(cluster: Cluster) -> Iterator[str]:
    """The user's one key is not where ssh looks for it, inside the `with` block."""
    usual, away = (cluster.path(f"{HOME}/{name}") for name in (".ssh/id_ed25519", ".ssh/spare"))
    usual.rename(away)
    try:
        yield f"{HOME}/.ssh/spare"
    finally:
        away.rename(usual)


@contextmanager
def agent(cluster: Cluster, key: str) -> Iterator[dict[str, str]]:
    """An ssh-agent that holds a key, inside the `with` block; yields what leads to it."""
    started = cluster.login.run(["ssh-agent", "-s", "-a", "/run/agent"]).stdout
    pid = int(re.findall("SSH_AGENT_PID=([0-9]+)", started)[0])
    environ = {"SSH_AUTH_SOCK": "/run/agent"}
    try:
        assert cluster.login.run(["ssh-add", "-q", key], env=environ).returncode == 0
        yield environ
    finally:
        os.kill(pid, signal.SIGTERM)
        cluster.path("/run/agent").unlink(missing_ok=True)


@remote
def test_a_key_named_in_the_configuration(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with key_elsewhere(cluster):
        refused = dsrun(*on("n2", launcher), path)
        with ssh_file(cluster, "config", "Host n2\n  IdentityFile ~/.ssh/spare\n"):
            ended = dsrun(*on("n2", launcher), path)
    assert (refused.returncode, "authentication failed" in refused.stderr) == (UNUSABLE, True)
    assert (ended.returncode, ended.stdout) == (0, GREETING)


@remote
def test_a_key_that_only_the_agent_has(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with key_elsewhere(cluster) as key, agent(cluster, key) as environ:
        ended = dsrun(*on("n2", launcher), path, env=environ)
    assert (ended.returncode, ended.stdout) == (0, GREETING)


@remote
def test_a_key_with_a_passphrase_asks_nobody(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with key_elsewhere(cluster) as key:
        locked = cluster.path(key).read_text()
        with ssh_file(cluster, "locked", locked):
            command = ["ssh-keygen", "-q", "-p", "-N", "tulip", "-f", f"{HOME}/.ssh/locked"]
            assert cluster.login.run(command).returncode == 0
            with ssh_file(cluster, "config", "Host n2\n  IdentityFile ~/.ssh/locked\n"):
                ended = dsrun(*on("n2", launcher), path)
    assert (ended.returncode, "authentication failed" in ended.stderr) == (UNUSABLE, True)


@remote
@pytest.mark.parametrize("jump", ["n1", "root@n1:22"])
def test_a_host_behind_another(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str, jump: str
) -> None:
    path = script(tmp_path, HELLO)
    # The name is n1's to resolve; nobody else can reach that address of n2's.
    config = f"Host inner\n  HostName 10.99.0.2\n  HostKeyAlias n2\n  ProxyJump {jump}\n"
    with inner_network(cluster), ssh_file(cluster, "config", config):
        direct = cluster.login.run(["ping", "-c1", "-W1", "10.99.0.2"])
        ended = dsrun(*on("inner", launcher), path)
    assert direct.returncode != 0
    assert (ended.returncode, ended.stdout) == (0, "inner:0| here is n2\n")


@contextmanager
def inner_network(cluster: Cluster) -> Iterator[None]:
    """Addresses of n1 and n2 that only these two use, inside the `with` block."""
    for number in (1, 2):
        address = f"10.99.0.{number}/24"
        added = cluster.host(f"n{number}").run(["ip", "address", "add", address, "dev", "eth0"])
        assert added.returncode == 0
    try:
        yield
    finally:
        for number in (1, 2):
            address = f"10.99.0.{number}/24"
            cluster.host(f"n{number}").run(["ip", "address", "del", address, "dev", "eth0"])


@remote
def test_two_jumps(cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    path = script(tmp_path, HELLO)
    with ssh_file(cluster, "config", "Host n2\n  ProxyJump n1,n3\n"):
        ended = dsrun(*on("n2", launcher), path)
        seen = cluster.host("n2").run(["cat", "/run/n2/sshd.log"])
    assert (ended.returncode, ended.stdout) == (0, GREETING), seen.stdout


@remote
def test_a_jump_that_fails_is_named(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with (
        ssh_file(cluster, "config", "Host n2\n  ProxyJump n1\n"),
        cluster.host("n2").sshd(Port="2222"),
        at_most(12),
    ):
        ended = dsrun(*on("n2", launcher), path)
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    assert re.search("^dsrun:   n2: .*[Cc]onnect", ended.stderr, re.MULTILINE)


@remote
def test_a_command_that_leads_to_the_host(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    config = "Host trainer\n  HostKeyAlias n2\n  ProxyCommand ssh -W n2:%p -q n1\n"
    with ssh_file(cluster, "config", config):
        ended = dsrun(*on("trainer", launcher), path)
    assert (ended.returncode, ended.stdout) == (0, "trainer:0| here is n2\n")


@remote
def test_name_port_and_user_from_the_configuration(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    config = "Host trainer\n  HostName n2\n  Port 2222\n  User root\n"
    with (
        ssh_file(cluster, "config", config),
        ssh_file(cluster, "known_hosts", known(cluster, "n2").replace("n2,", "[n2]:2222,", 1)),
        cluster.host("n2").sshd(Port="2222"),
    ):
        ended = dsrun(*on("trainer", launcher), path)
    assert (ended.returncode, ended.stdout) == (0, "trainer:0| here is n2\n")


@sessions
@pytest.mark.parametrize("line", ["root@n2 slots=1 port=2222", "root@[n2]:2222 slots=1"])
def test_user_and_port_from_the_hostfile(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str, line: str
) -> None:
    path = script(tmp_path, HELLO)
    (tmp_path / "hosts").write_text(f"n1 slots=1\n{line}\n")
    accept = ("--accept_new_host_keys", "--hostfile", str(tmp_path / "hosts"))
    with (
        ssh_file(cluster, "known_hosts", known(cluster, "n1")),
        cluster.host("n2").sshd(Port="2222"),
    ):
        ended = dsrun("--launcher", launcher, *accept, path)
    assert sorted(ended.stdout.splitlines()) == ["n1:0| here is n1", "n2:1| here is n2"]
    assert ended.returncode == 0


@remote
def test_one_port_for_all(cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    path = script(tmp_path, HELLO)
    with (
        ssh_file(cluster, "known_hosts", ""),
        cluster.host("n2").sshd(Port="2222"),
    ):
        options = ("--ssh_port", "2222", "--accept_new_host_keys")
        ended = dsrun(*on("n2", launcher), *options, path)
    assert (ended.returncode, ended.stdout) == (0, GREETING)


@sessions
def test_a_user_who_is_not_there_is_named(dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    path = script(tmp_path, HELLO)
    ended = dsrun("--launcher", launcher, "--host", "nobody-here@n2:1", path)
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    assert re.search("n2: authentication failed.*nobody-here", ended.stderr)


@remote
def test_the_users_agent_and_display_are_not_handed_on(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, "import os; print([n for n in os.environ if n.startswith('SSH_A')])")
    config = "Host *\n  ForwardAgent yes\n"
    with (
        ssh_file(cluster, "config", config),
        agent(cluster, f"{HOME}/.ssh/id_ed25519") as environ,
    ):
        ended = dsrun(*on("n2", launcher), path, env=environ)
    assert (ended.returncode, ended.stdout) == (0, "n2:0| []\n")
