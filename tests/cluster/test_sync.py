"""`--sync` on real hosts: a folder that only the login has, and what becomes of its copies."""

from __future__ import annotations

import os
import re
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from .cable import slow_card
from .held import Held
from .jobs import options
from .machines import HOME
from .test_package import without_dsrun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .command import Dsrun
    from .hosts import Cluster

CPU = ("--accelerator", "cpu", "--no_local_rank")
HOSTS = ("--host", "n1:1,n2:1,n3:1,n4:1", *CPU, "--log_level", "debug")

WORKER = """
import os, signal, sys, time
rank, host = os.environ["RANK"], os.uname().nodename
seen = ",".join(sorted(name for name in os.listdir(".") if not name.startswith("ckpt")))
kept = ",".join(sorted(name for name in os.listdir(".") if name.startswith("ckpt")))
with open("value.txt") as file:
    value = file.read()
for name in sys.argv[1:2]:
    with open(f"ckpt-{name}-{rank}", "w") as file:
        file.write(value)
print(f"up {host} [{value}] [{seen}] [{kept}] {os.getcwd()}", flush=True)
while len(sys.argv) > 2 and not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
"""


@pytest.fixture
def apart(cluster: Cluster) -> Iterator[None]:
    """Give each host a cache of its own: the home is the same on all hosts."""
    with ExitStack() as disks:
        for host in cluster.hosts:
            disks.enter_context(host.tmpfs(f"{HOME}/.cache", "64m"))
        yield


@pytest.fixture
def folder(cluster: Cluster, apart: None) -> Iterator[Path]:
    """A folder that is at the login alone, as the real machine sees it."""
    assert apart is None
    name = f"proj-{os.urandom(4).hex()}"
    folder = cluster.login.root / "tmp" / name
    folder.mkdir()
    (folder / "train.py").write_text(WORKER)
    (folder / "value.txt").write_text("one")
    yield folder
    shutil.rmtree(folder)


def _there(folder: Path) -> str:
    """The folder's path at the login."""
    return f"/tmp/{folder.name}"


def _copy(cluster: Cluster, host: str, folder: Path, suffix: str = "") -> Path:
    """The copy of a folder on a host, as the real machine sees it."""
    root = cluster.host(host).root / HOME[1:] / ".cache/dsrun/sync"
    (found,) = root.glob(f"{folder.name}-????????????{suffix}")
    return found / folder.name


def _up(text: str) -> dict[str, tuple[str, str, str]]:
    """What workers say that they see, by host: the value, the files and what earlier jobs kept."""
    found = re.findall(r"up (\w+) \[(.*?)\] \[(.*?)\] \[(.*?)\] /", text)
    return {host: (value, seen, kept) for host, value, seen, kept in found}


@pytest.mark.tier("test")
def test_nodes_get_what_has_changed_and_keep_what_jobs_write(
    dsrun: Dsrun, cluster: Cluster, folder: Path
) -> None:
    words = (*HOSTS, "--sync", ".", "train.py")
    (folder / "notes.log").write_text("x")
    (folder / ".gitignore").write_text("*.log\nckpt*\n")
    first = dsrun(*words, "a", cwd=_there(folder))
    assert first.returncode == 0, first.stderr
    seen = ".gitignore,train.py,value.txt"
    assert _up(first.stdout) == {f"n{at}": ("one", seen, "") for at in range(1, 5)}
    assert len(re.findall(r"n\d: copying 3 files", first.stderr)) == 4

    (folder / "value.txt").write_text("two")
    (folder / "more.py").write_text("")
    second = dsrun(*words, "b", cwd=_there(folder))
    seen = ".gitignore,more.py,train.py,value.txt"
    assert _up(second.stdout) == {f"n{at}": ("two", seen, f"ckpt-a-{at - 1}") for at in range(1, 5)}
    assert len(re.findall(r"n\d: copying 2 files, 3 bytes", second.stderr)) == 4

    third = dsrun(*words, cwd=_there(folder))
    assert "copying" not in third.stderr
    (_copy(cluster, "n3", folder) / "value.txt").write_text("a job's")
    (folder / "value.txt").write_text("three")
    refused = dsrun(*words, cwd=_there(folder))
    assert refused.returncode == 69
    assert re.search(
        r"n3: --sync: a run wrote or changed 1 file that now differs in this folder:"
        rf" value\.txt; move them out of {HOME}/\.cache/dsrun/sync/\S+ there, or name them in"
        r" \.dsrunignore",
        refused.stderr,
    ), refused.stderr
    assert (_copy(cluster, "n3", folder) / "value.txt").read_text() == "a job's"


