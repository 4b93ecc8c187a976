"""What is said while preloaded modules are still being imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.head.run.run_start import PRELOAD_PATIENCE as PATIENCE
from dsrun.launcher.specs.policies import WorkerPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

PRELOADING = WorkerPolicy(preload=("torch", "torch._dynamo"))


def about_imports(job: FakeFleet) -> list[str]:
    return [line for line in job.said("info") if "import" in line]


def test_a_node_that_still_imports_is_named(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run(workers=PRELOADING)
    job.ready(run)
    job.up("n1", 2, 3)
    job.go(PATIENCE - 0.1)
    assert about_imports(job) == []
    job.go(0.2)
    line = "waiting for n0, n2 to import torch, torch._dynamo (--preload)"
    assert about_imports(job) == [line]


def test_workers_that_run_are_not_waited_for(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.run(workers=PRELOADING)
    job.ready(run)
    job.up("n0", 0, 1)
    job.go(2 * PATIENCE)
    assert about_imports(job) == []


def test_without_preloaded_modules_nothing_is_waited_for(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.ready(job.run())
    job.go(2 * PATIENCE)
    assert about_imports(job) == []
