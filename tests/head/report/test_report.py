"""The end of a job: its cause, its exit code, in words and as JSON."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher.head.deaths.verdict import explanation
from dsrun.launcher.head.fleet.node_connection import NodeConnection
from dsrun.launcher.head.report.report import (
    Failure,
    Loss,
    Report,
    as_json,
    crash_json,
    duration,
    words,
)
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.specs.plan import lay_out
from dsrun.launcher.specs.program import Program

HOSTS = ("w0", "w1")


def failure(at: float = 112.5, rank: int = 5, code: int = 7, **more: object) -> Failure:
    facts = {"local_rank": rank % 4, "host": HOSTS[rank // 4], "pid": 4321, **more}
    return Failure(at=at, rank=rank, code=code, **facts)  # type: ignore[arg-type]


def explained(ended: Report) -> Report:
    return ended._replace(explanation=explanation(ended))


def report(**more: object) -> Report:
    facts = {"job_id": "j", "world_size": 8, "hosts": HOSTS, "began": 100.0, "ended": 113.25}
    return Report(**{**facts, **more})  # type: ignore[arg-type]


# -- exit codes ---------------------------------------------------------------------------------

LOSS = Loss(110.0, "w1", "gone")


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (report(), 0),
        (report(failures=(failure(code=7),)), 7),
        (report(failures=(failure(code=255),)), 255),
        (report(failures=(failure(code=-9),)), 137),
        (report(failures=(failure(code=-11),)), 139),
        (report(failures=(failure(code=-64),)), 192),
        (report(failures=(failure(at=111, code=3), failure(at=110, code=4))), 4),
        (report(failures=(failure(at=110, code=4), failure(at=111, code=3))), 4),
        (report(failures=(failure(at=109, code=4),), losses=(LOSS,)), 4),
        (report(failures=(failure(at=111, code=4),), losses=(LOSS,)), 75),
        (report(losses=(LOSS,)), 75),
        (report(left=("w0: pid 3",)), 75),
        (report(left=("w0: pid 3",), failures=(failure(code=7),)), 7),
        (report(stop_signal=signal.SIGINT), 130),
        (report(stop_signal=signal.SIGTERM), 143),
        (report(stop_signal=signal.SIGTERM, stop_is_clean=True), 0),
        (report(stop_signal=signal.SIGTERM, failures=(failure(code=7),), losses=(LOSS,)), 143),
        (report(stop_is_clean=True), 0),
        (report(broken_pipe=True), 141),
        (report(broken_pipe=True, failures=(failure(code=7),)), 141),
        (report(broken_pipe=True, stop_signal=signal.SIGINT), 130),
    ],
)
def test_exit_codes(ended: Report, code: int) -> None:
    assert ended.exit_code == code
    assert as_json(ended)["exit_code"] == code


def test_the_cause_is_the_first_by_the_runners_clock_whatever_arrives_first() -> None:
    """Two nodes with clocks of their own: the one that tells last may have failed first."""
    slow, fast = (NodeConnection(node) for node in lay_out([Host("w0", (0,)), Host("w1", (0,))]))
    for clock, now in [(5000.0, 100.5), (5001.0, 101.1), (5002.0, 109.0)]:
        slow.read_clock(clock, now)
    fast.read_clock(7.0, 100.2)
    assert (slow.offset, fast.offset) == (101.1 - 5001.0, 100.2 - 7.0)
    first = failure(at=5010.0 + slow.offset, rank=0, code=1)
    then = failure(at=17.0 + fast.offset, rank=4, code=2)
    ended = report(failures=(then, first))
    assert ended.first == ended.cause == first
    assert ended.exit_code == 1


# -- in words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        (report(), ""),
        (report(broken_pipe=True, failures=(failure(),)), ""),
        (
            report(failures=(failure(),)),
            """\
dsrun: rank 5 (w1, local rank 1, pid 4321) exited with code 7 after 12.5 s
  it printed nothing""",
        ),
        (
            report(
                failures=(failure(stderr="a\nb\n\n", stdout="x", log="/l/rank-0005.err"),),
                stopped=7,
            ),
            """\
dsrun: rank 5 (w1, local rank 1, pid 4321) exited with code 7 after 12.5 s; 7 other ranks stopped
  the end of its standard error:
    a
    b
  its log: w1:/l/rank-0005.err (and .out)""",
        ),
        (
            report(
                failures=(failure(172.9, rank=0, code=-9, hint="oom", stderr=" \n", stdout="x"),),
                stopped=1,
            ),
            """\
