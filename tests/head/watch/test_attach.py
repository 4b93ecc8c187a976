"""Which watches and hooks a run has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.head.watch import attach
from dsrun.launcher.specs.policies import HookPolicy, WatchPolicy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


@pytest.mark.parametrize(
    ("watch", "chosen"),
    [
        (WatchPolicy(hang_timeout=0.0), []),
        (WatchPolicy(), [attach.hang]),
        (WatchPolicy(hang_timeout=0.0, fruitless_rounds=2, slow=True), [attach.rules, attach.slow]),
    ],
)
def test_what_applies_is_chosen(
    fleet_of: FleetOf, watch: WatchPolicy, chosen: list[object]
) -> None:
    spec = fleet_of("n0").prepare(watch=watch).spec
    assert [watch for applies, watch in attach.WATCHES if applies(spec)] == chosen
    assert [hook for applies, hook in attach.HOOKS if applies(spec)] == []


def test_a_hook_is_waited_for(fleet_of: FleetOf, tmp_path: Path) -> None:
    path = tmp_path / "m.prom"
    job = fleet_of("n0")
    (close,) = attach.attach(job.prepare(hooks=HookPolicy(str(path))))
    job.step()
    close()
    assert "dsrun_job_info" in path.read_text()
