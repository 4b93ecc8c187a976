"""One option as the help shows it."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.help.description import Description
from dsrun.launcher.cli.help.rows import default, row
from dsrun.launcher.cli.option import Option


def test_a_row_has_all_that_the_tables_know() -> None:
    assert row("export").repeatable
    assert row("grace").names == ("--grace", "--shutdown_timeout")
    assert row("tee").names == ("-t", "--tee")
    assert row("color").words.endswith(" One of: auto, always, never. [default: auto]")
    assert row("launcher").values[:2] == ("auto", "local")
    assert row("quiet").words == row("quiet").text


@pytest.mark.parametrize(
    ("option", "otherwise", "expected"),
    [
        (Option(True, "bool", ""), "", ""),
        (Option(1.5, "seconds", "DURATION"), "", "1.5 s"),
        (Option("a b ", "str", "TEXT"), "", "'a b '"),
        (Option(0, "int", "N"), "", "0"),
        (Option(None, "int", "N"), "all", "all"),
    ],
)
def test_a_default_is_shown_as_it_is_typed(option: Option, otherwise: str, expected: str) -> None:
    assert default("name", option, Description("Text.", otherwise)) == expected


@pytest.mark.parametrize("empty", [None, "", ()])
def test_a_default_that_says_nothing_needs_words(empty: object) -> None:
    with pytest.raises(ValueError, match=r"^--name: "):
        default("name", Option(empty, "str", "TEXT"), Description("Text."))
