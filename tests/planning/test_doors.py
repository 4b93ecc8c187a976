"""The features that options ask for, and what a job is without any."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.cli.options import Options, all_options
from dsrun.launcher.common.entry import load
from dsrun.launcher.planning import doors
from dsrun.launcher.specs.job import JobSpec

from ..support.run_nodes import plan_of

PLAIN = JobSpec("job", plan_of(2), "/work")

CORE = {"supervision", "output", "workers", "backend", "dial_in"}
"""The policies of every job."""


@pytest.mark.parametrize("door", doors.DOORS)
def test_a_feature_that_is_not_asked_for_changes_nothing(door: str) -> None:
    """Its module need not be imported to know how a job is without it."""
    if door != "sync":  # there is none without its folder
        plan = load(f"{doors.DOORS[door][0]}:plan")
        assert plan(Options(), PLAIN) == PLAIN


def test_no_feature_is_asked_for_by_defaults() -> None:
    assert doors.asked(Options()) == []
    assert doors.with_features(Options(), PLAIN) == PLAIN


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"bind_cores_to_rank": True}, ["binding"]),
        ({"bind_memory": "local"}, ["binding"]),
        ({"nnodes": "1:4"}, ["elastic"]),
        ({"nnodes": "4"}, []),
        ({"change_notice": "SIGUSR1"}, ["elastic"]),
        ({"max_restarts": 3, "on_hang": "restart"}, ["elastic", "watch"]),
        ({"warm_workers": True}, ["preload", "elastic"]),
        ({"no_check": True, "sync": "."}, ["checks", "sync"]),
        ({"container": "podman:x"}, ["container"]),
    ],
)
def test_what_asks_for_a_feature(given: dict[str, Any], asked: list[str]) -> None:
    assert doors.asked(Options(**given)) == asked


def test_every_option_that_fills_a_policy_has_its_door() -> None:
    filled = {row.fills.partition(".")[0] for row in all_options().values()} - {""}
    assert filled <= CORE | doors.DOORS.keys()
    named = {name for _, *names in doors.DOORS.values() for name in names}
    assert named <= all_options().keys()
