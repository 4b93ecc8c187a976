"""How the devices of nodes are used, in the metrics of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.control.job_messages import USAGE, DeviceUsage, Usage
from dsrun.launcher.features.hooks.runner_device_use import DeviceUse

from ...support.questions import asked, reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

GIB = 1 << 30
DEVICES = (
    DeviceUsage(0, "GPU-x", 97, 60 * GIB, 140 * GIB),
    DeviceUsage(1, "GPU-y", None, 0, 140 * GIB),
)


def told(use: DeviceUse) -> dict[tuple[str, str, str], float]:
    """Return the samples by name, host and device."""
    return {
        (one.name, labels["host"], labels["device"]): value
        for one in use.now()
        for labels, value in one.samples
    }


def answer(job: FakeFleet, *names: str, devices: tuple[DeviceUsage, ...] = DEVICES) -> None:
    usage = Usage(1.0, 8, 0.5, 100, 50, (), devices)
    for name in names:
        job.node(name).says(reply(USAGE, usage))
    job.step()


def test_devices_are_told_once_their_nodes_have_answered(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.prepare()
    run.start()
    job.step()
    job.ready(run, accelerator="cuda")
    use = DeviceUse(run.fleet.node_queries)
    for _ in range(2):
        use.ask(run.view().nodes)  # the second time answers are due
    assert told(use) == {}
    answer(job, "n0", "n1")
    known = told(use)
    assert known["device_busy_ratio", "n1", "0"] == 0.97
    assert ("device_busy_ratio", "n1", "1") not in known
    assert known["device_memory_used_bytes", "n0", "0"] == 60 * GIB
    assert known["device_memory_bytes", "n0", "1"] == 140 * GIB
    assert asked(job.news("n0"), USAGE) == [{}]


def test_devices_of_which_nothing_is_known_have_no_metric(fleet_of: FleetOf) -> None:
    """As on a node without NVML's module."""
    job = fleet_of("n0")
    run = job.prepare()
    run.start()
    job.step()
    job.ready(run, accelerator="cuda")
    use = DeviceUse(run.fleet.node_queries)
    use.ask(run.view().nodes)
    answer(job, "n0", devices=(DeviceUsage(0, "GPU-x", None, 0, 0),))
    assert told(use) == {}


def test_nodes_without_such_devices_are_not_asked(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.prepare()
    run.start()
    job.step()
    job.ready(run, accelerator="cpu")
    DeviceUse(run.fleet.node_queries).ask(run.view().nodes)
    job.step()
    assert asked(job.news("n0"), USAGE) == []
