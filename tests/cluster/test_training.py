"""The main job: a real model trained across real hosts, however they are reached."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .command import CHECKOUT, COMMAND
from .jobs import EVERYWHERE, options
from .paused import paused
from .rounds import node_launcher

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun
    from .hosts import Cluster
    from .slurm import Slurm

pytestmark = pytest.mark.usefixtures("torch_is_here")

EXAMPLE = str(CHECKOUT / "examples" / "train_ddp.py")
SHORT = ("--batch", "48", "--steps", "12", "--log_every", "1")
TIMEOUT = 180.0
UNEVEN = "n1 slots=2\nn2 slots=2\nn3 slots=1\nn4 slots=1\n"

Losses = dict[int, float]


OTHERS = [
    pytest.param(name, marks=pytest.mark.tier("all"))
    for name in EVERYWHERE
    if name not in {"local", "ssh"}
]
"""What is trained does not depend on them; other tests start jobs with each."""


@pytest.fixture(scope="module")
def alone() -> Losses:
    """The losses of one process, to which any number of ranks comes close."""
    words = [sys.executable, EXAMPLE, *SHORT]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, timeout=TIMEOUT)
    return losses(ran.stdout, label="")


@pytest.fixture(scope="module")
def uneven() -> dict[str, Losses]:
    """The losses of the first launcher with five ranks: the others have the very same."""
    return {}


def cache(folder: Path) -> tuple[str, str]:
    """Where torch puts what it would leave in every host's /tmp."""
    return ("--export", f"TORCHINDUCTOR_CACHE_DIR={folder}/inductor")


def losses(output: str, label: str = r"n1:0\| ") -> Losses:
    """The loss of each step, as rank 0 prints it."""
    found = re.findall(rf"^{label}step +(\d+) +loss ([\d.]+)$", output, re.MULTILINE)
    return {int(step): float(loss) for step, loss in found}


@pytest.mark.tier("test")
@pytest.mark.parametrize("launcher", ["ssh", *OTHERS])
def test_four_uneven_hosts_train_one_model(
    launcher: str, dsrun: Dsrun, tmp_path: Path, alone: Losses, uneven: dict[str, Losses]
) -> None:
    (tmp_path / "hosts").write_text(UNEVEN)
    chosen = ("--hostfile", "hosts", *options(launcher), "--exclude", "n2:1")
    ran = dsrun(*chosen, *cache(tmp_path), "--bind_cores_to_rank", EXAMPLE, *SHORT, timeout=TIMEOUT)
    assert ran.returncode == 0, ran.stderr
    assert "world size 5, gloo" in ran.stdout
    trained = losses(ran.stdout)
    assert list(trained) == list(range(1, 13))
    assert trained[12] < trained[1] - 1.0
    assert trained == pytest.approx(alone, abs=1e-4)
    assert trained == uneven.setdefault("losses", trained)


@pytest.mark.tier("all")
def test_slurm_trains_the_same(
    slurm: Slurm, tmp_path: Path, alone: Losses, uneven: dict[str, Losses]
) -> None:
    (tmp_path / "hosts").write_text(UNEVEN)
    words = [*COMMAND, "--hostfile", "hosts", "--exclude", "n2:1", *cache(tmp_path), EXAMPLE]
    job = slurm.sbatch(shlex.join([*words, *SHORT]), "--nodes=4", f"--chdir={tmp_path}")
    ended = slurm.wait(job, TIMEOUT)
    assert ended.code == 0, ended.output
    assert "world size 5, gloo" in ended.output
    trained = losses(ended.output)
    assert trained == pytest.approx(alone, abs=1e-4)
    assert trained == uneven.setdefault("losses", trained)


