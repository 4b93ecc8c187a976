"""Who is blamed for a collective that a cut link has failed."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.full_check.runner import without_consequences
from dsrun.launcher.features.full_check.runner_steps import MeasuredFault, StepResult

ALL = ("n1", "n2", "n3", "n4")
FAILED = MeasuredFault("failed_collective", ALL, "wait timeout after 20000ms", "see")
SLOW = MeasuredFault("slow_collective", ("n1", "n2"), "slow", "compare")


def cut(one: str, other: str) -> MeasuredFault:
    return MeasuredFault(
        "link_reach", (one, other), f"{one} cannot reach {other} (timed out)", "see"
    )


def named(
    *network: MeasuredFault, collectives: tuple[MeasuredFault, ...] = (FAILED,)
) -> dict[str, StepResult]:
    steps = {"network": StepResult(network, {}), "collectives": StepResult(collectives, {})}
    return without_consequences(steps)


def test_two_cut_links_are_named_and_not_all_nodes() -> None:
    found = named(cut("n1", "n2"), cut("n3", "n4"))
    assert [one.nodes for one in found["network"].faults] == [("n1", "n2"), ("n3", "n4")]
    assert found["collectives"].faults == ()
    assert found["collectives"].notes == (
        "the collectives were not measured because they need all links: n1 cannot reach n2 (timed"
        " out); n3 cannot reach n4 (timed out)",
    )


@pytest.mark.parametrize(
    ("network", "collectives"),
    [
        ((), (FAILED,)),  # a firewall that lets only the network step through
        ((MeasuredFault("link_loss", ("n1", "n2"), "3 %", "look"),), (FAILED,)),
        ((cut("n1", "n2"),), (SLOW,)),
    ],
)
def test_other_faults_stay(
    network: tuple[MeasuredFault, ...], collectives: tuple[MeasuredFault, ...]
) -> None:
    found = named(*network, collectives=collectives)["collectives"]
    assert (found.faults, found.notes) == (collectives, ())


def test_steps_that_were_not_run_are_not_needed() -> None:
    alone = {"network": StepResult((cut("n1", "n2"),), {})}
    assert without_consequences(alone) == alone
    assert without_consequences({}) == {}
