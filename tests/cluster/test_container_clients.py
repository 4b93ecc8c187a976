"""Containers of apptainer and enroot: stand-ins that run workers in another root file system."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import LOST, NODE_UNUSABLE

from ..features.containers.test_node_host import STAND_IN
from ..support.limits import wait_for
from ..support.needs import need
from .command import Dsrun
from .contained import WORKER, processes, started, told
from .container_root import root_folder
from .machines import TOOLS
from .reaching import file, login_shell
from .test_containers import HOSTS, LEASE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import CompletedProcess

    from .hosts import Cluster
    from .machines import Machine

FOLDERS = {"apptainer": 'it\'s a, "job"\n of %h!', "enroot": 'it\'s-$HOME-`"job"`-%h!'}
"""Names of folders, as difficult as the mounts of each can be."""

COMMON = ("--no_local_rank", "--accelerator", "cpu")
VALUE = "a b\n'\"$HOME %h ! \\ \t"
AWKWARD = ("--export", "GIVEN", "t.py", "7", "it's", '"a" !x', "a\nb  %h !", "$HOME `id` \\", "")
"""A job with words and a value (`GIVEN`) that a shell, Slurm or a client might change."""


class Client:
    """The stand-in of a runtime, which every host has on its PATH, with an image."""

    def __init__(self, runtime: str, place: Path) -> None:
        self.runtime = runtime
        self.folder = place / FOLDERS[runtime]
        self.folder.mkdir()
        (self.folder / "t.py").write_text(WORKER)
        self.bin = place / "bin"
        self.bin.mkdir()
        image = place / "image.file"
        image.write_text(str(root_folder(place / "root")))
        words = f"exec {sys.executable} -IS {STAND_IN} {runtime}"
        (self.bin / runtime).write_text(f'#!/bin/sh\nSTAND_IN={place} {words} "$@"\n')
        (self.bin / runtime).chmod(0o755)
        self.options = ("--container", f"{runtime}:{image}", *COMMON)

    def on(self, host: Machine) -> int:
        """Its process on a host, or for enroot the guard, which has taken its place."""
        found = of_job(host) if self.runtime == "enroot" else processes(host, STAND_IN.name)
        return min(found, key=started)


@pytest.fixture(params=["apptainer", "enroot"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    return Client(request.param, tmp_path)


@pytest.fixture
def made(site: Cluster, client: Client, launcher: str) -> Iterator[Dsrun]:
    """`dsrun` in that folder; the client is on PATH over ssh, and in a step of Slurm."""
    hosts = () if launcher == "slurm" else HOSTS
    words = ("--launcher", launcher, *hosts, *client.options)
    start = f"export LEAKED=1 PATH={client.bin}:$PATH\n"
    with file(site.path("/run/home/.bashrc"), start), pytest.MonkeyPatch.context() as patch:
        patch.setitem(TOOLS, "PATH", f"{client.bin}:{TOOLS['PATH']}")
        dsrun = Dsrun(site, client.folder, *words)
        yield dsrun
        dsrun.close()


def of_job(host: Machine) -> list[int]:
    """The processes of a job on a host: workers, node launchers, clients."""
    return processes(host, "t.py", "-E", STAND_IN.name)


def gone(cluster: Cluster) -> None:
    for host in cluster.hosts[:2]:
        wait_for(lambda host=host: not of_job(host), "no process")  # type: ignore[misc]


@pytest.mark.tier("ci")
@pytest.mark.parametrize("launcher", ["ssh", "slurm"])
def test_workers_run_inside_and_their_codes_are_the_jobs(
    site: Cluster, client: Client, made: Dsrun
) -> None:
    ended = made(*AWKWARD, env={"GIVEN": VALUE, "LEAKED": "1", "LD_LIBRARY_PATH": "/host"})
    judge(ended, client.folder)
    gone(site)


@pytest.mark.parametrize("client", ["apptainer"], indirect=True)
def test_no_word_changes_where_the_login_shell_is_csh(cluster: Cluster, client: Client) -> None:
    need("tcsh")
    dsrun = Dsrun(cluster, client.folder, *HOSTS, *client.options)
    start = f"setenv LEAKED 1\nset path = ({client.bin} $path)\n"
    with login_shell(cluster, "/bin/tcsh"), file(cluster.path("/run/home/.tcshrc"), start):
        judge(dsrun(*AWKWARD, env={"GIVEN": VALUE}), client.folder)
    gone(cluster)


def judge(ended: CompletedProcess[str], folder: Path) -> None:
    """Check that the job of `AWKWARD` has run inside, unchanged."""
    assert ended.returncode == 7, ended
    ranks = told(ended.stdout)
    assert sorted(str(one["host"])[0] for one in ranks) == ["n", "n"]
    assert len({one["host"] for one in ranks}) == 2
    assert all(one["inside"] for one in ranks)
    assert {one["given"] for one in ranks} == {VALUE}
    assert {one["library"] for one in ranks} == {"/of/the/image"}
    assert {one["path"] for one in ranks} == {"/usr/local/bin:/usr/bin:/bin"}
    assert {str(one["argv"]) for one in ranks} == {str([*AWKWARD[4:]])}
    assert {str(one["names"]) for one in ranks} == {"[]"}
    assert {one["folder"] for one in ranks} == {str(folder)}
    assert re.search(r"rank 1 \(n\d, local rank 0, pid \d+\) exited with code 7", ended.stderr)
    assert sorted(one.name[-2:] for one in folder.glob("made-*")) == ["-0", "-1"]


@pytest.mark.tier("ci")
@pytest.mark.parametrize("launcher", ["ssh", "slurm"])
@pytest.mark.parametrize("victim", ["dsrun", "client"])
def test_nothing_outlives_what_is_killed(
    site: Cluster, client: Client, made: Dsrun, victim: str
) -> None:
    job = made.start(*LEASE, "--grace", "1", "t.py", "wait")
    wait_for(lambda: job.stdout.count('"rank"') == 2, "both workers")
    if victim == "dsrun":
        job.process.kill()
    else:
        os.kill(client.on(site.host("n2")), signal.SIGKILL)
    ended = job.wait()
    assert ended.returncode == (-signal.SIGKILL if victim == "dsrun" else LOST), ended
    if victim == "client":
        assert "lost n2" in ended.stderr, ended
    gone(site)


@pytest.mark.parametrize("launcher", ["ssh"])
def test_what_the_client_refuses_is_said_in_one_line(made: Dsrun, client: Client) -> None:
    bogus = {"apptainer": "unknown flag: --bogus", "enroot": "it does not know one of its options"}
    refused = {
        ("--python", "python9"): "there is no python9 inside",
        ("--container_args=--bogus",): bogus[client.runtime],
    }
    for words, why in refused.items():
        ended = made(*words, "t.py", "0")
        assert ended.returncode == NODE_UNUSABLE, ended
        (line,) = (one for one in ended.stderr.splitlines() if one.startswith("dsrun:   n1, n2: "))
        assert why in line
