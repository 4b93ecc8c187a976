"""dsrun-check on hosts: over each kind of launcher, and on a hold."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..support import schemas
from ..support.limits import wait_for
from .command import CHECKOUT, Running
from .held import Held
from .jobs import options
from .reaching import known, ssh_file
from .test_hosts_unusable import hidden

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from .hosts import Cluster

    Ended: TypeAlias = subprocess.CompletedProcess[str]

CHECK = (sys.executable, str(CHECKOUT / "bin" / "dsrun-check"))
HOSTS = "n1:2,n2:2"
PLACE = "/tmp/checked"
PROGRAMS = {f"--program={name}" for name in ("network", "device", "collective")}
"""What a full check runs on nodes."""


@pytest.fixture
def folders(request: pytest.FixtureRequest) -> Iterator[None]:
    """A working folder of each host's own, in which one file differs."""
    name = "site" if "site" in request.fixturenames else "cluster"
    cluster: Cluster = request.getfixturevalue(name)
    for host, text in (("n1", "LAYERS = 12\n"), ("n2", "LAYERS = 4\n")):
        root = cluster.host(host).root / PLACE[1:]
        root.mkdir()
        (root / "model.py").write_text(text)
    yield
    for host in ("n1", "n2"):
        cluster.host(host).run(["rm", "-rf", PLACE])


def check(cluster: Cluster, folder: Path, *words: str) -> Ended:
    here = () if "--workdir" in words else ("--workdir", PLACE)
    argv = [*CHECK, *here, *words]
    return cluster.login.run(argv, cwd=folder)


def told(done: Ended) -> dict[str, Any]:
    assert done.stderr == ""
    value: dict[str, Any] = json.loads(done.stdout)
    assert schemas.faults("check", value) == []
    assert value["exit_code"] == done.returncode
    return value


def named(ask: Callable[[], Ended]) -> Ended:
    """An answer with the name of the file that differs.

    A node that has no processor for 0.2 s says nothing of its files, and is asked again.
    """
    done: list[Ended] = []

    def is_named() -> bool:
        done.append(ask())
        return "(model.py)" in done[-1].stdout

    wait_for(is_named, "model.py")
    return done[-1]


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("launcher", ["ssh", "openssh", "pdsh", "openmpi5", "mpich4", "slurm"])
def test_what_differs_is_named(site: Cluster, tmp_path: Path, launcher: str) -> None:
    where = (*options(launcher), "--host", HOSTS)
    value = told(named(lambda: check(site, tmp_path, *where, "--json", "--strict")))
    (found,) = [one for one in value["findings"] if one["code"] == "files"]
    assert (value["exit_code"], found["nodes"]) == (69, ["n2"])
    assert found["text"].startswith("*.py files (model.py) are not the same as on n1")
    assert [(one["node"], one["hostname"]) for one in value["nodes"]] == [
        ("n1", "n1"),
        ("n2", "n2"),
    ]


@pytest.mark.usefixtures("folders")
def test_a_hold_is_asked_beside_its_jobs(cluster: Cluster, tmp_path: Path) -> None:
    with Held(cluster, tmp_path, "n1,n2,n3") as held:
        job = held.start("wait.py", str(tmp_path / "done"), "--include", "n1")
        on = ("--on", held.name)
        some = ("--include", "n1@n2", "--compare")
        done = named(lambda: check(cluster, tmp_path, *on, *some))
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0] == "files:"
        assert lines[-1].startswith("warning: n2: ")
        done = check(cluster, tmp_path, *on)
        assert done.returncode == 69
        assert "error: n3: no such folder: /tmp/checked" in done.stdout
        (tmp_path / "done").touch()
        job.kill()


def test_ctrl_c_ends_a_full_check_everywhere(cluster: Cluster, tmp_path: Path) -> None:
    argv = [*CHECK, "--host", HOSTS, "--workdir", "/", "--full"]
    running = Running(cluster.login.popen(argv, cwd=tmp_path, text=False))

    def measuring() -> bool:
        return any(PROGRAMS & {*one.argv} for one in cluster.processes())

    wait_for(measuring, "something to be measured")
    running.process.send_signal(signal.SIGINT)
    done = running.wait()
    assert (done.returncode, done.stdout) == (130, "")
    wait_for(lambda: not measuring(), "the programs to end")


def test_a_fresh_site_is_told_what_to_do_in_order(cluster: Cluster, tmp_path: Path) -> None:
    """What can be seen of a node is told, with the command that mends it, and a first job."""
    (tmp_path / "hosts").write_text("n1\nn2\nn3\nn4\n")
    place = tmp_path / "project"
    place.mkdir()
    where = ("--hostfile", str(tmp_path / "hosts"), "--workdir", str(place))
    with (
        hidden(cluster.host("n1"), str(tmp_path)),
        hidden(cluster.host("n2"), str(Path(sys.executable).parent)),
        cluster.host("n3").sshd(AuthorizedKeysFile="/dev/null"),
        ssh_file(cluster, "known_hosts", known(cluster, "login n1 n2 n3")),
    ):
        done = check(cluster, place, *where)
        value = told(check(cluster, place, *where, "--json"))
    assert done.returncode == 69
    *_, host_key, key, python, folder, last = done.stdout.splitlines()
    assert "run ssh-keyscan n4 >> " in host_key
    assert key.endswith("; run ssh-copy-id root@n3")
    assert f"n2: no Python at {sys.executable} (install it there" in python
    assert f"n1: no such folder: {place} " in folder
    assert folder.endswith("; it is on this machine: add --sync .")
    assert last == f"then: {' '.join(['dsrun', *where, '--sync', '.', 'train.py'])}"
    assert value["first_job"] == last.split()[1:]
    assert len(value["errors"]) == 4
    facts = {one["node"]: one["facts"] for one in value["nodes"]}
    assert facts["n1"]["python"], "the rest of a node without the folder is looked at"


def test_a_script_that_is_nowhere_hides_nothing_else(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    done = check(cluster, tmp_path, "--workdir", str(tmp_path), "--host", "n1,n2", "nothere.py")
    assert done.returncode == 69
    row, first = done.stdout.splitlines()[1], done.stdout.splitlines()[-2]
    assert row.startswith("n1, n2 ")
    assert sys.version.split()[0] in row
    assert row.endswith(" 1 error")
    assert first == (
        "first: correct the name nothere.py (train.py is here), or --sync . if the nodes lack them"
    )


def test_a_host_that_cannot_be_reached_is_said(cluster: Cluster, tmp_path: Path) -> None:
    words = ("--connect_timeout", "15", "--workdir", "/", "--host", "n1,blackhole,n9")
    done = check(cluster, tmp_path, *words, "--json")
    value = told(done)
    states = {one["node"]: (one["state"], one["error"]) for one in value["nodes"]}
    assert value["exit_code"] == 69
    assert states["n1"] == ("ok", None)
    assert states["n9"][0] == states["blackhole"][0] == "not reached"
    assert "does not resolve" in states["n9"][1]
    assert "no answer" in states["blackhole"][1]
    done = check(cluster, tmp_path, "--workdir", "/", "--host", "n1,n9")
    *_, first, then = done.stdout.splitlines()
    assert first.startswith("first: n9: correct the name in --host, ")
    assert then == "then: dsrun-check --workdir / --host n1,n9"
