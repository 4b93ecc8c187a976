"""Reports on a job of roles to other programs; the nodes are played by the test."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dsrun.launcher.specs.policies import HookPolicy

from ...support.fake_roles import FakeRoles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[FakeRoles]:
    """A job that writes its events, a line each, and its metrics."""
    hooks = HookPolicy(str(tmp_path / "m.prom"), f"cat >> {tmp_path}/events", str(tmp_path))
    made = FakeRoles(hooks=hooks, on_failure="restart")
    yield made
    made.close()


def ended(roles: FakeRoles, folder: Path) -> list[dict[str, Any]]:
    """The events of a job that has ended."""
    for close in roles.job.tell_end(roles.job.make_ending()):
        close()
    return [json.loads(line) for line in (folder / "events").read_text().splitlines()]


def samples(folder: Path) -> dict[tuple[str, ...], float]:
    """The samples in the file by name and role."""
    families = text_string_to_metric_families((folder / "m.prom").read_text())
    every = [one for family in families for one in family.samples]
    assert {one.labels["job_id"] for one in every} == {"job"}
    return {(one.name.removeprefix("dsrun_"), one.labels["role"]): one.value for one in every}


def test_events_and_metrics_have_the_name_of_their_role(roles: FakeRoles, tmp_path: Path) -> None:
    roles.run_all()
    roles.fails("server", 3)
    roles.node("n0").exits(1, -signal.SIGTERM, told=True)
    roles.node("n0").done()
    roles.step()
    roles.are_fit("server")
    roles.ends("trainer")
    roles.node("n0").stops(0, 1)
    roles.step()
    told = ended(roles, tmp_path)
    assert [(one["event"], one.get("role")) for one in told] == [
        ("start", "server"),
        ("start", "trainer"),
        ("failure", "server"),
        ("start", "server"),
        ("end", None),
    ]
    assert told[-1]["exit_code"] == 0
    assert told[-1]["report"]["roles"]["server"]["restarts"] == 1
    found = samples(tmp_path)
    assert found["role_restarts_total", "server"] == 1
    assert found["world_size", "trainer"] == 4
    assert found["role_state", "trainer"] == 1


def test_a_job_that_tells_nobody_needs_no_hooks(tmp_path: Path) -> None:
    roles = FakeRoles()
    roles.run_all()
    assert roles.job.tell_end(roles.job.make_ending()) == []
    assert not (tmp_path / "events").exists()
    roles.close()
