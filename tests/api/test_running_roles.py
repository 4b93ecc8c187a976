"""Which roles have all their workers running."""

from __future__ import annotations

import pytest

from dsrun.launcher.api.running_roles import Begun

ROUND = {"event": "Round", "hosts": ["n0", "n1"]}
RANKS = {"event": "RanksStarted"}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([], False),
        ([ROUND], False),
        ([ROUND, {**RANKS, "host": "n1"}], False),
        ([ROUND, {**RANKS, "host": "n1"}, {**RANKS, "host": "n1"}], False),
        ([ROUND, {**RANKS, "host": "n1"}, {"event": "Log"}, {**RANKS, "host": "n0"}], True),
        ([{"event": "Started", "hosts": ["n0"]}, {**RANKS, "host": "n0"}, ROUND], False),
    ],
)
def test_all_nodes_of_the_newest_round_have_to_say_so(
    told: list[dict[str, object]], expected: bool
) -> None:
    begun = Begun()
    for one in told:
        begun.note(one)
    assert ("" in begun) is expected


def test_tasks_that_share_a_host_are_counted() -> None:
    begun = Begun()
    begun.note({"event": "Started", "hosts": ["n0", "n0"], "role": "a"})
    begun.note({**RANKS, "host": "n0", "role": "a"})
    assert "a" not in begun
    begun.note({**RANKS, "host": "n0", "role": "a"})
    assert ("a" in begun, "b" in begun) == (True, False)
