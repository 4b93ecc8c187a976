"""The quick check on hosts with real faults: each is named, and healthy hosts are not."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.quick_check.runner_findings import TABLE

from ..support.limits import wait_for
from ..support.needs import need
from .quota import throttled
from .reaching import UNUSABLE, file

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from .command import Dsrun
    from .hosts import Cluster

    Ended: TypeAlias = subprocess.CompletedProcess[str]

HOSTS = ("n1", "n2", "n3", "n4")
PLACE = "/tmp/own"
SHORT = f"{sys.version_info.major}.{sys.version_info.minor}"
TORCH = f"venv/lib/python{SHORT}/site-packages/torch-2.4.0.dist-info/METADATA"
MIB = 1 << 20

FILES = {
    "job/train.py": "import os\nprint('here is', os.uname().nodename)\n",
    "job/model.py": "LAYERS = 12\n",
    "venv/pyvenv.cfg": f"home = {Path(sys.executable).resolve().parent}\nversion = {SHORT}.0\n",
    TORCH: "Name: torch\n",
}
"""What every host has to itself, below `PLACE`."""

OTHER_PYTHON = f"""#!/bin/sh
exec {sys.executable} "$@"
"""

OPTIONS = (
    *("--host", "n[1-4]:1", "--workdir", f"{PLACE}/job", "--python", f"{PLACE}/venv/bin/python3"),
    *("--no_local_rank", "--log_dir", f"{PLACE}/logs", "--tee", "3"),
)


@pytest.fixture
def own(cluster: Cluster) -> Iterator[dict[str, Path]]:
    """A folder of each host's own, with the code and the Python of a job: its root by name."""
    roots = {name: cluster.host(name).root / PLACE[1:] for name in HOSTS}
    for root in roots.values():
        for name, text in FILES.items():
            write(root / name, text)
        (root / "venv/bin").mkdir()
        (root / "venv/bin/python3").symlink_to(sys.executable)
        (root / "logs").mkdir()
    yield roots
    for name in HOSTS:
        cluster.host(name).run(["rm", "-rf", PLACE])


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def findings(stderr: str) -> set[str]:
    """The findings of a run, without what to do about them."""
    lines = [line.partition("check: ")[2] for line in stderr.splitlines() if "check: " in line]
    advices = [f"; {rule.advice}" for rule in TABLE.values()]
    return {next(line.removesuffix(a) for a in advices if line.endswith(a)) for line in lines}


def named(names: str, run: Callable[[], Ended]) -> Ended:
    """How a run ends that says which files of n3 are others.

    A node that has no processor for 0.2 s says nothing of its files, and which they are is said
    only if the nodes tell that within 3 s: after a run where that was so, there is another one.
    """
    odd = re.compile(rf"n\d: \*\.py files( {re.escape(names)})? are not the same as on n\d(, n\d)*")
    done: list[Ended] = []

    def is_said() -> bool:
        done.append(run())
        said = [one for one in findings(done[-1].stderr) if "*.py" in one]
        assert all(map(odd.fullmatch, said)), said
        return said == [f"n3: *.py files {names} are not the same as on n1, n2, n4"]

    wait_for(is_said, names)
    return done[-1]


