"""What counts as a kept promise."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.features.promises import runner_table
from dsrun.launcher.features.promises.runner_rows import LINES, ROWS, PromiseRow, chosen
from dsrun.launcher.features.promises.runner_verdict import (
    Seen,
    UpWorker,
    any_broken,
    judged,
    stand_in,
)

from ...support.checkout import CHECKOUT

UPS = (UpWorker("n1", 0, 2, "job", "1:2,3:4"), UpWorker("n2", 1, 2, "job", "5:6,7:8"))
NAMED = "dsrun: rank 1 (n2, local rank 0, pid 7) exited with code 7 after 0.2 s; 1 other stopped"


def row(name: str) -> PromiseRow:
    return chosen([name])[0]


def seen(**changed: Any) -> Seen:
    kept: dict[str, Any] = {
        "code": 7,
        "seconds": 0.2,
        "clean": 0.3,
        "report": {"cause": "failure", "exit_code": 7},
        "messages": ("dsrun: 2 nodes from --host", NAMED),
        "ups": UPS,
    }
    return Seen(**{**kept, **changed})


def test_the_first_line_of_a_stand_in_is_read() -> None:
    assert stand_in("n2:1| @up 1 2 job 5:6,7:8") == UPS[1]
    assert stand_in("n2:1| @up 1") is None
    assert stand_in("a line") is None


def test_a_kept_promise_is_ok() -> None:
    result = judged(row("exit"), seen())
    assert (result.state, result.why, result.code) == ("ok", (), 7)
    assert result.line == NAMED.removeprefix("dsrun: ")
    assert not any_broken([result])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"code": 1}, "exit code 1, not 7"),
        ({"code": None, "seconds": 20.0}, "dsrun did not end within 20.0 s"),
        ({"seconds": 6.0}, "it took 6.0 s, not at most 5"),
        ({"clean": 5.5}, "it took 5.5 s, not at most 5"),
        ({"report": {}}, "the report has the cause None, not 'failure'"),
        ({"report": {"cause": "failure", "exit_code": 1}}, "the report has the exit code 1, not 7"),
        (
            {"messages": ("dsrun: rank 0 (n1, local rank 0) exited with code 7",)},
            "no line with 'rank 1 (n2, ...exited with code 7'; the last one: dsrun: rank 0 (n1,"
            " local rank 0) exited with code 7",
        ),
        (
            {"left": {"n1": [], "n2": ["pid 9 (python3)"] * 5}},
            "left on n2: pid 9 (python3), pid 9 (python3), pid 9 (python3) and 2 more",
        ),
        ({"wrong": ("a node no longer answers",)}, "a node no longer answers"),
    ],
)
def test_a_broken_promise_is_not_ok(changed: dict[str, Any], why: str) -> None:
    result = judged(row("exit"), seen(**changed))
    assert result.state == "not ok"
    assert why in result.why
    assert any_broken([result])
    assert any(why in line for line in runner_table.lines(result))


def test_a_grace_that_was_not_given_is_not_ok() -> None:
    assert judged(row("deaf"), seen()).why == ("it took 0.2 s, not at least 2",)
    assert judged(row("deaf"), seen(seconds=2.1)).state == "ok"


def test_the_code_must_be_that_of_the_named_rank() -> None:
    named = seen(code=41, report={"cause": "failure", "exit_code": 41})
    assert judged(row("together"), named).state == "not ok"
    line = "dsrun: rank 1 (n2) exited with code 41"
    assert judged(row("together"), named._replace(messages=(line,))).state == "ok"


def test_a_signal_is_a_code_as_a_shell_has_it() -> None:
    assert judged(row("dsrun"), seen(code=-9)).state == "ok"


def test_each_rank_must_tell_once() -> None:
    done = seen(code=0, report={"cause": "none", "exit_code": 0}, output=("n1:0| @done",))
    (why,) = judged(row("healthy"), done).why
    assert why == "@done was printed by the ranks [0], not by each of 2 once"
    both = done._replace(output=("n2:1| @done", "n1:0| @done"))
    assert judged(row("healthy"), both).state == "ok"
    assert judged(row("healthy"), both._replace(output=(*both.output, "n1:0| @done"))).why


@pytest.mark.parametrize("alarm", ["failures", "lost", "hangs", "slow"])
def test_a_false_alarm_is_not_ok(alarm: str) -> None:
    report = {"cause": "none", "exit_code": 0, alarm: [{}]}
    done = seen(code=0, report=report, output=("n1:0| @done", "n2:1| @done"))
    assert judged(row("healthy"), done).why == (f"a false alarm: the report has {alarm}",)


@pytest.mark.parametrize("fault", ["", "lost", "twice", "swapped"])
def test_output_must_be_whole_and_in_order(fault: str) -> None:
    lines = [f"n{rank}:{rank}| line {i}" for i in range(LINES // 2) for rank in (0, 1)]
    if fault == "lost":
        del lines[77]
    elif fault == "twice":
        lines.insert(77, lines[77])
    elif fault == "swapped":
        lines[76], lines[78] = lines[78], lines[76]
    report = {"cause": "none", "exit_code": 0}
    output = (*lines, "n0:0| @done", "n1:1| @done")
    result = judged(row("output"), seen(code=0, report=report, output=output))
    assert (result.state == "ok") == (fault == "")
    assert len(result.why) == bool(fault)


def test_a_stand_in_that_cannot_do_its_part_skips_the_row() -> None:
    skipped = judged(row("guard"), seen(output=("n2:1| @skip no such guard",)))
    assert (skipped.state, skipped.why) == ("skipped", ("no such guard",))
    assert not any_broken([skipped])
    assert runner_table.summary([skipped], 2.0) == "0 promises kept, 1 skipped (guard) in 2 s"


def test_the_table_tells_promise_and_sight() -> None:
    first, promise, sight, line = runner_table.lines(judged(row("exit"), seen()))
    assert first.split()[:2] == ["exit", "ok"]
    assert promise.strip() == (
        "promised: code 7, and a line with 'rank RANK (HOST, ...exited with code 7';"
        " nothing left, within 5 s"
    )
    assert sight.strip() == "seen:     code 7 after 0.2 s; nothing left after 0.3 s"
    assert line.strip().startswith("rank 1 (n2, ")


def test_the_documentation_has_the_rows() -> None:
    page = (CHECKOUT / "docs" / "promises.md").read_text(encoding="utf-8")
    assert "\n".join(runner_table.as_markdown(ROWS)) in page