@pytest.mark.tier("all")
def test_fewer_hosts_chosen_by_include_train_the_same(
    dsrun: Dsrun, tmp_path: Path, alone: Losses
) -> None:
    (tmp_path / "hosts").write_text(UNEVEN)
    chosen = ("--hostfile", "hosts", "--include", "n[1,3-4]:0")
    ran = dsrun(*chosen, *cache(tmp_path), EXAMPLE, *SHORT, timeout=TIMEOUT)
    assert ran.returncode == 0, ran.stderr
    assert "world size 3, gloo" in ran.stdout
    assert losses(ran.stdout) == pytest.approx(alone, abs=1e-4)


@pytest.mark.tier("all")
def test_a_job_that_was_interrupted_goes_on_from_its_checkpoint(
    dsrun: Dsrun, tmp_path: Path, alone: Losses
) -> None:
    chosen = ("--host", "n1:1,n2:1", "--grace", "60", "--graceful_term_ok", *cache(tmp_path))
    save = ("--checkpoint", str(tmp_path / "model.pt"))
    running = dsrun.start(*chosen, paused(tmp_path, EXAMPLE, 3), *SHORT, *save)
    running.wait_for_output(r"step +3 ", timeout=TIMEOUT)
    running.process.terminate()
    assert running.wait(TIMEOUT).returncode == 0
    ran = dsrun(*chosen, EXAMPLE, *SHORT, *save, timeout=TIMEOUT)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"gloo, [34] steps done before", ran.stdout)
    both = losses(running.stdout) | losses(ran.stdout)
    assert both == pytest.approx(alone, abs=1e-4)


@pytest.mark.tier("all")
def test_a_change_of_nodes_costs_nothing(dsrun: Dsrun, tmp_path: Path, alone: Losses) -> None:
    """Workers that save and end well when they are told to stop are not taken to be done."""
    hosts = tmp_path / "hosts"
    hosts.write_text("n1 slots=1\nn2 slots=1\n")
    watched = ("-H", str(hosts), "--watch_hostfile", "--elastic_training", *cache(tmp_path))
    save = ("--checkpoint", str(tmp_path / "model.pt"))
    running = dsrun.start(*watched, paused(tmp_path, EXAMPLE, 3), *SHORT, *save)
    running.wait_for_output(r"step +3 ", timeout=TIMEOUT)
    fewer = tmp_path / "fewer"
    fewer.write_text("n1 slots=1\n")
    fewer.rename(hosts)
    running.wait_for_output(r"world size 1, gloo, [1-9]\d* steps done before", timeout=TIMEOUT)
    ran = running.wait(TIMEOUT)
    assert (ran.returncode, "final loss" in ran.stdout) == (0, True), str(running)
    trained = losses(ran.stdout)
    assert list(trained) == list(range(1, 13))
    assert trained == pytest.approx(alone, abs=1e-4)


@pytest.mark.parametrize("lost", [pytest.param("rank", marks=pytest.mark.tier("all")), "node"])
def test_a_loss_costs_no_more_than_the_steps_since_the_checkpoint(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, alone: Losses, lost: str
) -> None:
    elastic = ("--host", "n1:1,n2:1", "--elastic_training", "--max_restarts", "1")
    save = ("--checkpoint", str(tmp_path / "model.pt"), "--checkpoint_every", "1")
    example = paused(tmp_path, EXAMPLE, 3)
    running = dsrun.start(*elastic, *cache(tmp_path), example, *SHORT, *save)
    running.wait_for_output(r"step +3 ", timeout=TIMEOUT)
    (worker,) = [p.pid for p in cluster.processes() if p.host == "n2" and example in p.argv]
    os.kill(worker if lost == "rank" else node_launcher(cluster, "n2"), signal.SIGKILL)
    ran = running.wait(TIMEOUT)
    assert ran.returncode == 0, ran.stderr
    # A lost node may be back before rank 0 has ended, and then the next round has it again.
    size = "2" if lost == "rank" else "[12]"
    assert re.search(rf"world size {size}, gloo, [1-9]\d* steps done before", ran.stdout)
    assert losses(ran.stdout) == pytest.approx(alone, abs=1e-4)
