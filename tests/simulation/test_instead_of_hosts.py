"""Worlds that show what tests on hosts do, which are run in the tier `all` alone because of these.

The rules of the checker hold in each, and the rounds, the exit code and the words are as there.
"""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ..support.checkout import CHECKOUT
from ..support.limits import NEVER
from .checker import check
from .scenario import (
    Deed,
    ElasticSpec,
    Fault,
    HostSpec,
    ProgramSpec,
    Scenario,
)
from .world import play

if TYPE_CHECKING:
    from .history import Event

LOST, TOO_FEW = 75, 76

LONG = ProgramSpec(steps=60, pause=1.0)
TWO, THREE = (tuple(HostSpec(f"n{n}", 1) for n in range(1, count + 1)) for count in (2, 3))


class Shown(NamedTuple):
    """What a world has to show.

    Attributes:
        test: the test on hosts, in `tests/cluster`.
        rounds: the hosts of each round.
        says: what is in the output.
    """

    test: str
    world: Scenario
    code: int
    rounds: tuple[str, ...]
    says: tuple[str, ...] = ()


def elastic(
    *faults: Fault,
    hosts: tuple[HostSpec, ...] = TWO,
    program: ProgramSpec = LONG,
    limits: ElasticSpec | None = None,
    grace: float = 2.0,
) -> Scenario:
    """Return a world of an elastic job."""
    return Scenario(1, hosts, program, faults, limits or ElasticSpec(1, 0), grace, lease=6.0)


def fails(*deeds: tuple[int, int]) -> ProgramSpec:
    """Return a program in which (rank, life) exit with 7."""
    return LONG._replace(deeds=tuple(Deed(rank, life, 2, "exit", 7) for rank, life in deeds))


