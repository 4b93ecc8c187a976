"""Ending what a job has left on nodes: outcomes, and nodes that give none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.backends.events import SessionEnded
from dsrun.launcher.control.job_messages import END_JOB, EndedJob, EndJob
from dsrun.launcher.features.jobs.runner_end import MARGIN, JobEnd

from ...support.questions import asked, reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

ORDER = EndJob("job", 15, 3.0)
NOTHING = EndedJob((), ())


def begun(fleet: FakeFleet) -> JobEnd:
    end = JobEnd(fleet.fleet, ORDER, 20.0)
    fleet.connect()
    return end


def answer(fleet: FakeFleet, name: str, outcome: EndedJob = NOTHING) -> None:
    fleet.node(name).says(reply(END_JOB, outcome, int(name[1:]) + 1))
    fleet.step()


def test_every_node_that_connects_is_told(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1", connect=False)
    end = begun(fleet)
    asks = [asked(fleet.news(name), END_JOB) for name in ("n0", "n1")]
    assert asks == [[ORDER._asdict()], [ORDER._asdict()]]
    some = EndedJob(("pid 7",), ("pid 8",))
    answer(fleet, "n0", some)
    answer(fleet, "n1")
    end.wait()
    assert (end.outcomes, end.unreached) == ({"n0": some, "n1": NOTHING}, {})


def test_a_node_that_cannot_be_reached_is_named_with_the_cause(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1", connect=False)
    fleet.backend.absent = {"n1"}
    end = begun(fleet)
    fleet.emit(SessionEnded(1, "no route to host"))
    answer(fleet, "n0")
    end.wait()
    assert (list(end.outcomes), end.unreached) == (["n0"], {"n1": "no route to host"})


def test_a_node_that_leaves_without_an_answer_is_named(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", connect=False)
    end = begun(fleet)
    fleet.node("n0").leaves()
    fleet.step()
    end.wait()
    assert list(end.unreached) == ["n0"]
    assert "disconnected" in end.unreached["n0"]


def test_a_node_that_never_connects_or_never_answers_is_given_up(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1", connect=False)
    fleet.backend.absent = {"n1"}
    end = begun(fleet)
    fleet.go(20.5)
    assert end.unreached == {"n1": "no answer"}
    fleet.go(ORDER.grace + MARGIN)
    end.wait()
    assert end.unreached == {"n0": "no answer", "n1": "no answer"}


def test_it_waits_until_the_last_has_answered(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", connect=False)
    end = begun(fleet)
    said = reply(END_JOB, NOTHING)
    fleet.fleet.loop.call_later(0.0, lambda: fleet.node("n0").says(said))
    end.wait()
    assert end.outcomes == {"n0": NOTHING}
