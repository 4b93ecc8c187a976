"""Bindings as tests write them: a row for each worker."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.cpu_list import format_cpus
from dsrun.launcher.specs.policies import BindingPolicy

from .checkout import IMPORTABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.features.binding.node_plan import BindingPlan, WorkerShare

Row = tuple[str, int, str]
"""The cpus of a worker, the number of its cores, and the rule for its memory."""

CORE = BindingPolicy("core")
SHOW_AFFINITY = "import json, os; print(json.dumps(sorted(os.sched_getaffinity(0))))"
"""What a program runs to show its cpus, as JSON."""


def without(workers: int) -> list[int | None]:
    """So many workers without a device."""
    return [None] * workers


def written(made: BindingPlan) -> list[Row]:
    """A row for each worker of a plan."""
    return [(format_cpus(b.cpus), b.cores, memory(b)) for b in made.bindings]


def memory(binding: WorkerShare) -> str:
    """The rule for a worker's memory."""
    return f"{binding.policy} {format_cpus(binding.memory)}" if binding.policy else ""


def run(argv: Sequence[str], **environ: str) -> str:
    """What a program prints, which can import this checkout, with these variables besides ours."""
    env = {**os.environ, **IMPORTABLE, **environ}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def numactl(tmp_path: Path) -> str:
    """A shell by the name of numactl: what runs in it is on its way, as far as one can see."""
    return str(shutil.copy(Path("/bin/sh").resolve(), tmp_path / "numactl"))
