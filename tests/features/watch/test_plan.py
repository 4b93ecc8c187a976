"""What is watched while a job runs, from the options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.watch.plan import watch_policy
from dsrun.launcher.specs.policies import ElasticPolicy, WatchPolicy

if TYPE_CHECKING:
    from pathlib import Path


def test_the_defaults_of_the_options() -> None:
    assert watch_policy(Options(), None) == WatchPolicy()
    assert watch_policy(Options(no_worker_hook=True), None) == WatchPolicy(hook=False)
    assert watch_policy(Options(warn_slow=True), None) == WatchPolicy(slow=True)


def test_a_restart_needs_a_job_that_can_be_restarted() -> None:
    options = Options(hang_timeout=5.0, on_hang="restart")
    with pytest.raises(UsageError, match=r"^--on_hang restart: .* --max_restarts N"):
        watch_policy(options, None)
    assert watch_policy(options, ElasticPolicy(1, 2, 3)) == WatchPolicy(5.0, "restart")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"expect": "x", "every": 1.0, "on_missing": "restart"}, "--on_missing restart"),
        ({"expect": "x", "stop_without_progress": 2}, "--stop_without_progress"),
    ],
)
def test_what_needs_rounds(given: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}: .* --max_restarts N"):
        watch_policy(Options(**given), None)
    assert watch_policy(Options(**given), ElasticPolicy(1, 2, 3)).rules


def test_a_rule_of_a_file_that_needs_rounds_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text("[[rule]]\nname='a'\nexpect='x'\nevery=1\nthen='restart'")
    with pytest.raises(UsageError, match=r"^rule a: then restart: "):
        watch_policy(Options(rules=str(path)), None)


def test_what_shows_progress_has_to_be_given_where_it_is_needed() -> None:
    limits = ElasticPolicy(1, 2, 3)
    with pytest.raises(UsageError, match=r"^--stop_without_progress 2: nothing shows progress"):
        watch_policy(Options(stop_without_progress=2), limits)
    with pytest.raises(UsageError, match=r"^--checkpoints \*.pt: only with --stop_without_prog"):
        watch_policy(Options(checkpoints="*.pt"), limits)
    policy = watch_policy(
        Options(stop_without_progress=2, checkpoints="c/*.pt", workdir="/w"), limits
    )
    assert (policy.fruitless_rounds, policy.checkpoints) == (2, "/w/c/*.pt")


def test_where_torch_forms_the_rounds_dsrun_cannot_restart() -> None:
    options = Options(on_hang="restart", rdzv_backend="c10d", max_restarts=3)
    with pytest.raises(UsageError, match=r"with --rdzv_backend c10d torch restarts the workers$"):
        watch_policy(options, None)


def test_rules_need_output_that_reaches_dsrun() -> None:
    given: dict[str, Any] = {"expect": "x", "every": 1.0}
    with pytest.raises(UsageError, match=r"^--redirects 3: no output reaches dsrun"):
        watch_policy(Options(**given, redirects="3"), None)
    assert watch_policy(Options(**given, tee="3"), None).rules
    assert watch_policy(Options(redirects="3"), None).rules == ()
