"""Where the code of dsrun comes from, what its workers inherit, and whom it may signal."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from .command import CHECKOUT, Running
from .reaching import on, remote, script, workers

if TYPE_CHECKING:
    from .command import Dsrun
    from .hosts import Cluster

everywhere = pytest.mark.parametrize(
    "launcher", ["ssh", pytest.param("openssh", marks=pytest.mark.tier("all")), "pdsh", "local"]
)

PLANTED = (
    *("json", "os", "site", "select", "socket", "ssl", "struct", "selectors", "signal", "re"),
    *("typing", "hashlib", "sitecustomize", "usercustomize", "paramiko", "launcher"),
)

# Says which process it was read by, with nothing but what is built in.
LOADED = """
import posix
with open("/proc/self/cmdline", "rb") as file:
    line = file.read()
with open(__file__ + ".ran", "ab") as file:
    file.write(line + b"\\n")
"""

FINE = ("--no_python", "--no_local_rank", "sh", "-c", "echo fine")
"""A program that is no Python and so reads none of the modules."""

FDS = """
import os
print(sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
    if 2 < int(fd) < 250 and os.path.exists(f"/proc/self/fd/{fd}")))  # the hook's own is above
print(os.readlink("/proc/self/fd/0"))
"""

ALIKE = """
import os, signal, sys
print("is up", flush=True)
signal.pause() if "RANK" in os.environ else sys.stdin.read()
"""

DEMOTED = """
import os, signal, sys
os.setgid(65534)
os.setuid(65534)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("is up", flush=True)
signal.pause()
"""


def target(launcher: str) -> list[str]:
    """The options of a job with one worker, elsewhere or here."""
    return ["--num_gpus", "1", "--grace", "1"] if launcher == "local" else on("n1", launcher)


def plant(folder: Path, names: tuple[str, ...] = PLANTED) -> None:
    """Put modules there that have the names of Python's own."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.py").write_text(LOADED)


def ran(folder: Path) -> list[str]:
    """The planted modules that were imported, and by which command lines."""
    return [f"{file.name}: {file.read_bytes()!r}" for file in sorted(folder.glob("*.ran"))]


def test_planted_modules_do_run_where_nobody_minds(cluster: Cluster, tmp_path: Path) -> None:
    plant(tmp_path)
    cluster.login.run([sys.executable, "-c", "import json"], cwd=tmp_path)
    assert "json.py.ran" in ran(tmp_path)[0]


