"""What the user has set up for ssh, dsrun finds: configuration, keys, agent, jump hosts."""

from __future__ import annotations

import os
import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from .machines import HOME
from .reaching import (
    HELLO,
    OTHER_SESSION,
    UNUSABLE,
    USAGE,
    known,
    on,
    remote,
    script,
    sessions,
    ssh_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .command import Dsrun
    from .engines import Engine
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


def test_a_default_key_with_a_passphrase_is_named(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    with key_elsewhere(cluster) as key, ssh_file(cluster, "id_rsa", cluster.path(key).read_text()):
        command = ["ssh-keygen", "-q", "-p", "-N", "tulip", "-f", f"{HOME}/.ssh/id_rsa"]
        assert cluster.login.run(command).returncode == 0
        ended = dsrun(*on("n2", "ssh"), script(tmp_path, HELLO))
    assert ended.returncode == UNUSABLE
    assert "/.ssh/id_rsa has a passphrase; add it to your agent with ssh-add" in ended.stderr


@pytest.mark.tier("test")
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
    log = cluster.path("/run/n3/sshd.log")
    before = log.read_text().count(f"from {cluster.host('n1').address}")
    with ssh_file(cluster, "config", "Host n2\n  ProxyJump n1,n3\n"):
        ended = dsrun(*on("n2", launcher), path)
    assert (ended.returncode, ended.stdout) == (0, GREETING)
    assert log.read_text().count(f"from {cluster.host('n1').address}") > before


@remote
def test_a_jump_that_fails_is_named(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with (
        ssh_file(cluster, "config", "Host n2\n  ProxyJump n1\n"),
        cluster.host("n2").sshd(Port="2222"),
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


ORDINARY = {
    "no command": b"Host *\n ProxyCommand none\n",
    "no jump": b"Host *\n ProxyJump none\n",
    "final": b"Match final all\n IdentitiesOnly no\n",
    "a key more": b"Host *\n IdentityFile ~/.ssh/none\n IdentityFile ~/.ssh/id_ed25519\n",
    "included": b"Include conf.d/*\n",
    "latin-1": b"# caf\xe9\nHost \xe9\n Port 3\nHost *\n User root\n",
    "a shell's": b"Host n2\n ProxyCommand ssh -q -W %h:%p n1 2>/dev/null || false\n",
}


@pytest.mark.parametrize("what", ORDINARY)
def test_ordinary_configurations_are_understood(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, what: str
) -> None:
    path = script(tmp_path, HELLO)
    host = "inner" if what == "included" else "n2"
    folder = cluster.path(f"{HOME}/.ssh/conf.d")
    folder.mkdir(exist_ok=True)
    (folder / "a").write_text("Host inner\n HostName n2\n")
    with ssh_file(cluster, "config", "") as config:
        config.write_bytes(ORDINARY[what])
        ended = dsrun(*on(host, "auto"), path)
    assert (ended.returncode, ended.stdout) == (0, f"{host}:0| here is n2\n"), ended.stderr
    assert " over ssh; " in ended.stderr


@remote
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Host other\n Port abc\n", "/.ssh/config line 2: Bad port 'abc'."),
        ("nonsense\n", '/.ssh/config line 1: no argument after keyword "nonsense"'),
    ],
)
@pytest.mark.parametrize("options", [[], ["--dry_run"]], ids=["run", "dry"])
def test_a_configuration_that_cannot_be_read_is_told_at_once(
    cluster: Cluster,
    dsrun: Dsrun,
    tmp_path: Path,
    launcher: str,
    text: str,
    words: str,
    options: list[str],
) -> None:
    with ssh_file(cluster, "config", text):
        ended = dsrun(*on("n2", launcher), *options, script(tmp_path, HELLO))
    assert (ended.returncode, ended.stdout) == (USAGE, "")
    assert ended.stderr.startswith("dsrun: ssh configuration: ")
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_no_engine_starts_with_a_configuration_that_cannot_be_read(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, engine: Engine
) -> None:
    with ssh_file(cluster, "config", "Port abc\n"):
        ended = dsrun(*engine.options, "--host", "n1:1,n2:1", script(tmp_path, HELLO))
    assert (ended.returncode, ended.stdout) == (USAGE, "")
    assert "ssh configuration: " in ended.stderr
    assert "Bad port 'abc'" in ended.stderr


@remote
def test_a_jump_host_that_is_itself(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    with ssh_file(cluster, "config", "Host *\n ProxyJump n1\n"):
        ended = dsrun(*on("n1 n2", launcher), script(tmp_path, HELLO))
    assert (ended.returncode, ended.stdout) == (USAGE, "")
    assert ended.stderr == "dsrun: ssh configuration: jumphost loop via n1\n"


def test_jump_hosts_in_a_circle(cluster: Cluster, dsrun: Dsrun, tmp_path: Path) -> None:
    config = "Host n2\n ProxyJump n1\nHost n1\n ProxyJump n3\nHost n3\n ProxyJump n1\n"
    with ssh_file(cluster, "config", config):
        ended = dsrun(*on("n2", "ssh"), script(tmp_path, HELLO))
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    assert "ProxyJump forms a loop: n1 -> n3 -> n1" in ended.stderr
    assert "Traceback" not in ended.stderr


@remote
@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("ProxyJump nowhere", "name or service not known"),
        ("ProxyCommand no-such-program %h", "no-such-program: not found"),
    ],
)
def test_a_bad_way_to_a_host_is_told_at_once(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str, way: str, words: str
) -> None:
    with ssh_file(cluster, "config", f"Host n2\n {way}\n"):
        ended = dsrun(*on("n2", launcher), script(tmp_path, HELLO))
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    (cause,) = re.findall("^dsrun:   n2: (.*)$", ended.stderr, re.MULTILINE)
    assert re.search("its ProxyJump|jump host nowhere|its ProxyCommand failed", cause)
    assert words in cause.lower()


@remote
def test_a_command_of_the_users_own_for_a_host_is_not_run(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    with ssh_file(cluster, "config", "Host *\n RemoteCommand sleep 1200\n"):
        ended = dsrun(*on("n2", launcher), script(tmp_path, HELLO))
    assert (ended.returncode, ended.stdout) == (0, GREETING)


@remote
def test_what_a_session_is_stays_as_dsrun_needs_it(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    with ssh_file(cluster, "config", OTHER_SESSION):
        ended = dsrun(*on("n2", launcher), script(tmp_path, HELLO))
    assert (ended.returncode, ended.stdout) == (0, GREETING)
    assert not cluster.login.run(["sh", "-c", "ls /run/master-* 2>/dev/null"]).stdout


def test_what_paramiko_cannot_do_goes_to_openssh(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path = script(tmp_path, HELLO)
    why = "n2: your ssh configuration sets BindAddress, which paramiko does not support"
    with ssh_file(cluster, "config", f"Host n2\n BindAddress {cluster.login.address}\n"):
        found = dsrun(*on("n1 n2", "auto"), path)
        told = dsrun(*on("n1 n2", "ssh"), path)
    assert (found.returncode, sorted(found.stdout.splitlines())[1]) == (0, "n2:1| here is n2")
    assert f"dsrun: launcher: openssh (the ssh program; {why})\n" in found.stderr
    assert told.returncode == USAGE
    assert told.stderr == f"dsrun: --launcher ssh: {why}; use --launcher openssh\n"


@remote
def test_a_missing_key_file_is_named_where_nothing_else_works(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with (
        key_elsewhere(cluster) as key,
        ssh_file(cluster, "config", "IdentityFile ~/.ssh/none\n"),
        agent(cluster, key) as environ,
    ):
        refused = dsrun(*on("n2", launcher), path)
        ended = dsrun(*on("n2", launcher), path, env=environ)
    assert (ended.returncode, ended.stdout) == (0, GREETING)
    assert "n2: authentication failed" in refused.stderr
    assert launcher != "ssh" or f"{HOME}/.ssh/none is missing" in refused.stderr


@remote
def test_a_key_of_the_agent_that_the_configuration_names(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    config = "IdentitiesOnly yes\nIdentityFile ~/.ssh/id_ed25519.pub\n"
    public = cluster.path(f"{HOME}/.ssh/authorized_keys").read_text()
    with (
        key_elsewhere(cluster) as key,
        ssh_file(cluster, "id_ed25519.pub", public),
        ssh_file(cluster, "config", config),
        agent(cluster, key) as environ,
    ):
        ended = dsrun(*on("n2", launcher), path, env=environ)
    assert (ended.returncode, ended.stdout) == (0, GREETING)


def test_a_key_that_others_may_read_is_named_over_openssh(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    key = cluster.path(f"{HOME}/.ssh/id_ed25519")
    key.chmod(0o644)
    try:
        ended = dsrun(*on("n2", "openssh"), script(tmp_path, HELLO))
    finally:
        key.chmod(0o600)
    assert ended.returncode == UNUSABLE
    assert f"chmod 600 {HOME}/.ssh/id_ed25519" in ended.stderr


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