SHOWN = (
    *(
        Shown(
            f"test_elastic.py::test_a_signal_ends_the_job[{number}]",
            elastic(
                Fault("running", 1.0, "signal runner", "login", value=number),
                limits=ElasticSpec(2, 3),
            ),
            128 + number,
            ("n1 n2",),
        )
        for number in (signal.SIGTERM, signal.SIGINT)
    ),
    Shown(
        "test_elastic.py::test_too_few_nodes_end_the_job",
        elastic(Fault("running", 1.0, "kill launcher", "n2"), limits=ElasticSpec(2, 0)),
        LOST,
        ("n1 n2",),
        ("lost n2 after ",),
    ),
    Shown(
        "test_elastic.py::test_the_failure_beyond_the_budget_is_the_jobs",
        elastic(program=fails((1, 0), (0, 1)), limits=ElasticSpec(2, 1)),
        7,
        ("n1 n2", "n1 n2"),
        ("rank 0 (n1, ", "exited with code 7 after"),
    ),
    Shown(
        "test_elastic.py::test_some_failures_are_not_worth_a_restart",
        elastic(program=fails((1, 0)), limits=ElasticSpec(2, 3, final=(3, 7))),
        7,
        ("n1 n2",),
    ),
    Shown(
        "test_elastic.py::test_a_spare_takes_the_place_of_a_lost_node",
        elastic(
            Fault("running", 1.0, "kill launcher", "n1"),
            hosts=THREE,
            limits=ElasticSpec(1, 0, most=2),
        ),
        0,
        ("n1 n2", "n2 n3"),
    ),
    *(
        Shown(
            f"test_elastic.py::{test}",
            elastic(Fault("running", 1.0, kind, "n2", heals)),
            0,
            ("n1 n2", "n1", "n1 n2"),
            ("n2 is back",),
        )
        for test, kind, heals in (
            (
                "test_a_node_that_stands_still_has_no_workers_in_the_next_round",
                "freeze launcher",
                0.0,
            ),
            (
                "test_a_node_launcher_that_cannot_end_has_no_workers_in_the_next_round",
                "stick launcher",
                30.0,
            ),
            ("test_a_cable_is_cut_and_mended[False]", "cut", 15.0),
        )
    ),
    Shown(
        "test_elastic.py::test_a_cable_is_cut_and_mended[True]",
        elastic(Fault("running", 1.0, "cut", "n2", 2.0)),
        0,
        ("n1 n2",),
    ),
    Shown(
        "test_elastic.py::test_a_node_that_is_cut_off_is_still_before_the_next_round",
        elastic(Fault("running", 1.0, "cut", "n2", 1000.0)),
        0,
        ("n1 n2", "n1"),
    ),
    Shown(
        "test_elastic.py::test_workers_have_their_grace_when_a_round_ends",
        elastic(
            Fault("running", 2.5, "kill launcher", "n2"),
            program=LONG._replace(term="slow"),
            grace=20.0,
        ),
        0,
        ("n1 n2", "n1", "n1 n2"),
    ),
    Shown(
        "test_elastic_nodes.py::test_a_job_starts_with_the_nodes_that_it_needs",
        elastic(Fault("start", 0.0, "power", "n1", 20.0), hosts=THREE),
        0,
        ("n2 n3", "n1 n2 n3"),
        ("starting without it",),
    ),
    Shown(
        "test_elastic_nodes.py::test_below_the_least_a_job_waits_and_goes_on",
        elastic(Fault("running", 1.0, "kill launcher", "n2"), limits=ElasticSpec(2, 1, wait=NEVER)),
        0,
        ("n1 n2", "n1 n2"),
        (f"1 node left, but a round needs at least 2: waiting {NEVER:g} s for more",),
    ),
    Shown(
        "test_elastic_nodes.py::test_below_the_least_for_too_long_a_job_ends",
        elastic(
            *(Fault("running", 1.0, "power", name) for name in ("n2", "n3")),
            hosts=THREE,
            limits=ElasticSpec(2, 0, wait=2.0),
        ),
        TOO_FEW,
        ("n1 n2 n3",),
        ("gave up after ", ": too few nodes for too long"),
    ),
    Shown(
        "test_elastic_nodes.py::test_a_node_where_workers_fail_again_and_again_is_put_aside",
        elastic(program=fails((1, 0), (1, 1), (1, 2)), limits=ElasticSpec(1, 3, cool=300.0)),
        0,
        ("n1 n2", "n1 n2", "n1 n2", "n1"),
        ("3 failures within 10 minutes began on n2, and none elsewhere",),
    ),
    Shown(
        "test_elastic_nodes.py::test_a_failure_that_a_lost_node_has_caused_is_none",
        elastic(
            Fault("running", 1.5, "kill launcher", "n1", 0.0),
            hosts=THREE,
            program=LONG._replace(meets=True),
        ),
        0,
        ("n1 n2 n3", "n2 n3", "n1 n2 n3"),
    ),
)


@pytest.mark.parametrize("shown", SHOWN, ids=lambda one: one.test)
def test_it_shows_the_same(shown: Shown) -> None:
    outcome = play(shown.world)
    assert (outcome.crashes, check(outcome.history)) == ([], [])
    rounds = [" ".join(one.fields["ranks"]) for one in of_kind(outcome.history, "round")]
    code = of_kind(outcome.history, "exit")[0].fields["code"]
    assert (code, tuple(rounds)) == (shown.code, shown.rounds), outcome.output
    assert [words for words in shown.says if words not in outcome.output] == []


@pytest.mark.parametrize("test", sorted({one.test.partition("[")[0] for one in SHOWN}))
def test_the_test_on_hosts_is_in_the_last_tier(test: str) -> None:
    file, _, name = test.partition("::")
    text = (CHECKOUT / "tests" / "cluster" / file).read_text()
    assert re.search(rf'@pytest.mark.tier\("all"\)\n([@ )].*\n)*def {name}\(', text)


def of_kind(history: list[Event], kind: str) -> list[Event]:
    """Return the events of a kind."""
    return [one for one in history if one.kind == kind]
