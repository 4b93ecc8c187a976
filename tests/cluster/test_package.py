"""Hosts where dsrun is missing, older or damaged: they are sent it, and keep it."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .command import CHECKOUT, Dsrun
from .jobs import EVERYWHERE, options
from .machines import HOME
from .reaching import script
from .test_python import Programs, programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hosts import Cluster
    from .machines import Host

__all__ = ["programs"]

PACKAGE = f"{HOME}/.cache/dsrun/package"
REMOTE = [launcher for launcher in (*EVERYWHERE, "slurm") if launcher != "local"]

TELLS = """
import os, sys
seen = [text for text in (*sys.path, *os.environ.values()) if ".cache/dsrun" in text]
print(os.uname().nodename, "sees", seen)
"""


@contextmanager
def without_dsrun(*hosts: Host) -> Iterator[None]:
    """Inside the `with` block these hosts have no dsrun, and each a cache of its own."""
    with ExitStack() as stack:
        for host in hosts:
            stack.enter_context(host.tmpfs(f"{HOME}/.cache", "8m"))
            stack.enter_context(host.tmpfs(str(CHECKOUT / "launcher"), "64k"))
        yield


@contextmanager
def bound(host: Host, what: Path, where: Path) -> Iterator[None]:
    """A folder of a host has other contents inside the `with` block."""
    assert host.run(["mount", "--bind", str(what), str(where)]).returncode == 0
    try:
        yield
    finally:
        host.run(["umount", "--lazy", str(where)])


def kept(host: Host) -> str:
    """What a host keeps: the inode and the name of each copy."""
    return host.run(["ls", "-iA", PACKAGE]).stdout


@pytest.mark.parametrize("launcher", REMOTE)
def test_a_host_without_dsrun_is_sent_it_once(site: Cluster, tmp_path: Path, launcher: str) -> None:
    path, n1 = script(tmp_path, TELLS), site.host("n1")
    copies = []
    with without_dsrun(n1), closing(Dsrun(site, tmp_path)) as dsrun:
        for _ in range(2):
            ended = dsrun(*options(launcher), "--host", "n1:1,n2:1", path)
            assert ended.returncode == 0, ended.stderr
            assert sorted(re.findall(r"n\d sees .*", ended.stdout)) == ["n1 sees []", "n2 sees []"]
            copies.append(kept(n1))
    assert re.fullmatch(r"\d+ [0-9a-f]{64}\n", copies[0])
    assert copies[1] == copies[0]


def test_an_older_dsrun_a_cut_copy_and_a_planted_link_are_not_used(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path = script(tmp_path, TELLS)
    n1, n2, n3 = (cluster.host(name) for name in ("n1", "n2", "n3"))
    older = tmp_path / "older"
    shutil.copytree(CHECKOUT / "launcher", older, ignore=shutil.ignore_patterns("__pycache__"))
    text = (older / "__init__.py").read_text()
    (older / "__init__.py").write_text(re.sub('__version__ = ".*"', '__version__ = "0.0.9"', text))
    command = ("--launcher", "ssh", "--host", "n1:1,n2:1,n3:1", path)
    with without_dsrun(n1, n2, n3), bound(n3, older, CHECKOUT / "launcher"):
        assert dsrun(*command).returncode == 0
        before = [kept(host) for host in (n1, n2, n3)]
        assert [len(one.splitlines()) for one in before] == [1] * 3
        (name,) = {one.split()[1] for one in before}
        copy = f"{PACKAGE}/{name}"
        n1.run(["truncate", "--size=100", f"{copy}/launcher/node/run/run.py"])
        n2.run(
            ["sh", "-c", f"mv {copy} {HOME}/.cache/planted && ln -s {HOME}/.cache/planted {copy}"]
        )
        ended = dsrun(*command)
        assert ended.returncode == 0, ended.stderr
        after = [kept(host) for host in (n1, n2, n3)]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, False, True]


def test_a_host_without_room_for_dsrun_is_named(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    n1 = cluster.host("n1")
    with without_dsrun(n1), n1.tmpfs(f"{HOME}/.cache", "16k"), n1.limited("/tmp", "16k"):
        ended = dsrun("--launcher", "ssh", "--host", "n1:1", script(tmp_path, TELLS))
        n1.run(["rm", "-r", "/tmp/dsrun-0"])
    assert ended.returncode == 69
    assert (
        f"n1: no place to store dsrun: {HOME}/.cache/dsrun: No space left on device;"
        " /tmp/dsrun-0: No space left on device; set XDG_CACHE_HOME there"
    ) in ended.stderr


FUNCTION = """
import json, os, sys
from dsrun.launcher.api import launch

def where(n):
    return os.uname().nodename, n

job = launch(where, [7], hosts="n1:1,n2:1", accelerator="cpu", preload=["json"])
print(json.dumps(job.results(600)))
"""


def test_what_the_workers_python_runs_is_in_the_copy(cluster: Cluster, programs: Programs) -> None:
    with without_dsrun(cluster.host("n1")):
        done = programs.start(FUNCTION).wait()
    assert done.returncode == 0, done.stderr
    assert "not preloaded" not in done.stderr
    assert json.loads(done.stdout) == {"0": ["n1", 7], "1": ["n2", 7]}
