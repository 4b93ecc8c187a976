"""Jobs of roles whose nodes lose their power: a spare that lives takes over, for one restart."""

from __future__ import annotations

import pytest

from .checker import check
from .scenario import Fault, HostSpec, ProgramSpec, RolePart, Scenario
from .world import Outcome, play

ROLES = (
    RolePart("server", (("n1", 0, 1),), "never", line=True, restarts=1),
    RolePart("trainer", (("n1", 1, 2),), "job", after=("server",), restarts=1),
)
HOSTS = tuple(HostSpec(f"n{n}", 2) for n in (1, 2, 3))


def off(host: str, after: float) -> Fault:
    """Return the end of a host's power, so many seconds after workers run."""
    return Fault("running", after, "power", host)


def ends_well(*faults: Fault) -> Outcome:
    """Play a world of these roles, which ends with 0, and in which all rules hold."""
    world = Scenario(1, HOSTS, ProgramSpec(steps=60, pause=1.0), faults, lease=6.0, roles=ROLES)
    outcome = play(world)
    assert (outcome.crashes, check(outcome.history)) == ([], [])
    (code,) = (one.fields["code"] for one in outcome.history if one.kind == "exit")
    assert code == 0, outcome.output
    return outcome


@pytest.mark.parametrize(
    ("faults", "spare"),
    [
        pytest.param((off("n1", 9.0),), "n2", id="a node with two roles"),
        pytest.param((off("n2", 1.0), off("n1", 30.0)), "n3", id="an idle spare before it"),
        pytest.param((off("n1", 9.0), off("n2", 9.0)), "n3", id="a spare at the same time"),
        pytest.param((off("n1", 9.0), off("n2", 11.9)), "n3", id="a spare soon after it"),
        pytest.param((off("n1", 9.0), off("n2", 16.0)), "n3", id="a spare just taken"),
    ],
)
def test_one_lost_node_is_one_restart(faults: tuple[Fault, ...], spare: str) -> None:
    outcome = ends_well(*faults)
    for role in ROLES:
        assert outcome.output.count(f"{role.name}: lost n1: ") == 1
        assert f"{role.name}: n1 is lost; " in outcome.output
    assert outcome.output.count(f"{spare} takes its place") == len(ROLES)


def test_a_role_that_waits_for_its_first_start_moves_as_well() -> None:
    outcome = ends_well(off("n1", 0.5))
    assert outcome.output.count("starting it again") == 1
    assert outcome.output.count("n2 takes its place") == len(ROLES)
