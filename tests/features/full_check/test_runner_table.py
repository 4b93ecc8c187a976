"""The steps of the full check."""

from __future__ import annotations

from dsrun.launcher.features.full_check.runner_table import steps
from dsrun.launcher.node.programs import PROGRAMS


def test_every_step_has_a_name_of_its_own_and_a_program() -> None:
    some = steps("/work", "python3")
    assert len({step.name for step in some}) == len(some)
    assert {step.program for step in some} <= PROGRAMS.keys()
