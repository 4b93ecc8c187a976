"""Hosts that answer but cannot take part: each is named with its cause, and nothing starts."""

from __future__ import annotations

import re
import sys
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.wording import ANOTHER_PYTHON

from ..support.checkout import BIN
from .reaching import HELLO, UNUSABLE, USAGE, known, on, remote, script, ssh_file

if TYPE_CHECKING:
    import subprocess

    from .command import Dsrun
    from .hosts import Cluster
    from .machines import Host

OWN_SHELLS = {
    "noisy": "echo 'welcome to this machine'; echo 'mind the gap' >&2; printf '\\0\\1\\377'",
    "very noisy": "yes 'lots and lots of noise' | head -c 30000",
    "strict": "set -euf",
    "strange": "IFS=x; alias exec=false python=false; cd /; LANG=xx; export TMPDIR=/none",
}


def causes(ended: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What a refused job says of each host, once its exit code and silence have been looked at."""
    assert (ended.returncode, ended.stdout) == (UNUSABLE, ""), ended.stderr
    head, *rest = ended.stderr.partition("dsrun: the job cannot start")[2].splitlines()
    # Whoever is silent may have something running.
    assert head in {"; nothing was left running:", "; no worker was started:"}
    told = dict(line.removeprefix("dsrun:   ").split(": ", 1) for line in rest)
    # Hosts that share a cause share its line.
    return {host: cause for hosts, cause in told.items() for host in hosts.split(", ")}


@remote
def test_no_key_that_the_host_accepts(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with cluster.host("n2").sshd(AuthorizedKeysFile="/dev/null"):
        found = causes(dsrun(*on("n1 n2", launcher), path))
    assert list(found) == ["n2"]
    assert found["n2"].startswith("authentication failed")


@remote
def test_no_such_python(dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    path = script(tmp_path, HELLO)
    ended = dsrun(*on("n1 n2", launcher), "--python", "/no/such/python3", path)
    assert (ended.returncode, ended.stdout) == (USAGE, "")
    assert f"dsrun: n1, n2: no Python at /no/such/python3 {ANOTHER_PYTHON}" in ended.stderr


@remote
def test_a_python_that_one_host_lacks(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    """As where no host has it: the command line names what is not there."""
    path, own = script(tmp_path, HELLO), tmp_path / "own"
    own.mkdir()
    (own / "python3").symlink_to(sys.executable)
    with hidden(cluster.host("n2"), str(own)):
        ended = dsrun(*on("n1 n2", launcher), "--python", str(own / "python3"), path)
    assert (ended.returncode, ended.stdout) == (USAGE, "")
    assert f"dsrun: n2: no Python at {own / 'python3'} {ANOTHER_PYTHON}" in ended.stderr


def test_the_python_of_the_project_that_one_host_lacks(cluster: Cluster, tmp_path: Path) -> None:
    """Dsrun's own Python, which has no torch, is there: it names those that the host has."""
    path, near = script(tmp_path, HELLO), tmp_path / ".venv"
    for folder in (tmp_path / "own", near):
        venv.EnvBuilder(symlinks=True).create(folder)
    own = str(tmp_path / "own" / "bin" / "python")
    argv = [own, str(BIN / "dsrun"), *on("n1 n2", "openssh"), path]
    with hidden(cluster.host("n2"), str(near)):
        ended = cluster.login.run(argv, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (USAGE, "")
    (line,) = (one for one in ended.stderr.splitlines() if "n2: " in one)
    missing, _, there = line.partition("; there ")
    assert missing == f"dsrun: n2: no Python at {near}/bin/python {ANOTHER_PYTHON}"
    assert f"python3 ({sys.version_info.major}." in there
    ended = cluster.login.run(argv, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert f"workers run on {near}/bin/python, from the nearest .venv above" in ended.stderr


@remote
def test_a_python_that_is_none(dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    path = script(tmp_path, HELLO)
    text = tmp_path / "python3"
    text.write_text("not a program\n")
    text.chmod(0o644)
    ended = dsrun(*on("n1", launcher), "--python", str(text), path)
    assert (ended.returncode, ended.stdout) == (USAGE, "")
    assert f"dsrun: n1: no permission to run {text} {ANOTHER_PYTHON}" in ended.stderr


@remote
@pytest.mark.parametrize("what", ["folder", "script", "module"])
def test_what_is_missing_on_one_host_is_named_with_its_path(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str, what: str
) -> None:
    folder = tmp_path / "my project"
    folder.mkdir()
    path = script(folder, HELLO)
    away = {"folder": tmp_path, "script": folder, "module": tmp_path}[what]
    program = ["--module", "train"] if what == "module" else [path]
    with hidden(cluster.host("n2"), str(away)):
        ended = dsrun(*on("n1 n2", launcher), *program, cwd=folder)
    assert (ended.returncode, ended.stdout) == (USAGE, "")
    missing = f"script: {path}" if what == "script" else f"folder: {folder}"
    assert f"dsrun: n2: no such {missing}" in ended.stderr
    assert "dsrun: n1" not in ended.stderr


def hidden(host: Host, folder: str) -> ExitStack:
    """A folder is empty on one host inside the `with` block."""
    stack = ExitStack()
    stack.enter_context(host.tmpfs(folder, "64k"))
    return stack


@remote
def test_a_full_disk_is_no_reason_not_to_run(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    n1 = cluster.host("n1")
    with n1.tmpfs("/tmp/full", "64k"):
        n1.run(["dd", "if=/dev/zero", "of=/tmp/full/big", "bs=64k", "count=2"])
        ended = dsrun(*on("n1", launcher), path, env={"TMPDIR": "/tmp/full"})
    n1.run(["rmdir", "/tmp/full"])
    assert (ended.returncode, ended.stdout) == (0, "n1:0| here is n1\n")


@remote
def test_a_log_that_fills_the_disk_is_told_once_and_the_console_gets_all(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, "for i in range(3000): print(f'{i:099}')")
    n1 = cluster.host("n1")
    with n1.tmpfs("/tmp/logs", "64k"):
        ended = dsrun(*on("n1", launcher), "--log_dir", "/tmp/logs", path)
    n1.run(["rmdir", "/tmp/logs"])
    assert ended.stdout == "".join(f"n1:0| {i:099}\n" for i in range(3000))
    assert ended.stderr.count("No space left on device") == 1
    assert ended.returncode == 0


@remote
def test_a_log_folder_that_cannot_be_made(dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    path = script(tmp_path, HELLO)
    """On no node: the option is wrong, and not a node."""
    ended = dsrun(*on("n1 n2", launcher), "--log_dir", "/proc/none", path)
    assert (ended.returncode, ended.stdout) == (USAGE, ""), ended.stderr
    assert re.search(r"(?m)^dsrun: n1, n2: --log_dir .*/proc/none", ended.stderr)


@remote
@pytest.mark.parametrize("what", OWN_SHELLS)
def test_start_up_files_of_any_kind(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str, what: str
) -> None:
    path = script(tmp_path, HELLO)
    start_up = cluster.path("/run/home/.bashrc")
    start_up.write_text(f"{OWN_SHELLS[what]}\n")
    try:
        ended = dsrun(*on("n1 n2", launcher), path)
    finally:
        start_up.unlink()
    assert sorted(ended.stdout.splitlines()) == ["n1:0| here is n1", "n2:1| here is n2"]
    assert ended.returncode == 0


@remote
def test_a_start_up_file_that_ends_the_session(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    start_up = cluster.path("/run/home/.bashrc")
    start_up.write_text("echo 'this account is closed'; exit 3\n")
    try:
        found = causes(dsrun(*on("n1", launcher), path))
    finally:
        start_up.unlink()
    assert "exit code 3" in found["n1"]
    assert "this account is closed" in found["n1"]


@remote
def test_two_names_of_one_host(dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    path = script(tmp_path, HELLO)
    found = causes(dsrun(*on("n1 n2 n1.cluster", launcher), path))
    assert list(found) == ["n1.cluster (--host)"]
    assert "the same machine as n1" in found["n1.cluster (--host)"]


@remote
def test_two_names_of_this_machine(dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    path = script(tmp_path, HELLO)
    ended = dsrun(*on("localhost n2 login.cluster", launcher), path)
    assert ended.returncode in {USAGE, UNUSABLE}
    assert ended.stdout == ""
    assert re.search("login.cluster.*: the same machine as localhost", ended.stderr)


@remote
def test_an_sshd_that_says_nothing_costs_the_time_to_connect(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path, n2 = script(tmp_path, HELLO), cluster.host("n2")
    pid = cluster.path("/run/n2/sshd.pid").read_text().strip()
    n2.run(["kill", "-STOP", pid])
    try:
        found = causes(dsrun(*on("n2", launcher, "--connect_timeout", "2"), path))
    finally:
        n2.run(["kill", "-CONT", pid])
    assert "did not answer" in found["n2"]


def test_a_host_that_no_packet_reaches_is_told_what_to_look_at(
    dsrun: Dsrun, tmp_path: Path
) -> None:
    found = causes(dsrun(*on("unreachable", "ssh"), script(tmp_path, HELLO)))
    assert found["unreachable"].startswith("no route to it: it is down, a firewall rejects")


@pytest.mark.tier("test")
@remote
def test_causes_of_every_kind_are_told_together(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, HELLO)
    with (
        cluster.host("n2").sshd(AuthorizedKeysFile="/dev/null"),
        hidden(cluster.host("n3"), str(Path(sys.executable).parent)),
        ssh_file(cluster, "known_hosts", known(cluster, "login n1 n2 n3")),
    ):
        hosts = "n1 n2 n3 n4 nobody blackhole"
        found = causes(dsrun(*on(hosts, launcher, "--connect_timeout", "15"), path))
    assert list(found) == ["n2", "n3", "n4", "nobody", "blackhole"]
    assert "unknown host key" in found["n4"]


def test_the_reason_of_a_refusal_is_in_the_report(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path, report = script(tmp_path, HELLO), tmp_path / "report.json"
    with cluster.host("n2").sshd(AuthorizedKeysFile="/dev/null"):
        ended = dsrun(*on("n1 n2", "openssh", "--report_file", str(report)), path)
    assert ended.returncode == UNUSABLE
    assert '"exit_code": 69' in report.read_text()
    assert "n2: authentication failed" in report.read_text()
    assert sys.executable not in ended.stderr
