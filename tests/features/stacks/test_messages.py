"""The question for stacks and its answer, there and back."""

from __future__ import annotations

import json

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.features.stacks.messages import (
    CLIENTS,
    Collective,
    NetworkUse,
    ProcessState,
    StacksAnswer,
    StacksAsk,
    ThreadStack,
)

PROCESS = ProcessState(3, 4003, 4000, "python a.py", "S", "futex_wait", "py-spy", "")
THREAD = ThreadStack(4003, "MainThread", True, False, ("wait (/a.py:3)", "main (/a.py:9)"))
COLLECTIVE = Collective(
    *(3, "default_pg", (0, 1, 2, 3), 17, "all_reduce", "[[10]]", "Float", "started", 62.5),
    "main (/a.py:9)",
)
NETWORK = NetworkUse(3, 4003, CLIENTS, "", 1 << 40, -1.0)
ANSWER = StacksAnswer(
    (PROCESS,), (THREAD, THREAD._replace(frames=())), (COLLECTIVE,), network=(NETWORK,)
)
BODY = messages.pack(frames.REPLY, ANSWER)[5:]


def test_stacks_come_back_with_their_rows() -> None:
    assert messages.unpack(StacksAnswer, BODY) == ANSWER


def test_a_question_comes_back_as_it_was() -> None:
    ask = StacksAsk((1, 2), native=True)
    assert messages.unpack(StacksAsk, messages.pack(frames.QUESTION, ask)[5:]) == ask


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"saved": 1}, "saved: expected str"),
        ({"processes": [list(PROCESS)[1:]]}, r"processes\[0\]: expected"),
        ({"threads": [[4003, "x", True, False, [1]]]}, r"threads\[0\].frames\[0\]: expected"),
        ({"threads": [[4003, "x", 1, False, []]]}, r"threads\[0\].main: expected"),
        ({"network": [[*NETWORK[:4], -1, 0]]}, r"network\[0\].received: expected"),
        (
            {"collectives": [[*COLLECTIVE[:2], [-1], *COLLECTIVE[3:]]]},
            r"collectives\[0\].members\[0\]: expected",
        ),
    ],
)
def test_values_of_another_type_are_refused(wrong: dict[str, object], fault: str) -> None:
    changed = json.dumps({**json.loads(BODY), **wrong}).encode()
    with pytest.raises(frames.BadFrame, match=f"^{fault}"):
        messages.unpack(StacksAnswer, changed)
