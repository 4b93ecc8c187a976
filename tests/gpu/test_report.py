"""What is written for people and for programs."""

from __future__ import annotations

import json

from .checks import Outcome, check, skipped
from .desk import Ran
from .report import KEPT, Result, as_json, as_text, ending, lines_of

RAN = Ran(("python", "bin/dsrun"), 1, "x" * (KEPT + 1), 1.25, {"exit_code": 1})
RESULTS = (
    Result("torch", 3.0, [check("a", True, "seen")]),
    Result("masks", 1.0, [check("by UUID", False, "two\nlines"), check("b", True)], [RAN]),
    Result("numbers", 0.0, [skipped("numbers", "no NVML")]),
)


def test_a_line_tells_of_a_part_and_one_of_each_check_that_has_not_passed() -> None:
    assert [*lines_of(RESULTS[0])] == ["passed  torch                3.0 s  1 of 1 checks"]
    assert [*lines_of(RESULTS[1])] == [
        "failed  masks                1.0 s  1 of 2 checks",
        "        failed: by UUID: two lines",
    ]
    assert [*lines_of(RESULTS[2])][1] == "        skipped: numbers: no NVML"


def test_the_last_line_names_what_has_failed_and_what_was_left_out() -> None:
    assert ending(RESULTS) == "1 of 3 parts passed; failed: masks; skipped: numbers"
    assert ending(RESULTS[:1]) == "1 of 1 parts passed"
    assert [one.outcome for one in RESULTS] == [*Outcome][:3]


def test_the_text_begins_with_where_it_was() -> None:
    lines = as_text({"gpu": "NVIDIA H200", "user": "root"}, RESULTS).splitlines()
    assert lines[:3] == ["gpu: NVIDIA H200", "user: root", ""]
    assert lines[-1] == ending(RESULTS)


def test_json_has_every_command_and_the_end_of_what_it_printed() -> None:
    written = json.loads(json.dumps(as_json({"gpu": "NVIDIA H200"}, RESULTS)))
    assert [part["outcome"] for part in written["parts"]] == ["passed", "failed", "skipped"]
    (command,) = written["parts"][1]["commands"]
    assert command == {
        "words": ["python", "bin/dsrun"],
        "code": 1,
        "seconds": 1.2,
        "output": "x" * KEPT,
        "report": {"exit_code": 1},
    }
