"""Output of ranks, printed by the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.api.events import Output
from dsrun.launcher.api.output import Printer

if TYPE_CHECKING:
    import pytest


def test_lines_are_labelled_and_go_where_the_ranks_wrote_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printer = Printer()
    printer.label(0, "n0:0| ", [1, 2])
    printer.label(1, "n1:1| ", [1])
    printer.output(Output(0, 1, b"whole\npar"))
    printer.output(Output(0, 2, b"oops\n"))
    printer.output(Output(1, 2, b"not shown\n"))
    printer.output(Output(2, 1, b"of no known rank\n"))
    printer.message("one\ntwo")
    assert capsys.readouterr() == ("n0:0| whole\n", "n0:0| oops\ndsrun: one\ndsrun: two\n")
    printer.output(Output(0, 1, b"t"))
    printer.finish("dsrun: rank 0 failed")
    assert capsys.readouterr() == ("n0:0| part\n", "dsrun: rank 0 failed\n")


def test_nothing_is_printed_of_a_job_that_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Printer().finish("")
    assert capsys.readouterr() == ("", "")


def test_what_may_harm_a_terminal_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer()
    printer.label(0, "", [1])
    printer.output(Output(0, 1, b"a\x1b]0;title\x07b \x1b[31mred\xff\n"))
    assert capsys.readouterr().out == "ab \x1b[31mred\N{REPLACEMENT CHARACTER}\n"


def test_nor_in_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    Printer().finish("rank 0 failed\n  \x1b]0;title\x07")
    assert capsys.readouterr().err == "rank 0 failed\n  \\x1b]0;title\\x07\n"


def test_a_program_without_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    Printer().message("unseen")
