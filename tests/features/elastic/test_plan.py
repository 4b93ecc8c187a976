"""What the options ask for of an elastic job, and in which words it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.elastic.plan import elastic_policy
from dsrun.launcher.planning.shape import is_elastic
from dsrun.launcher.specs.policies import ElasticPolicy


def asked(nodes: int = 4, **given: Any) -> ElasticPolicy | None:
    """The limits of a job on so many nodes with these options."""
    return elastic_policy(Options(**given), nodes)


def allowed(*given: Any) -> ElasticPolicy:
    """A policy with what nobody has asked for as it is then."""
    return ElasticPolicy(*given)._replace(cool=300.0, gain_delay=60.0, patience=40.0)


def refused(nodes: int = 4, **given: Any) -> str:
    """The words in which it is refused, which fill one line."""
    with pytest.raises(UsageError) as caught:
        asked(nodes, **given)
    words = str(caught.value)
    assert words
    assert "\n" not in words
    return words


STATIC: list[dict[str, Any]] = [
    {}, {"max_restarts": 0}, {"nnodes": "4"}, {"nnodes": "4:4"}, {"num_nodes": 4},
]  # fmt: skip


@pytest.mark.parametrize("given", STATIC)
def test_a_job_is_not_elastic_unless_that_is_asked_for(given: dict[str, Any]) -> None:
    assert not is_elastic(Options(**given))
    assert asked(**given) is None
    assert asked(rank_per_task=True, **given) is None


@pytest.mark.parametrize(
    ("given", "agent"),
    [
        ({"max_restarts": 1}, "dsrun"),
        ({"max_restarts": 1, "elastic_agent": "dsrun"}, "dsrun"),
        ({"max_restarts": 1, "elastic_agent": "torch"}, "torch"),
        ({"logs_specs": "mine"}, "torch"),
        ({"logs_specs": "mine", "elastic_agent": "torch"}, "torch"),
        ({"max_restarts": 1, "no_python": True}, "dsrun"),
    ],
)
def test_dsrun_has_an_agent_of_its_own_unless_torchs_is_needed(
    given: dict[str, Any], agent: str
) -> None:
    policy = asked(**given)
    assert policy is not None
    assert policy.agent == agent


def test_what_only_torchs_agent_can_do_is_refused_with_the_other() -> None:
    assert refused(logs_specs="mine", elastic_agent="dsrun") == (
        "--elastic_agent dsrun: --logs_specs mine needs torch's agent; leave out one of the two"
    )


@pytest.mark.parametrize("agent", ["dsrun", "torch"])
def test_an_agent_is_for_elastic_jobs(agent: str) -> None:
    assert refused(elastic_agent=agent).startswith("--elastic_agent: only in an elastic job")


ELASTIC: list[tuple[dict[str, Any], ElasticPolicy]] = [
    # Workers restart, nodes do not go: torchrun's --max_restarts.
    ({"max_restarts": 3}, allowed(4, 4, 3)),
    # DeepSpeed's --elastic_training: from one node on, and its hundred restarts.
    ({"elastic_training": True}, allowed(1, 4, 100)),
    ({"elastic_training": True, "max_restarts": 7}, allowed(1, 4, 7)),
    ({"elastic_training": True, "max_restarts": 0}, allowed(1, 4, 0)),
    ({"elastic_training": True, "min_elastic_nodes": 2}, allowed(2, 4, 100)),
    ({"elastic_training": True, "max_elastic_nodes": 3}, allowed(1, 3, 100)),
    (
        {"elastic_training": True, "min_elastic_nodes": 2, "max_elastic_nodes": 3},
        allowed(2, 3, 100),
    ),
    ({"max_restarts": 1, "min_elastic_nodes": 2}, allowed(2, 4, 1)),
    # torchrun's range: nodes may go, and no failure is survived unless that is said, too.
    ({"nnodes": "2:4"}, allowed(2, 4, 0)),
    ({"nnodes": "2:3", "max_restarts": 5}, allowed(2, 3, 5)),
    ({"nnodes": "1:9"}, allowed(1, 9, 0)),
    ({"nnodes": "2:3", "elastic_training": True}, allowed(2, 3, 100)),
]


@pytest.mark.parametrize(("given", "expected"), ELASTIC)
def test_how_far_a_job_may_shrink_grow_and_fail(
    given: dict[str, Any], expected: ElasticPolicy
) -> None:
    assert is_elastic(Options(**given))
    assert asked(**given) == expected


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"nnodes": "3:2"}, "--nnodes 3:2: expected N or MIN:MAX, such as 2 or 1:4, MIN first"),
    ({"nnodes": "0:2"}, "--nnodes 0:2: expected N or MIN:MAX, such as 2 or 1:4, MIN first"),
    ({"nnodes": "1:²"}, "--nnodes 1:²: expected N or MIN:MAX, such as 2 or 1:4, MIN first"),
    (
        {"elastic_training": True, "min_elastic_nodes": 3, "max_elastic_nodes": 2},
        "--min_elastic_nodes 3: is more than --max_elastic_nodes 2",
    ),
    ({"nnodes": "5:8"}, "--nnodes 5:8: the job has only 4 nodes; add hosts, or lower it"),
    (
        {"max_restarts": 1, "min_elastic_nodes": 5, "max_elastic_nodes": 6},
        "--min_elastic_nodes 5: the job has only 4 nodes; add hosts, or lower it",
    ),
]


@pytest.mark.parametrize(("given", "words"), CONTRADICTIONS)
def test_limits_that_nothing_can_meet_are_refused(given: dict[str, Any], words: str) -> None:
    assert refused(**given) == words


@pytest.mark.parametrize(
    "given", [{"max_restarts": 1}, {"elastic_training": True}, {"nnodes": "1:2"}]
)
def test_mpi_cannot_restart_ranks(given: dict[str, Any]) -> None:
    assert refused(rank_per_task=True, **given).startswith("--rank_per_task: ")


def test_input_cannot_be_read_again() -> None:
    assert refused(max_restarts=1, stdin="rank0").startswith("--stdin rank0: ")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_restarts": -1}, "--max_restarts: expected 0 or more, not -1"),
        ({"nnodes": "1:4", "max_elastic_nodes": 2}, "--nnodes 1:4 and --max_elastic_nodes 2; give"),
    ],
)
def test_what_cannot_be_meant(given: dict[str, Any], words: str) -> None:
    assert words in refused(**given)


def test_what_is_worth_a_restart() -> None:
    given: dict[str, Any] = {"restart_window": 60.0, "min_uptime": 5.0, "no_restart_codes": "2,64"}
    assert asked(max_restarts=1, **given) == allowed(4, 4, 1, 60.0, 5.0, frozenset({2, 64}))
    assert "--no_restart_codes: expected exit codes" in refused(
        max_restarts=1, no_restart_codes="x"
    )


def test_a_most_alone_makes_spares() -> None:
    assert asked(max_elastic_nodes=2) == allowed(2, 2, 0)
    assert asked(max_elastic_nodes=2, max_restarts=1) == allowed(2, 2, 1)
