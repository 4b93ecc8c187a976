"""One role as it is written."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.options import all_options
from dsrun.launcher.features.roles.plan_table import unfit

from .written import table


def test_what_is_not_written_has_its_default() -> None:
    one = table(after="a,b")
    assert (one.get("ends"), one.get("ready"), one.get("devices")) == ("job", "started", None)
    assert (one.items("after"), one.items("ports")) == (("a", "b"), ())


def test_an_error_names_the_option_or_the_role() -> None:
    assert str(table(after="a").error("after", "why")) == "f:after: why"
    assert str(table().error("grace", "why")) == "f:trainer: why"


@pytest.mark.parametrize(
    "name",
    [
        *("host", "num_nodes", "num_gpus", "python", "workdir", "preload", "log_dir", "debug"),
        *("grace", "hang_timeout", "rules", "elastic_training", "bind_cores_to_rank", "ends"),
        *("export", "redirects", "health_command", "max_restarts", "stdin", "master_port"),
    ],
)
def test_a_role_has_options_of_its_own(name: str) -> None:
    assert unfit(all_options()[name]) == ""


@pytest.mark.parametrize(
    "name",
    [
        *("hostfile", "launcher", "on", "report_file", "heartbeat_timeout", "sync", "quiet"),
        *("profile", "roles", "requeue_on", "role", "dry_run", "no_ssh", "include", "metrics_file"),
    ],
)
def test_a_role_has_no_options_of_the_whole_job(name: str) -> None:
    assert "an option of the whole job" in unfit(all_options()[name])
