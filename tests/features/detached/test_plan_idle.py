"""Notes on options without effect, and on those that make a job elastic."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.features.detached.plan_idle import PARTNERS, notes
from dsrun.launcher.planning.planner import NOTED, make_plan

ELASTIC = "makes the job elastic: docs/elastic.md; --max_restarts N restarts its workers"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--health_timeout", "5"], ["--health_timeout has no effect without --health_command"]),
        (["--health_timeout", "5", "--health_command", "true"], []),
        (["--launcher_args=", "--prefix="], ["--launcher_args is empty, so it has no effect"]),
        (["--sync_limit", "5MB"], ["--sync_limit has no effect without --sync"]),
        (["--cool_down", "5"], ["--cool_down has no effect: the job is not elastic"]),
        (["--cool_down", "5", "--max_restarts", "1"], []),
        (["--on_hang=stop", "--hang_timeout=0"], ["--on_hang stop has no effect with --hang_time"]),
        (["--on_hang=stop"], []),
        (
            ["--export", "A=1,B=2"],
            ["--export A=1,B=2: sets only A; repeat --export for more"],
        ),
        (["--export", "A=1,2", "--export", "B=x=y"], []),
        (["--no_ssh", "--launcher=pdsh"], ["--launcher pdsh has no effect with --no_ssh"]),
        (["--min_elastic_nodes", "1"], [f"--min_elastic_nodes 1 {ELASTIC}"]),
        (["--max_elastic_nodes", "1"], [f"--max_elastic_nodes 1 {ELASTIC}"]),
        (["--logs_specs", "mine"], [f"--logs_specs mine {ELASTIC}"]),
        (["--min_elastic_nodes", "1", "--elastic"], []),
        (["--min_elastic_nodes", "1", "--max_restarts", "0"], []),
        (["--min_elastic_nodes", "1", "--exclude_unhealthy"], []),
        ([], []),
    ],
)
def test_what_is_said(words: list[str], said: list[str]) -> None:
    command = parse([*words, "train.py"], {})
    found = [*notes(command)]
    assert [one[: len(text)] for one, text in zip(found, said, strict=True)] == said
    assert not found or command.given & NOTED or "is empty" in found[0]


def test_what_a_file_sets_for_many_jobs_is_not_noted() -> None:
    command = parse(["train.py"], {}, base={"cool_down": 5.0, "health_timeout": 5.0})
    assert not [*notes(command._replace(origins=dict.fromkeys(command.given, "f:1")))]


def test_the_plan_has_the_notes() -> None:
    command = parse(["--min_elastic_nodes", "1", "train.py"], {})
    assert f"--min_elastic_nodes 1 {ELASTIC}" in make_plan(command).origin.notes


def test_all_of_them_are_known_to_the_planner() -> None:
    assert {*PARTNERS} < NOTED