dsrun: rank 0 (w0, local rank 0, pid 4321) was killed by SIGKILL (signal 9) (oom) \
after 1 min 12 s; 1 other rank stopped
  the end of its standard output:
    x""",
        ),
        (
            report(
                failures=(failure(), failure(at=113, rank=0), failure(at=114, rank=1)), stopped=5
            ),
            """\
dsrun: rank 5 (w1, local rank 1, pid 4321) exited with code 7 after 12.5 s; \
2 other ranks failed later, 5 other ranks stopped
  it printed nothing""",
        ),
        (
            report(failures=(failure(at=100 + 7384, code=-99, hint="why"),)),
            """\
dsrun: rank 5 (w1, local rank 1, pid 4321) was killed by an unknown signal (signal 99) (why) \
after 2 h 3 min
  it printed nothing""",
        ),
        (
            report(failures=(failure(code=126, pid=0, hint="not started: /x: no such file"),)),
            """\
dsrun: rank 5 (w1, local rank 1) was not started: /x: no such file""",
        ),
        (
            report(losses=(Loss(110.0, "w1", "no heartbeat for 15 s"),), stopped=4),
            "dsrun: lost w1 after 10.0 s: no heartbeat for 15 s; 4 other ranks stopped",
        ),
        (
            report(
                losses=(LOSS,),
                failures=(failure(),),
                left=("w0: pid 3, state D",),
                unseen=("may still be running on w1: pid 4",),
            ),
            """\
dsrun: lost w1 after 10.0 s: gone; 1 other rank failed later
  could not be ended: w0: pid 3, state D
  may still be running on w1: pid 4""",
        ),
        (
            report(stop_signal=signal.SIGTERM, stopped=8, failures=(failure(stderr="x"),)),
            "dsrun: stopped by SIGTERM after 13.2 s: 8 ranks told to stop",
        ),
        (
            report(stop_signal=15, stop_reason="dsrun-hold --release", stopped=8),
            "dsrun: stopped by dsrun-hold --release after 13.2 s: 8 ranks told to stop",
        ),
        (
            report(stop_signal=signal.SIGINT, stopped=1, left=("w0: pid 3",)),
            """\
