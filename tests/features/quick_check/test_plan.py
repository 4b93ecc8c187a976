"""The policy of the checks as the options ask for it."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.quick_check.plan import check_policy
from dsrun.launcher.planning.shape import is_elastic
from dsrun.launcher.specs.policies import CheckPolicy


def test_without_options_the_nodes_are_compared() -> None:
    assert check_policy(Options(), 2) == CheckPolicy() == CheckPolicy(quick=True)


def test_every_option_is_a_field() -> None:
    options = Options(
        strict=True,
        health_command="nvidia-smi",
        health_timeout=5.0,
        exclude_unhealthy=True,
        min_elastic_nodes=1,
    )
    assert check_policy(options, 2) == CheckPolicy(True, True, "nvidia-smi", 5.0, 1)
    assert not check_policy(Options(no_check=True), 2).quick


def test_no_check_cannot_be_strict() -> None:
    with pytest.raises(UsageError) as caught:
        check_policy(Options(strict=True, no_check=True), 2)
    assert str(caught.value) == ("conflicting options: --strict and --no_check; give one of them")


def test_nodes_are_only_excluded_if_fewer_are_enough() -> None:
    with pytest.raises(UsageError, match=r"^--exclude_unhealthy: the job needs all its nodes;"):
        check_policy(Options(exclude_unhealthy=True, max_restarts=1), 2)
    assert check_policy(Options(exclude_unhealthy=True, nnodes="1:2"), 2).least == 1
    with pytest.raises(UsageError, match=r"^--min_elastic_nodes 3: the job has only 2 nodes"):
        check_policy(Options(exclude_unhealthy=True, min_elastic_nodes=3), 2)
    with pytest.raises(UsageError, match="not with --rank_per_task"):
        check_policy(Options(exclude_unhealthy=True, min_elastic_nodes=1, rank_per_task=True), 2)


def test_excluding_nodes_makes_no_job_elastic() -> None:
    options = Options(exclude_unhealthy=True, min_elastic_nodes=1)
    assert not is_elastic(options)
    assert is_elastic(options.changed(exclude_unhealthy=False))
    assert is_elastic(options.changed(max_elastic_nodes=2))
