"""Which lines are steps, and how far behind a rank is."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.watch import runner_steps as steps
from dsrun.launcher.features.watch.runner_steps import Steps


def fed(*lines: str, rank: int = 0) -> Steps:
    """What has read these lines, one each second."""
    made = Steps()
    for at, line in enumerate(lines):
        made.feed(rank, 1, f"{line}\n".encode(), float(at))
    return made


@pytest.mark.parametrize(
    "form",
    [
        "step {}",
        "[rank 3] epoch 1 step {}/1000 loss 0.{}7 lr 1e-05",
        "2026-11-22 10:0{}:59,123 INFO step {}",
        "{}.5% | {}/400 [00:0{}<01:23, 3.4it/s]",
        "  {}%| {}/400",
    ],
)
def test_a_number_that_grows_evenly_counts_steps(form: str) -> None:
    made = fed(*(form.replace("{}", str(number)) for number in (1, 2, 3, 4)))
    assert made.count == 2
    assert made.best.marks[0].value == 4


@pytest.mark.parametrize(
    "lines",
    [
        ("step 1", "step 2"),
        ("step 5", "step 5", "step 5", "step 5"),
        ("took 17 ms", "took 12 ms", "took 19 ms", "took 14 ms"),
        ("step 9", "step 6", "step 3", "step 0"),
        ("loss 0.1", "loss 0.2", "loss 0.3", "loss 0.4"),
        ("no number",) * 4,
        ("a 1", "b 2", "c 3", "d 4"),
    ],
)
def test_other_lines_are_no_steps(lines: tuple[str, ...]) -> None:
    assert fed(*lines).count == 0


def test_blocks_end_anywhere_and_progress_bars_count() -> None:
    made = Steps()
    for block in (b"\rstep 1\rst", b"ep 2\r", b"step 3\nstep", b" 4\n"):
        made.feed(0, 2, block, 1.0)
    assert made.count == 2


def test_a_rank_is_behind_the_first_one_with_the_same_step() -> None:
    made = Steps()
    for step in range(6):
        made.feed(0, 1, f"step {step}\n".encode(), 10.0 + step)
        made.feed(1, 1, f"step {step}\n".encode(), 10.25 + step)
    assert made.best.lags(15.3) == {0: 0.0, 1: 0.25}
    for step in range(6, 9):
        made.feed(0, 1, f"step {step}\n".encode(), 10.0 + step)
    assert made.best.lags(18.0) == {0: 0.0, 1: 2.0}


def test_the_series_of_most_ranks_is_the_best() -> None:
    made = Steps()
    for step in range(9):
        made.feed(0, 1, f"saved {step}\n".encode(), 1.0)
    for step in range(5):
        for rank in (0, 1):
            made.feed(rank, 1, f"step {step}\n".encode(), 1.0)
    assert made.best.marks.keys() == {0, 1}
    assert made.count == 7
    assert Steps().best.lags(1.0) == {}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST_SHAPES", 3)
    monkeypatch.setattr(steps, "MOST_VALUES", 4)
    made = Steps()
    for at in range(50):
        for word in range(6):
            made.feed(0, 1, f"{'x' * word} {at}\n".encode(), float(at))
    for at in range(50):
        made.feed(1, 1, f"step {at}\n".encode() + b"9" * 10_000, float(at))
    assert made.count == 0, "a line without end hides the next one"
    for at in range(50):
        made.feed(2, 1, f"step {at}\n".encode(), float(at))
    assert made.count == 48
    assert len(made.best._first) <= 4
    assert len(made._shapes[0]) == 3
    made.feed(3, 1, b"\n".join(b"step %d" % at for at in range(10_000)) + b"\n", 1.0)
    assert made.best.marks[3].printed <= steps.MOST_LINES
