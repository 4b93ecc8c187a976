"""The policy of the checks as the options ask for it."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.planning.checks import check_policy
from dsrun.launcher.specs.check_policy import CheckPolicy


def test_without_options_the_nodes_are_compared() -> None:
    assert check_policy(Options()) == CheckPolicy() == CheckPolicy(quick=True)


def test_every_option_is_a_field() -> None:
    options = Options(
        strict=True,
        health_command="nvidia-smi",
        health_timeout=5.0,
        exclude_unhealthy=True,
        min_elastic_nodes=1,
    )
    assert check_policy(options) == CheckPolicy(True, True, "nvidia-smi", 5.0, True)
    assert not check_policy(Options(no_check=True)).quick


def test_no_check_cannot_be_strict() -> None:
    with pytest.raises(UsageError) as caught:
        check_policy(Options(strict=True, no_check=True))
    assert str(caught.value) == ("conflicting options: --strict and --no_check; give one of them")


def test_nodes_are_only_excluded_if_fewer_are_enough() -> None:
    with pytest.raises(UsageError, match=r"^--exclude_unhealthy: the job needs all its nodes;"):
        check_policy(Options(exclude_unhealthy=True, max_restarts=1))
    assert check_policy(Options(exclude_unhealthy=True, nnodes="1:2")).exclude_unhealthy
