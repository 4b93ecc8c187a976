"""The report of a job in words."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher.common.formats import as_json
from dsrun.launcher.head.report.document import fields
from dsrun.launcher.head.report.report import JobReport, Loss
from dsrun.launcher.head.report.words import done, words
from dsrun.launcher.specs.program import Program

from ...support.reports import LOSS, failure, report


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
  could not be stopped: w0: pid 3, state D
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
  could not be stopped: w0: pid 3""",
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
def test_in_words(ended: JobReport, text: str) -> None:
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


def test_a_hint_stands_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "util.py").touch()
    ended = failure(stderr="ModuleNotFoundError: No module named 'util'")
    *_, why, advice = words(report(failures=(ended,), ran=(Program("t.py"), str(tmp_path)))).split(
        "\n"
    )
    assert why.startswith(f"  why: util is in {tmp_path}, which python does not search")
    assert advice.startswith("  try: use --export PYTHONPATH=")


def test_what_the_node_has_found_stands_at_the_end() -> None:
    found = ("memory: the kernel ended \x1b[2Jpython3", "core: /tmp/\x1b[2Jcore.12", "odd")
    ended = failure(code=-9, evidence=found)
    lines = words(report(failures=(ended,))).split("\n")
    assert lines[-3:-1] == [
        "  its core dump: w1:/tmp/\\x1b[2Jcore.12",
        "  why: the kernel ended \\x1b[2Jpython3",
    ]
    verdict: Any = as_json(fields(report(failures=(ended,))))["verdict"]
    assert verdict["class"] == "memory"


def test_a_good_end_on_several_hosts_is_a_line() -> None:
    well = report()
    assert done(well) == "done after 13.2 s: 8 workers on 2 hosts"
    assert done(well._replace(restarts=1)).startswith("done after 1 restart and 13.2 s: ")
    assert done(well._replace(losses=(LOSS,))) == "done after 13.2 s: 8 workers"


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (report(failures=(failure(),), restarts=2), "exited with code 7 after 2 restarts and 12.5"),
        (report(losses=(LOSS,), restarts=1), " after 1 restart and "),
        (report(stop_signal=15, stopped=1, restarts=3), "by SIGTERM after 3 restarts and "),
    ],
)
def test_the_restarts_of_an_elastic_job_are_counted(ended: JobReport, told: str) -> None:
    assert told in words(ended).split("\n")[0]
    assert as_json(fields(ended))["restarts"] == ended.restarts
    assert "restarts" not in as_json(fields(ended._replace(restarts=0)))


def test_what_a_screen_still_shows_is_not_repeated() -> None:
    ended = report(failures=(failure(stderr="a\nb\n"),))
    asked: list[list[str]] = []

    def shown(lines: list[str]) -> bool:
        asked.append(lines)
        return True

    assert words(ended, shown).split("\n")[1:] == ["  the end of its standard error is above"]
    assert asked == [["a", "b"]]