dsrun: stopped by SIGINT after 13.2 s: 1 rank told to stop
  could not be ended: w0: pid 3""",
        ),
        (
            report(stop_signal=signal.SIGINT),
            "dsrun: stopped by SIGINT after 13.2 s, before any rank had started",
        ),
        (
            report(stop_signal=signal.SIGINT, done=((3.0, 0, "w0"),)),
            "dsrun: stopped by SIGINT after 13.2 s",
        ),
    ],
)
def test_in_words(ended: Report, text: str) -> None:
    assert words(ended) == text


def test_only_the_end_of_what_it_printed() -> None:
    shown = words(report(failures=(failure(stderr="".join(f"{at}\n" for at in range(30))),)))
    assert shown.splitlines()[1:] == [
        "  the end of its standard error:",
        *(f"    {at}" for at in range(10, 30)),
    ]


@pytest.mark.parametrize(
    ("message", "traceback", "stderr", "shown"),
    [
        ("E: x", "Traceback:\n  f\nE: x\n", "other", ["Traceback:", "  f", "E: x"]),
        ("by a signal", "", "other", ["by a signal"]),
        ("E: x", "", "Traceback:\nE: x\n", []),
        ("", "", "other", []),
        ("\x1b[1mE", "\x1b[2J", "", ["?"]),
    ],
)
def test_what_was_recorded_is_shown_but_where_the_output_ends_with_it(
    message: str, traceback: str, stderr: str, shown: list[str]
) -> None:
    one = failure(code=1, stderr=stderr, message=message, traceback=traceback)
    lines = words(report(failures=(one,))).split("\n")
    head = "  the exception recorded by @record:"
    assert (head in lines) is bool(shown)
    assert "\x1b" not in "".join(lines)
    if shown and shown != ["?"]:
        at = lines.index(head) + 1
        assert lines[at : at + len(shown)] == [f"    {line}" for line in shown]


# -- as JSON ------------------------------------------------------------------------------------


def test_as_json() -> None:
    first = failure(
        code=-9,
        hint="oom",
        stderr="e",
        stdout="o",
        log="/l/rank-0005.err",
        evidence=("disk: full",),
        message="m",
        traceback="t",
    )
    ended = report(failures=(failure(at=113.0, rank=0, code=3), first), stopped=6, left=("x",))
    as_first = {
        "rank": 5,
        "local_rank": 1,
        "host": "w1",
        "pid": 4321,
        "code": None,
        "signal": "SIGKILL",
        "exit_code": 137,
        "after_seconds": 12.5,
        "hint": "oom",
        "stderr": "e",
        "stdout": "o",
        "message": "m",
        "traceback": "t",
        "log": "/l/rank-0005.err",
        "evidence": ["disk: full"],
    }
    as_second = {
        "rank": 0,
        "local_rank": 0,
        "host": "w0",
        "pid": 4321,
        "code": 3,
        "signal": None,
        "exit_code": 3,
        "after_seconds": 13.0,
        "hint": "",
        "stderr": "",
        "stdout": "",
        "message": "",
        "traceback": "",
        "log": "",
        "evidence": [],
    }
    assert as_json(ended) == {
        "job_id": "j",
        "exit_code": 137,
        "seconds": 13.25,
        "world_size": 8,
        "hosts": ["w0", "w1"],
        "cause": "failure",
        "first_failure": as_first,
        "failures": [as_first, as_second],
        "lost": [],
        "stopped": 6,
        "signal": None,
        "left": ["x"],
        "unseen": [],
        "verdict": {"class": "unknown", "retry": "unknown", "sentence": "", "advice": ""},
    }


@pytest.mark.parametrize(
    ("ended", "cause", "number"),
    [
        (report(), "none", None),
        (report(losses=(LOSS,), failures=(failure(),)), "lost", None),
        (report(stop_signal=15, failures=(failure(),)), "signal", 15),
        (report(broken_pipe=True, losses=(LOSS,)), "broken pipe", None),
    ],
)
def test_causes_as_json(ended: Report, cause: str, number: int | None) -> None:
    shown = as_json(ended)
    assert (shown["cause"], shown["signal"]) == (cause, number)
    assert shown["lost"] == [{"host": one.host, "reason": one.reason} for one in ended.losses]


def test_a_hint_stands_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "util.py").touch()
    ended = failure(stderr="ModuleNotFoundError: No module named 'util'")
    *_, why, advice = words(
        explained(report(failures=(ended,), ran=(Program("t.py"), str(tmp_path))))
    ).split("\n")
    assert why.startswith(f"  why: util is in {tmp_path}, which python does not search")
    assert advice.startswith("  try: give --export PYTHONPATH=")


def test_what_the_node_has_found_stands_at_the_end() -> None:
    found = ("memory: the kernel ended \x1b[2Jpython3", "core: /tmp/\x1b[2Jcore.12", "odd")
    ended = failure(code=-9, evidence=found)
    lines = words(explained(report(failures=(ended,)))).split("\n")
    assert lines[-3:-1] == [
        "  its core dump: w1:/tmp/\\x1b[2Jcore.12",
        "  why: the kernel ended \\x1b[2Jpython3",
    ]
    verdict: Any = as_json(explained(report(failures=(ended,))))["verdict"]
    assert verdict["class"] == "memory"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min 0 s"),
        (3599.9, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (90_000, "25 h 0 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_crash_as_json() -> None:
    assert crash_json("j", ValueError("two\nlines \x1b[2J")) == {
        "job_id": "j",
        "exit_code": 70,
        "cause": "internal error",
        "error": "ValueError: two lines \\x1b[2J",
    }


def test_a_code_is_a_code_or_a_signal() -> None:
    ended = report(failures=(failure(code=0), failure(at=120.0, code=-9)))
    rows: Any = as_json(ended)["failures"]
    fields = ("code", "signal", "exit_code")
    assert [tuple(row[name] for name in fields) for row in rows] == [
        (0, None, 0),
        (None, "SIGKILL", 137),
    ]


def test_what_a_screen_still_shows_is_not_repeated() -> None:
    ended = report(failures=(failure(stderr="a\nb\n"),))
    asked: list[list[str]] = []

    def shown(lines: list[str]) -> bool:
        asked.append(lines)
        return True

    assert words(ended, shown).split("\n")[1:] == ["  the end of its standard error is above"]
    assert asked == [["a", "b"]]