@pytest.mark.tier("test")
def test_each_fault_is_named_and_nothing_else(
    cluster: Cluster, dsrun: Dsrun, own: dict[str, Path]
) -> None:
    need("faketime")
    (clock,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    shell = f"""case $HOSTNAME in
n2) ulimit -Sn 512; export LD_PRELOAD={clock} FAKETIME=-2h FAKETIME_DONT_FAKE_MONOTONIC=1;;
n3) export NCCL_ALGO=Ring;;
esac
"""
    healthy = dsrun(*OPTIONS, "train.py")
    assert (healthy.returncode, findings(healthy.stderr)) == (0, set())
    write(own["n3"] / "job/model.py", "LAYERS = 1\n")
    write(own["n3"] / "job/extra.py", "")
    (own["n4"] / "venv/bin/python3").unlink()
    write(own["n4"] / "venv/bin/python3", OTHER_PYTHON)
    (own["n4"] / "venv/bin/python3").chmod(0o755)
    write(own["n4"] / "venv/pyvenv.cfg", "version = 3.9.18\n")
    write(own["n4"] / TORCH.replace(SHORT, "3.9"), "Name: torch\n")
    with ExitStack() as faults:
        faults.enter_context(file(cluster.path("/run/home/.bashrc"), shell))
        # libfaketime leaves files in /dev/shm, which go with this one.
        faults.enter_context(cluster.host("n2").tmpfs("/dev/shm", "1g"))
        faults.enter_context(cluster.host("n3").tmpfs("/dev/shm", "32m"))

        def run() -> Ended:
            with cluster.host("n4").tmpfs(f"{PLACE}/logs", "40m"):
                (own["n4"] / "logs/big").write_bytes(bytes(38 * MIB))
                return dsrun(*OPTIONS, "train.py")

        ended = named("(extra.py, model.py)", run)
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == len(HOSTS)
    assert findings(ended.stderr) == {
        "n2: the clock is 2.0 h behind the others",
        "n2: the limit of open files is 512, but 20,000 on most nodes",
        f"n2: LD_PRELOAD {clock}, but none on n1, n3, n4",
        "n3: NCCL_ALGO Ring, but none on n1, n2, n4",
        "n3: *.py files (extra.py, model.py) are not the same as on n1, n2, n4",
        "n3: /dev/shm: 32 MiB of 32 MiB free; 1 worker needs about 64 MiB there",
        f"n4: {PLACE}/logs: 2 MiB of 40 MiB free",
        f"n4: Python 3.9, but {SHORT} on n[1-3]",
    }


def test_what_ruins_a_job_ends_the_start_or_is_left_out(
    cluster: Cluster, dsrun: Dsrun, own: dict[str, Path]
) -> None:
    torch = (own["n2"] / TORCH).parent
    torch.rename(torch.with_name("torch-2.3.1.dist-info"))
    write(own["n3"] / "job/train.py", FILES["job/train.py"].replace("here", "HERE"))
    with cluster.host("n4").tmpfs("/dev/shm", "1m"):
        (cluster.host("n4").root / "dev/shm/full").write_bytes(bytes(MIB))
        refused = dsrun(*OPTIONS, "train.py")
        elastic = dsrun(*OPTIONS, "--min_elastic_nodes", "1", "train.py")
    assert (refused.returncode, refused.stdout) == (UNUSABLE, "")
    assert findings(refused.stderr) == {
        "n2: torch 2.3, but 2.4 on n1, n3, n4",
        "n3: the script is not the same as on n1, n2, n4",
        "n4: /dev/shm: 0 bytes of 1 MiB free",
    }
    assert elastic.returncode == 0, elastic.stderr
    assert elastic.stdout == "n1:0| here is n1\n"
    assert "starting without them" in elastic.stderr


def test_warnings_can_be_errors_and_the_check_be_left_out(
    dsrun: Dsrun, own: dict[str, Path]
) -> None:
    write(own["n3"] / "job/extra.py", "")
    strict = named("(extra.py)", lambda: dsrun(*OPTIONS, "--strict", "train.py"))
    assert strict.returncode == UNUSABLE
    assert findings(strict.stderr) == {
        "n3: *.py files (extra.py) are not the same as on n1, n2, n4"
    }
    without = dsrun(*OPTIONS, "--no_check", "train.py")
    assert (without.returncode, findings(without.stderr)) == (0, set())


@pytest.mark.usefixtures("own")
def test_a_host_with_another_mtu_and_one_with_half_of_the_cpus(
    cluster: Cluster, dsrun: Dsrun
) -> None:
    half = max(1, len(os.sched_getaffinity(0)) // 2)
    few = ",".join(map(str, sorted(os.sched_getaffinity(0))[:half]))
    shell = f"case $HOSTNAME in n3) taskset -p -c {few} $$ >/dev/null;; esac\n"
    host = cluster.host("n2")
    with file(cluster.path("/run/home/.bashrc"), shell), ExitStack() as after:
        host.run(["ip", "link", "set", "eth0", "mtu", "1300"]).check_returncode()
        after.callback(host.run, ["ip", "link", "set", "eth0", "mtu", "1500"])
        ended = dsrun(*OPTIONS, "train.py")
    assert ended.returncode == 0, ended.stderr
    found = findings(ended.stderr)
    assert "n2: the MTU of eth0 is 1300, but 1500 on n1, n3, n4" in found
    assert [one for one in found if "CPU" in one and "but" in one and one.startswith("n3: ")]
    assert len(found) == 2


@pytest.mark.usefixtures("own")
def test_a_quota_of_one_host(cluster: Cluster, dsrun: Dsrun) -> None:
    every = len(os.sched_getaffinity(0))
    with throttled(cluster, "n4", every / 4):
        ended = dsrun(*OPTIONS, "train.py")
    assert ended.returncode == 0, ended.stderr
    assert findings(ended.stderr) == {f"n4: {every / 4:g} CPUs, but {every} on most nodes"}
