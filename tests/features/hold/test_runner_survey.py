"""What held nodes are: all checks of a start, and no start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.detached.runner_console import DetachedConsole
from dsrun.launcher.features.hold.runner import HoldPhase
from dsrun.launcher.features.hold.runner_survey import Survey, SurveyedNode
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan

from ...support.fake_hold import CHECK

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet
    from ...support.fake_hold import FakeHold


def test_nodes_are_asked_and_not_started(fleet_of: Callable[..., FakeFleet]) -> None:
    """Slots that were not known are counted; heartbeats are expected from then on."""
    job = fleet_of(Host("n0", (3,)), Host("n1"))
    over: list[bool] = []
    spec = JobSpec("hold", Plan(job.plan, CHECK, "ssh", None, None), "/", held=True)
    muted = DetachedConsole(None, "critical", lambda _: None)
    survey = Survey(spec, job.fleet, muted, lambda: over.append(True))
    survey.start()
    job.step()
    ((kind, task),) = job.news("n1")
    assert (kind, task["held"], task["workdir"]) == ("JOB", True, "/")
    job.ready()
    assert over == [True]
    assert survey.error is None
    assert survey.facts == {
        "n0": SurveyedNode((3,), "cuda"),
        "n1": SurveyedNode((0, 1), "cuda"),
    }
    assert job.kinds("n0") == ["JOB", "STOP"]
    assert job.kinds("n1") == ["PROBE", "STOP"]
    assert all(node.beats and node.on_event is None for node in job.fleet.nodes.values())
    assert job.said() == [], "a muted survey says nothing"


def test_a_node_that_cannot_take_part_is_the_error(hold_of: Callable[..., FakeHold]) -> None:
    fake = hold_of("n0", "n1")
    fake.job.node("n0").hello(port=29500)
    fake.job.node("n1").hello(problems=("no such folder",))
    fake.job.step()
    assert fake.hold.phase is HoldPhase.ENDING
    assert "n1: no such folder" in str(fake.hold.error)
    assert fake.job.kinds("n0") == ["JOB", "STOP"]