@pytest.mark.parametrize("launcher", ["pdsh", "openmpi5"])
def test_every_launcher_brings_the_folder_to_hosts_without_dsrun(
    cluster: Cluster, dsrun: Dsrun, folder: Path, launcher: str, tmp_path: Path
) -> None:
    where = (*options(launcher), "--host", "n1:1,n2:1", *CPU)
    with without_dsrun(*cluster.hosts[:2]):
        done = dsrun(*where, "--sync", ".", "train.py", cwd=_there(folder))
    assert done.returncode == 0, done.stderr
    assert _up(done.stdout) == {f"n{at}": ("one", "train.py,value.txt", "") for at in (1, 2)}
    shared = fill_shared(tmp_path)
    done = dsrun(*where, "--log_level", "debug", "--sync", ".", "train.py", cwd=shared)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"n\d: shares the --sync folder", done.stderr)) == 2
    assert sorted(path.name for path in shared.iterdir()) == ["train.py", "value.txt"]


def fill_shared(tmp_path: Path) -> Path:
    """Make the same folder where all hosts see it."""
    (tmp_path / "train.py").write_text(WORKER)
    (tmp_path / "value.txt").write_text("one")
    return tmp_path


def test_a_job_with_other_contents_beside_one_that_runs(
    cluster: Cluster, folder: Path, tmp_path: Path
) -> None:
    end = str(tmp_path / "end")
    hosts = "n1:2,n2:2"
    with Held(cluster, tmp_path, hosts) as held:
        first, second = (("--include", f"n1:{slot}@n2:{slot}") for slot in (0, 1))
        words = ("--sync", ".", "--accelerator", "cpu", "train.py")
        running = held.start(*first, *words, "a", end, cwd=_there(folder))
        running.wait_for_output(r"(?s)(up .*){2}")
        (folder / "value.txt").write_text("two")
        other = held(*second, *words, "b", cwd=_there(folder))
        assert other.returncode == 0, other.stderr
        assert _up(other.stdout) == {f"n{at}": ("two", "train.py,value.txt", "") for at in (1, 2)}
        assert other.stderr.count("another job is running in the copy of the --sync folder") == 1
        assert (_copy(cluster, "n1", folder) / "value.txt").read_text() == "one"
        Path(end).touch()
        assert running.wait().returncode == 0, running.stderr
        after = held(*first, *words, cwd=_there(folder))
        assert {value for value, _, _ in _up(after.stdout).values()} == {"two"}
        assert _up(after.stdout)["n2"][2] == "ckpt-a-1"
        held.release()


def test_a_transfer_that_is_cut_off_is_done_again(
    dsrun: Dsrun, cluster: Cluster, folder: Path
) -> None:
    (folder / "large").write_bytes(os.urandom(1 << 20) * 24)
    words = ("--host", "n1:1", *CPU, "--sync", ".", "train.py")
    cache = cluster.host("n1").root / HOME[1:] / ".cache/dsrun/sync"
    with slow_card(cluster, "n1", "10mbit"):
        running = dsrun.start(*words, cwd=_there(folder))
        wait_for(lambda: any(cache.glob("*/.incoming/*")), "the first bytes")
        running.process.send_signal(signal.SIGKILL)
        running.wait()
    copy = _copy(cluster, "n1", folder)
    assert not (copy / "value.txt").exists(), "nothing is placed before everything is there"
    done = dsrun(*words, cwd=_there(folder))
    assert done.returncode == 0, done.stderr
    assert (copy / "large").read_bytes() == (folder / "large").read_bytes()


def test_a_node_that_joins_later_gets_the_folder(
    dsrun: Dsrun, cluster: Cluster, folder: Path, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("n1 slots=1\n")
    end = tmp_path / "end"
    limits = ("--min_elastic_nodes", "1", "--max_elastic_nodes", "2", "--gain_delay", "0")
    running = dsrun.start(
        *("--hostfile", str(hosts), "--watch_hostfile", "--elastic_training", *limits),
        *("--grace", "1", *CPU, "--sync", ".", "train.py", "a", str(end)),
        cwd=_there(folder),
    )
    running.wait_for_output(r"up n1 \[one\]")
    hosts.write_text("n1 slots=1\nn2 slots=1\n")
    running.wait_for_output(r"up n2 \[one\]")
    assert (_copy(cluster, "n2", folder) / "train.py").read_text() == WORKER
    end.touch()
    assert running.wait().returncode == 0, running.stderr


def test_a_folder_that_is_too_large_is_refused_before_anything_starts(
    dsrun: Dsrun, folder: Path
) -> None:
    (folder / "data").mkdir()
    (folder / "data/x").write_text("x" * 3000)
    where = ("--host", "n1:1", "--sync", ".", "--sync_limit", "2kB")
    for words in ((), ("--dry_run",)):
        refused = dsrun(*where, *words, "train.py", cwd=_there(folder))
        assert refused.returncode == 2
        assert "--sync_limit is 2 kB; the largest: data (3 kB), train.py (" in refused.stderr
