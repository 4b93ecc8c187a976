"""The table of rows, and the verdict on what was seen of one."""

from __future__ import annotations

from .faults import STRIKES, VEILED
from .rows import EXCLUDED, FAULTS, OF_FAULTS, OTHER_ROWS, PHASES, ROWS, TABLE, WAYS
from .trial import Seen, problems

KILLED = ROWS["worker-sigkill/running/ssh"]
SAID = "dsrun: rank 3 (n2, local rank 1, pid 9) was killed by SIGKILL after 1 s; 3 others stopped"
SHOWN = "n1:0| is up 7\nn1:0| line 1\nn2:3| line 1\nn1:0| line 2\n"
AS_PROMISED = Seen(-9, SAID, SHOWN, {"cause": "failure"}, 1.0, ())
GOES_ON = ROWS["heals/running/ssh"]


def wrong(seen: Seen, code: int | None = 137) -> list[str]:
    return [*problems(KILLED, seen, code)]


def test_each_row_is_there_once_and_has_all_that_it_names() -> None:
    assert len(ROWS) == sum(len(ways) for _, _, ways, _ in TABLE) >= 60
    assert {row.fault for row in (ROWS | OTHER_ROWS).values()} == FAULTS.keys() == STRIKES.keys()
    assert {row.phase for row in ROWS.values()} == PHASES.keys()
    assert {row.way for row in ROWS.values()} == WAYS.keys()
    assert {row.twin for row in ROWS.values()} <= ROWS.keys()
    assert VEILED | OF_FAULTS.keys() <= FAULTS.keys()
    assert EXCLUDED.keys() == {(row.fault, row.way) for row in ROWS.values() if row.skip}


def test_what_is_as_promised() -> None:
    assert wrong(AS_PROMISED) == []


def test_what_is_not_as_promised() -> None:
    assert wrong(AS_PROMISED._replace(said="dsrun: bye"), 75) == [
        "exit code 75, not 137; it said last: dsrun: bye",
        r"it did not say 'rank \\d+ \\(n2, .*was killed by SIGKILL'; it said last: dsrun: bye",
    ]
    assert wrong(AS_PROMISED._replace(code=None), None) == [f"it did not end; it said last: {SAID}"]
    assert wrong(AS_PROMISED._replace(report={})) == [
        "the report has the cause None, not 'failure'"
    ]
    assert wrong(AS_PROMISED._replace(left=("n2: process 9",))) == ["left: n2: process 9"]
    assert wrong(AS_PROMISED._replace(seconds=9.0)) == ["it took 9.0 s, not at most 5"]


def test_lines_that_are_missing() -> None:
    gap = SHOWN.replace("line 1\nn2", "line 0\nn2")
    assert wrong(AS_PROMISED._replace(shown=gap)) == ["lines of rank 0 are missing"]
    well = Seen(0, "", SHOWN, {"cause": "none"}, 1.0, ())
    assert [*problems(GOES_ON, well, 0)] == [
        "the last lines of rank 0 are missing",
        "the last lines of rank 3 are missing",
    ]
    whole = f"{SHOWN}n1:0| done 2\nn2:3| done 1\n"
    assert [*problems(GOES_ON, well._replace(shown=whole), 0)] == []


def test_false_alarms() -> None:
    row = ROWS["none/running/ssh"]
    seen = Seen(0, "", "", {"cause": "none", "hangs": [{}], "lost": []}, 1.0, ())
    assert [*problems(row, seen, 0)] == ["a false alarm: the report has hangs"]
