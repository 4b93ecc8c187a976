"""Whom dsrun talks to: host keys that are unknown, new, changed, revoked, or under another name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from .machines import HOME
from .reaching import HELLO, UNUSABLE, known, on, remote, script, sessions, ssh_file

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun
    from .engines import Engine
    from .hosts import Cluster

GREETING = "n2:0| here is n2\n"


@pytest.fixture
def other_key(cluster: Cluster) -> str:
    """A host key that nobody knows."""
    path = "/run/other_host_key"
    if not cluster.path(path).exists():
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path]
        assert cluster.login.run(made).returncode == 0
    return path


def fingerprint(cluster: Cluster, key: str) -> str:
    """The SHA-256 of a key as `ssh-keygen -l` shows it."""
    return cluster.login.run(["ssh-keygen", "-lf", key]).stdout.split()[1]


@remote
def test_an_unknown_key_is_refused_with_what_would_accept_it(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    without = known(cluster, "login n1 n3 n4")
    with ssh_file(cluster, "known_hosts", without) as file:
        ended = dsrun(*on("n1 n2", launcher), path)
        assert file.read_text() == without
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    (cause,) = re.findall("^dsrun:   (n[12].*)$", ended.stderr, re.MULTILINE)
    assert cause.startswith("n2: unknown host key")
    assert "--accept_new_host_keys" in cause
    assert re.search("ssh-keyscan n2 >> ", cause)


@remote
def test_the_fingerprint_of_an_unknown_key_is_shown(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with ssh_file(cluster, "known_hosts", ""):
        ended = dsrun(*on("n2", launcher), path)
    shown = fingerprint(cluster, "/run/n2/host_key.pub") in ended.stderr
    assert shown or "ssh-keyscan n2 | ssh-keygen -lf -" in ended.stderr


@remote
def test_the_command_in_the_message_accepts_the_key(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with ssh_file(cluster, "known_hosts", ""):
        refused = dsrun(*on("n2", launcher), path)
        (command,) = re.findall("ssh-keyscan n2 >> \\S+", refused.stderr)
        assert cluster.login.run(["bash", "-c", command]).returncode == 0
        ended = dsrun(*on("n2", launcher), path)
    assert (ended.returncode, ended.stdout) == (0, GREETING)


def test_the_command_names_the_file_of_the_configuration(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    config = "Host n2\n  UserKnownHostsFile ~/.ssh/others\n"
    with ssh_file(cluster, "config", config), ssh_file(cluster, "others", ""):
        refused = dsrun(*on("n2", "ssh"), script(tmp_path, HELLO))
    assert f"ssh-keyscan n2 >> {HOME}/.ssh/others (or use" in refused.stderr


@remote
def test_a_new_key_is_taken_when_asked_to_and_kept(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with ssh_file(cluster, "known_hosts", known(cluster, "n1")) as file:
        first = dsrun(*on("n2", launcher), "--accept_new_host_keys", path)
        assert file.read_text().startswith(known(cluster, "n1"))
        found = cluster.login.run(["ssh-keygen", "-F", "n2", "-f", f"{HOME}/.ssh/known_hosts"])
        second = dsrun(*on("n2", launcher), path)
    key = cluster.path("/run/n2/host_key.pub").read_text().split()[1]
    assert key in found.stdout
    for ended in (first, second):
        assert (ended.returncode, ended.stdout) == (0, GREETING)


@remote
@pytest.mark.parametrize("checking", ["no", "accept-new"])
def test_a_new_key_is_taken_with_a_line_when_the_configuration_says_so(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str, checking: str
) -> None:
    path = script(tmp_path, HELLO)
    with (
        ssh_file(cluster, "known_hosts", "") as file,
        ssh_file(cluster, "config", f"Host *\n StrictHostKeyChecking {checking}\n"),
    ):
        ended = dsrun(*on("n2", launcher), path)
        assert file.read_text() != ""
    assert (ended.returncode, ended.stdout) == (0, GREETING)
    (line,) = re.findall("^dsrun: (n2: accepted its new .*)$", ended.stderr, re.MULTILINE)
    assert "host key" in line
    assert launcher != "ssh" or fingerprint(cluster, "/run/n2/host_key.pub") in line


def test_one_option_for_all_hosts_is_that_of_the_strictest(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path = script(tmp_path, HELLO)
    with (
        ssh_file(cluster, "known_hosts", known(cluster, "n1")),
        ssh_file(cluster, "config", "Host n2\n StrictHostKeyChecking no\n"),
    ):
        ended = dsrun(*on("n1 n2", "pdsh"), path)
    assert (ended.returncode, "n2: unknown host key" in ended.stderr) == (UNUSABLE, True)


STRICT = {
    "strict": ("", []),
    "accepting": ("", ["--accept_new_host_keys"]),
    "careless": ("Host *\n StrictHostKeyChecking no\n", []),
}


@pytest.mark.tier("test")
@remote
@pytest.mark.parametrize("how", STRICT)
def test_a_changed_key_is_always_refused(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str, how: str, other_key: str
) -> None:
    path = script(tmp_path, HELLO)
    config, options = STRICT[how]
    known_hosts = cluster.path(f"{HOME}/.ssh/known_hosts")
    before = known_hosts.read_text()
    with (
        ssh_file(cluster, "config", config),
        cluster.host("n2").sshd(HostKey=other_key),
    ):
        ended = dsrun(*on("n1 n2", launcher), *options, path)
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    assert re.search("^dsrun:   n2: its host key has CHANGED", ended.stderr, re.MULTILINE)
    assert "ssh-keygen -R n2" in ended.stderr
    assert known_hosts.read_text() == before


def test_a_changed_key_is_refused_over_every_engine(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, engine: Engine, other_key: str
) -> None:
    path = script(tmp_path, HELLO)
    config = STRICT["careless"][0]
    with ssh_file(cluster, "config", config), cluster.host("n2").sshd(HostKey=other_key):
        ended = dsrun(*engine.options, "--host", "n1:1,n2:1", path)
    assert (ended.returncode, ended.stdout) == (UNUSABLE, ""), ended.stderr


@pytest.mark.parametrize("launcher", ["openssh", "pdsh"])
def test_options_of_the_users_own_take_no_changed_key(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str, other_key: str
) -> None:
    path = script(tmp_path, HELLO)
    own = "-o StrictHostKeyChecking=no"
    options = ["--launcher_args", own] if launcher == "openssh" else []
    with cluster.host("n2").sshd(HostKey=other_key):
        ended = dsrun(*on("n2", launcher), *options, path, env={"PDSH_SSH_ARGS_APPEND": own})
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    assert "n2: its host key has CHANGED" in ended.stderr


@remote
@pytest.mark.parametrize("how", STRICT)
@pytest.mark.parametrize("also", ["known", "unknown"])
def test_a_revoked_key_is_always_refused(
    cluster: Cluster,
    dsrun: Dsrun,
    tmp_path: Path,
    launcher: str,
    how: str,
    also: str,
) -> None:
    path = script(tmp_path, HELLO)
    config, options = STRICT[how]
    key = cluster.path("/run/n2/host_key.pub").read_text().rpartition(" ")[0]
    text = known(cluster, "n1 n2" if also == "known" else "n1") + f"@revoked * {key}\n"
    with (
        ssh_file(cluster, "known_hosts", text) as file,
        ssh_file(cluster, "config", config),
    ):
        ended = dsrun(*on("n2", launcher), *options, path)
        assert file.read_text() == text
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    assert re.search("^dsrun:   n2: its host key is marked @?revoked", ended.stderr, re.MULTILINE)


@remote
def test_a_key_may_be_known_under_an_alias(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    key = cluster.path("/run/n2/host_key.pub").read_text()
    with (
        ssh_file(cluster, "known_hosts", f"trainer {key}"),
        ssh_file(cluster, "config", "Host n2\n  HostKeyAlias trainer\n"),
    ):
        ended = dsrun(*on("n2", launcher), path)
    assert (ended.returncode, ended.stdout) == (0, GREETING)


@remote
def test_an_alias_whose_key_is_not_known_is_refused(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with ssh_file(cluster, "config", "Host n2\n  HostKeyAlias trainer\n"):
        ended = dsrun(*on("n2", launcher), path)
    assert (ended.returncode, "n2: unknown host key" in ended.stderr) == (UNUSABLE, True)


@sessions
@pytest.mark.parametrize("known_as", ["[n2]:2222", "n2", "nothing"])
def test_keys_of_another_port(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str, known_as: str
) -> None:
    path = script(tmp_path, HELLO)
    key = cluster.path("/run/n2/host_key.pub").read_text()
    (tmp_path / "hosts").write_text("n2 slots=1 port=2222\n")
    with (
        ssh_file(cluster, "known_hosts", f"{known_as} {key}"),
        cluster.host("n2").sshd(Port="2222"),
    ):
        asked = cluster.login.run(["ssh", "-o", "BatchMode=yes", "-p", "2222", "n2", "hostname"])
        ended = dsrun("--launcher", launcher, "--hostfile", str(tmp_path / "hosts"), path)
    # Whatever OpenSSH makes of such a line is what its users expect.
    assert (ended.returncode == 0) == (asked.returncode == 0), ended.stderr
    assert ended.stdout == ("" if asked.returncode else GREETING)


@sessions
def test_the_system_wide_file_counts_too(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    file = tmp_path / "known"
    file.write_text(known(cluster, "n2"))
    with (
        ssh_file(cluster, "known_hosts", ""),
        ssh_file(cluster, "config", f"UserKnownHostsFile ~/.ssh/known_hosts {file}\n"),
    ):
        ended = dsrun(*on("n2", launcher), path)
    assert (ended.returncode, ended.stdout) == (0, GREETING)
