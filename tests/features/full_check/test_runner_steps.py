"""What answers divide into."""

from __future__ import annotations

from dsrun.launcher.control.messages import Probed
from dsrun.launcher.features.full_check.runner_steps import StepFailed, answered


def test_answers_are_replies_of_the_shape_or_reasons() -> None:
    replies, failed = answered({"n1": Probed(("",)), "n2": StepFailed("lost")}, Probed)
    assert (replies, failed) == ({"n1": Probed(("",))}, {"n2": "lost"})
