"""The recipes of docs/recipes.md that need hosts, run as the page has them.

Only the names of the page's machines are replaced: in the ssh configuration, or by what they mean
on a host.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from ..support.checkout import CHECKOUT
from ..support.desk import environment, lay_out
from ..support.limits import HANG
from ..support.needs import need_modules
from ..support.recipes import recipe
from .machines import HOME
from .reaching import known, ssh_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ..support.recipes import Recipe
    from .hosts import Cluster
    from .slurm import Slurm

pytestmark = pytest.mark.tier("all")


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder that looks like a checkout, and that all hosts see."""
    need_modules("torch")
    return lay_out(tmp_path)


@pytest.fixture
def at_home(cluster: Cluster) -> Iterator[str]:
    """The path of a folder with the examples that is at the login alone."""
    name = f"home-{os.urandom(4).hex()}"
    folder = cluster.login.root / "tmp" / name
    shutil.copytree(CHECKOUT / "examples", folder / "examples")
    yield f"/tmp/{name}"
    shutil.rmtree(folder)


def replaced(text: str, words: Mapping[str, str]) -> str:
    """Replace each of these words, which the text must have."""
    for word, other in words.items():
        assert word in text
        text = text.replace(word, other)
    return text


def run(cluster: Cluster, recipe: Recipe, desk: Path, cwd: str | Path) -> None:
    """Run the command of a recipe at the login; it must succeed, and print what the page shows."""
    command = ["sh", "-ec", recipe.one("sh")]
    ran = cluster.login.run(command, env=environment(desk), cwd=cwd, timeout=HANG)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert recipe.not_in(ran.stdout) == [], ran.stdout


def test_two_machines_at_home(cluster: Cluster, desk: Path, at_home: str) -> None:
    page = recipe("Two machines at home")
    config = replaced(page.one("ssh-config"), {"192.168.1.20": "n2\n  HostKeyAlias n2"})
    with cluster.host("n2").tmpfs(f"{HOME}/.cache", "64m"), ssh_file(cluster, "config", config):
        run(cluster, page, desk, at_home)


def test_a_jump_host(cluster: Cluster, desk: Path) -> None:
    page = recipe("Jump host")
    config = replaced(page.one("ssh-config"), {"gate.example.org": "n1", "User me": "User root"})
    (desk / "hosts").write_text(page.one("hostfile"))
    behind = {f"gpu-{number}": cluster.host(f"n{number + 1}") for number in (1, 2)}
    keys = [f"{name} {host.known_as().partition(' ')[2]}\n" for name, host in behind.items()]
    names = {name: host.address for name, host in behind.items()}
    with ExitStack() as stack:
        # Nobody else knows the names of the nodes, not even the nodes.
        stack.enter_context(cluster.host("n1").names(names))
        stack.enter_context(ssh_file(cluster, "config", config))
        known_hosts = "".join([known(cluster, "n1"), *keys])
        stack.enter_context(ssh_file(cluster, "known_hosts", known_hosts))
        run(cluster, page, desk, desk)


def test_slurm(slurm: Slurm, desk: Path) -> None:
    page = recipe("Slurm")
    (desk / "train.sbatch").write_text(page.one("sbatch"))
    # The GPUs of this Slurm are numbers without a device.
    env = environment(desk, DSRUN_ACCELERATOR="cuda")
    submitted = slurm.run("sh", "-ec", page.one("sh"), env=env, cwd=desk)
    job = int(submitted.stdout.split()[-1])
    ended = slurm.wait(job)
    printed = (desk / f"train-{job}.log").read_text()
    assert ended.code == 0, printed
    assert page.not_in(printed) == [], printed
