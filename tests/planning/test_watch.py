"""What is watched while a job runs, from the options."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.planning.watch import watch_policy
from dsrun.launcher.specs.elastic_policy import ElasticPolicy
from dsrun.launcher.specs.watch_policy import WatchPolicy


def test_the_defaults_of_the_options() -> None:
    assert watch_policy(Options(), None) == WatchPolicy()


def test_a_restart_needs_a_job_that_can_be_restarted() -> None:
    options = Options(hang_timeout=5.0, on_hang="restart")
    with pytest.raises(UsageError, match=r"^--on_hang restart: .* --max_restarts N"):
        watch_policy(options, None)
    assert watch_policy(options, ElasticPolicy(1, 2, 3)) == WatchPolicy(5.0, "restart")
