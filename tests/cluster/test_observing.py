"""What is said of jobs whose observers have seen something wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from .observing.judge import wrong

if TYPE_CHECKING:
    from pathlib import Path

    Rows = list[tuple[float, str, dict[str, Any]]]

ASKED = {"nodes": {"n1": 1, "n2": 1}, "elastic": True, "max_restarts": 1, "plain": True}


def began(number: int, *ranks: int) -> Rows:
    """A round with these ranks, each on a host of its own."""
    starts = [(1.0, "RanksStarted", {"host": f"n{rank + 1}", "ranks": [rank]}) for rank in ranks]
    given = {"number": number, "restarts": number - 1, "world_size": len(ranks), "hosts": []}
    return [(1.0, "RoundBegan", given), *starts]


def prints(rank: int, data: str) -> tuple[float, str, dict[str, Any]]:
    return (1.0, "RankOutput", {"rank": rank, "host": f"n{rank + 1}", "stream": 1, "data": data})


def exits(rank: int, code: int = 0) -> tuple[float, str, dict[str, Any]]:
    return (1.0, "RankExit", {"rank": rank, "host": f"n{rank + 1}", "code": code})


LOST = (1.0, "NodeLost", {"host": "n1"})

WELL = [*began(1, 0, 1), prints(0, "a\nb"), prints(1, "a\n"), prints(0, "c"), exits(0), exits(1)]
SHOWN = "n1:0| a\nn2:1| a\nn1:0| bc\n"


@pytest.mark.tier("test")
@pytest.mark.parametrize(
    ("rows", "code", "output", "rules"),
    [
        (WELL, 0, SHOWN, []),
        (WELL, 0, SHOWN.replace("n2:1| a\n", "n2:1| a\n" * 2), ["lines_once"]),
        (WELL, 0, "n1:0| bc\nn1:0| a\nn2:1| a\n", ["lines_in_order"]),
        (WELL, 0, SHOWN.replace("n1:0| bc\n", ""), ["end_shown"]),
        (WELL, 0, SHOWN.replace("bc", "b"), ["end_shown", "lines_whole"]),
        (WELL, 0, None, []),
        ([*began(1, 0, 1), LOST, exits(1), *began(2, 0), exits(0)], 0, "", []),
        ([*began(1, 0, 1), exits(1), *began(2, 0)], 0, "", ["one_worker_per_rank"]),
        ([*began(1, 0), exits(0), *began(1, 0)], 0, "", ["rank_once_a_round"]),
        ([*began(1, 0), exits(0), *began(3, 0), exits(0)], 0, "", ["restarts_in_budget"]),
    ],
)
def test_it_names_the_rule(
    tmp_path: Path, rows: Rows, code: int, output: str | None, rules: list[str]
) -> None:
    file = tmp_path / "told"
    file.write_text("".join(json.dumps(row) + "\n" for row in [(0.0, "job", ASKED), *rows]))
    assert [one.partition(":")[0] for one in wrong(file, code, output)] == rules


def test_nothing_is_said_of_a_job_that_was_killed(tmp_path: Path) -> None:
    assert wrong(tmp_path / "none", -9, "") == []
