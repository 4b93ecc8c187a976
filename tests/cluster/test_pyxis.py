"""`--container pyxis:IMAGE`: steps of Slurm with a plugin that does what pyxis does."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import NODE_UNUSABLE

from ..support.limits import wait_for
from ..support.needs import need, need_files
from .command import Dsrun
from .contained import WORKER
from .container_root import root_folder
from .reaching import file
from .slurm import CONFIGURATION
from .test_container_clients import AWKWARD, COMMON, VALUE, gone, judge
from .test_containers import LEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hosts import Cluster
    from .slurm import Slurm

PLUGIN = Path(__file__).with_name("spank_container.c")
HEADER = "/usr/include/slurm/spank.h"
PLUGSTACK = f"{CONFIGURATION}/plugstack.conf"


@pytest.fixture(scope="module")
def plugin(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The plugin, which Slurm's commands and each step load."""
    need("gcc")
    need_files(HEADER)
    made = tmp_path_factory.mktemp("plugin") / "spank_container.so"
    gcc = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(made), str(PLUGIN)]
    subprocess.run(gcc, check=True)
    with file(slurm.cluster.path(PLUGSTACK), f"required {made}\n"):
        yield


@pytest.fixture
def launcher() -> str:
    """What `site` has an allocation for."""
    return "slurm"


@pytest.fixture
def folder(tmp_path: Path, plugin: None) -> Path:
    """The folder of a job, whose name is as difficult as a mount of pyxis can be."""
    assert plugin is None
    made = tmp_path / "it's-%h!"
    made.mkdir()
    (made / "t.py").write_text(WORKER)
    return made


@pytest.fixture
def options(tmp_path: Path) -> tuple[str, ...]:
    """The options of a job in a container."""
    image = str(root_folder(tmp_path / "image"))
    return "--launcher", "slurm", "--container", f"pyxis:{image}", *COMMON


def test_workers_run_inside_in_an_allocation_of_their_own(
    slurm: Slurm, folder: Path, options: tuple[str, ...]
) -> None:
    """The options of the plugin are not for salloc, which does not know them."""
    dsrun = Dsrun(slurm.cluster, folder, *options, "--num_nodes", "2", "--num_gpus", "1")
    environ = {"GIVEN": VALUE, "LEAKED": "1", "LD_LIBRARY_PATH": "/host"}
    judge(dsrun("--log_dir", str(folder / "new/logs"), *AWKWARD, env=environ), folder)
    assert [*folder.glob("new/logs/*/rank-0001.out")]
    gone(slurm.cluster)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_end_of_the_runner_is_that_of_the_workers(
    site: Cluster, folder: Path, options: tuple[str, ...], number: int
) -> None:
    job = Dsrun(site, folder, *options, *LEASE).start("--grace", "1", "t.py", "wait")
    wait_for(lambda: job.stdout.count('"rank"') == 2, "both workers")
    job.process.send_signal(number)
    ended = job.wait()
    assert ended.returncode == (-number if number == signal.SIGKILL else 128 + number), ended
    gone(site)


REFUSED = (
    (("--container", "pyxis:/no/image"), "pyxis:/no/image did not start: .*: /no/image$"),
    (("--mount", "/no/such:/x"), "did not start: failed to mount: /no/such at .*/x: No such file"),
    (("--python", "python9"), "did not start: there is no python9 inside"),
)


def test_what_pyxis_refuses_is_said_in_one_line(
    site: Cluster, folder: Path, options: tuple[str, ...]
) -> None:
    dsrun = Dsrun(site, folder, *options)
    for words, why in REFUSED:
        ended = dsrun(*words, "t.py", "0")
        assert ended.returncode == NODE_UNUSABLE, ended
        (line,) = (one for one in ended.stderr.splitlines() if one.startswith("dsrun:   n1, n2: "))
        assert re.search(why, line)
    with file(site.path(PLUGSTACK), ""):
        ended = dsrun("t.py", "0")
    assert "did not start: Slurm has no plugin pyxis on this machine" in ended.stderr, ended
