"""How a run has ended, as its nodes and the user are told; test_run has its end in histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.features.diagnosis import runner_verdict as verdict
from dsrun.launcher.head.job.ending import ending_of
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.specs.policies import SupervisionPolicy
from dsrun.launcher.specs.verdict import Explanation, FailureClass, Retry, Verdict

from ...support.node_facts import facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet


def test_a_clean_end_has_no_words_and_a_failure_has_some(
    fleet_of: Callable[..., FakeFleet],
) -> None:
    job = fleet_of("n0")
    run = job.start()
    job.end_well(run)
    ending = ending_of(run.view())
    assert (ending.code, ending.text) == (0, "")
    failing = job.start()
    job.node("n0").exits(1, 7)
    job.node("n0").done()
    job.go(1)
    ending = ending_of(failing.view())
    assert (ending.code, ending.data["exit_code"]) == (7, 7)
    assert "rank 1" in ending.text


def test_a_refusal_is_told_as_it_is(fleet_of: Callable[..., FakeFleet]) -> None:
    run = fleet_of("n0").run()
    run.handle(RunState.fail, NodeError("n0: no such folder"))
    ending = ending_of(run.view())
    assert (ending.code, ending.text) == (69, "dsrun: n0: no such folder")


def test_runs_share_a_loop_and_each_tells_its_own_end(fleet_of: Callable[..., FakeFleet]) -> None:
    job = fleet_of("n0", "n1")
    over: list[str] = []
    one = job.start("n0", on_over=lambda: over.append("one"))
    other = job.start("n1", on_over=lambda: over.append("other"))
    job.end_well(other)
    assert over == ["other"]
    other.release_nodes()
    again = job.run("n1", on_ready=lambda it: over.append(f"{it.plan.world_size} ready"))
    job.ready(again)
    job.end_well(one)
    assert over == ["other", "2 ready", "one"]
    assert [ending_of(run.view()).code for run in (one, other)] == [0, 0]


@pytest.mark.parametrize(("retry", "code"), [(Retry.NO, 99), (Retry.YES, 7), (Retry.UNKNOWN, 7)])
def test_a_job_that_would_fail_again_has_a_code_of_its_own(
    retry: Retry, code: int, fleet_of: Callable[..., FakeFleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Explanation(Verdict(FailureClass.SCRIPT, retry))
    monkeypatch.setattr(verdict, "explanation", lambda ended: found if ended.exit_code else None)
    job = fleet_of("n0")
    run = job.start(supervision=SupervisionPolicy(no_requeue_code=99))
    job.node("n0").exits(1, 7)
    job.node("n0").done()
    job.go(1)
    ending = ending_of(run.view())
    assert ending.code == code
    why = "  it would fail again: exit code 99 (--no_requeue_code)"
    assert (why in ending.text) is (code == 99)


def test_a_job_that_ends_well_would_not_fail_again(fleet_of: Callable[..., FakeFleet]) -> None:
    job = fleet_of("n0")
    run = job.start(supervision=SupervisionPolicy(no_requeue_code=99))
    job.end_well(run)
    assert ending_of(run.view()).code == 0


def test_what_nodes_have_said_of_themselves_is_in_the_report(
    fleet_of: Callable[..., FakeFleet],
) -> None:
    job = fleet_of("n0", "n1")
    told = facts(wall=1.0)
    run = job.run()
    job.node("n0").hello(port=29500, facts=told)
    job.node("n1").hello()
    job.step()
    report = ending_of(run.view()).report
    assert report is not None
    assert [(name, one.wall) for name, one in report.facts] == [("n0", 1.0)]