@everywhere
def test_modules_in_the_current_folder_are_the_workers_alone(
    dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    plant(tmp_path)
    ended = dsrun(*target(launcher), *FINE)
    assert (ended.returncode, ended.stdout.endswith("| fine\n")) == (0, True), ended.stderr
    assert ran(tmp_path) == []


@everywhere
@pytest.mark.parametrize("form", ["{0}", ":{0}", "", "."], ids=["folder", "too", "empty", "here"])
def test_modules_on_the_path_of_the_job_are_the_workers_alone(
    dsrun: Dsrun, tmp_path: Path, launcher: str, form: str
) -> None:
    planted = tmp_path / "planted"
    plant(planted)
    ended = dsrun(
        *target(launcher), "--export", f"PYTHONPATH={form.format(planted)}", *FINE, cwd=planted
    )
    assert (ended.returncode, ended.stdout.endswith("| fine\n")) == (0, True), ended.stderr
    assert ran(planted) == []


@remote
def test_modules_on_the_path_of_a_host_do_not_run(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    plant(tmp_path / "planted")
    start_up = cluster.path("/run/home/.bashrc")
    start_up.write_text(f"export PYTHONPATH={tmp_path}/planted PYTHONSTARTUP={tmp_path}/x\n")
    try:
        ended = dsrun(*target(launcher), *FINE)
    finally:
        start_up.unlink()
    assert (ended.returncode, ended.stdout.endswith("| fine\n")) == (0, True), ended.stderr
    assert ran(tmp_path / "planted") == []


@everywhere
@pytest.mark.parametrize("form", ["{0}", ":{0}", "", "."], ids=["folder", "too", "empty", "here"])
def test_modules_on_the_path_of_the_runner_do_not_take_the_place_of_pythons(
    dsrun: Dsrun, tmp_path: Path, launcher: str, form: str
) -> None:
    # What Python itself imports on its way to a program is beyond that program's reach.
    planted = tmp_path / "planted"
    plant(planted, ("json", "os", "site", "select"))
    environ = {"PYTHONPATH": form.format(planted)}
    ended = dsrun(*target(launcher), *FINE, env=environ, cwd=planted)
    assert (ended.returncode, ended.stdout.endswith("| fine\n")) == (0, True), ended.stderr
    assert ran(planted) == []


@everywhere
def test_the_workers_get_the_users_path(dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    script(lib, "WORD = 'from the library'", "mine.py")
    path = script(tmp_path, "import mine; print(mine.WORD)")
    ended = dsrun(*target(launcher), path, env={"PYTHONPATH": str(lib)})
    assert (ended.returncode, ended.stdout.endswith("| from the library\n")) == (0, True)


@pytest.mark.tier("test")
@everywhere
def test_workers_inherit_no_open_files(dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    path = script(tmp_path, FDS)
    with socket.socket() as one, (tmp_path / "private").open("w") as other:
        fds = (one.fileno(), other.fileno())
        ended = dsrun(*target(launcher), "--prefix", "", path, pass_fds=fds)
    assert (ended.returncode, ended.stdout) == (0, "[]\n/dev/null\n")


@everywhere
def test_all_that_a_worker_starts_inherits_no_open_files(
    dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    program = ("--no_python", "--no_local_rank", "sh", "-c", "ls /proc/$$/fd; true")
    ended = dsrun(*target(launcher), "--prefix", "", "--log_dir", str(tmp_path / "logs"), *program)
    assert (ended.returncode, ended.stdout) == (0, "0\n1\n2\n")


def demoted(dsrun: Dsrun, tmp_path: Path, launcher: str) -> tuple[Running, str]:
    """A job whose worker has become another user and does not mind signals."""
    path = script(tmp_path, DEMOTED)
    running = dsrun.start(*target(launcher), path)
    running.wait_for_output("is up")
    return running, path


@pytest.mark.tier("test")
@everywhere
def test_a_worker_that_changed_its_user_is_stopped(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    running, path = demoted(dsrun, tmp_path, launcher)
    running.process.send_signal(signal.SIGTERM)
    assert running.wait().returncode == 128 + signal.SIGTERM
    assert workers(cluster, path) == []


@everywhere
def test_a_worker_that_changed_its_user_does_not_outlive_its_node_launcher(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    # The kernel takes the parent-death signal off a process that changes its user.
    running, path = demoted(dsrun, tmp_path, launcher)
    (worker,) = workers(cluster, path)
    (parent,) = re.findall("PPid:\t([0-9]+)", Path(f"/proc/{worker.pid}/status").read_text())
    os.kill(int(parent), signal.SIGKILL)
    wait_for(lambda: not workers(cluster, path), "the end of the worker")
    assert running.wait().returncode not in {0, 70}


@remote
def test_a_process_that_looks_like_a_worker_is_left_alone(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    path = script(tmp_path, ALIKE)
    n1 = cluster.host("n1")
    command = [sys.executable, "-u", path]
    with n1.popen(command, cwd=tmp_path, stdin=subprocess.PIPE) as alike:
        assert alike.stdout
        assert alike.stdout.readline() == "is up\n"
        running = dsrun.start(*on("n1", launcher), path)
        running.wait_for_output("is up")
        running.process.send_signal(signal.SIGINT)
        assert running.wait().returncode == 128 + signal.SIGINT
        assert alike.poll() is None
        alike.communicate()


def test_the_checkout_is_found_from_a_hostile_folder(cluster: Cluster, tmp_path: Path) -> None:
    plant(tmp_path)
    shown = cluster.login.run([str(CHECKOUT / "bin" / "dsrun"), "--help"], cwd=tmp_path)
    assert (shown.returncode, "dsrun [options]" in shown.stdout) == (0, True), shown.stderr
    assert ran(tmp_path) == []
