"""One option as the help shows it."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.help.rows import of, row
from dsrun.launcher.cli.option import Option, option


def test_a_row_has_all_that_the_tables_know() -> None:
    assert row("export").repeatable
    assert row("grace").names == ("--grace", "--shutdown_timeout")
    assert row("tee").names == ("-t", "--tee")
    assert row("color").words.endswith(" One of: auto, always, never. [default: auto]")
    assert row("launcher").values[:2] == ("auto", "local")
    assert row("quiet").words == row("quiet").text


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (option(True, "Text."), ""),
        (option(1.5, "Text."), "1.5 s"),
        (option("a b ", "Text.", "TEXT"), "'a b '"),
        (option(0, "Text."), "0"),
        (option(None, "Text.", kind="int", unset="all"), "all"),
    ],
)
def test_a_default_is_shown_as_it_is_typed(made: Option, expected: str) -> None:
    assert of("name", made).default == expected


@pytest.mark.parametrize("empty", [None, "", ()])
def test_a_default_that_says_nothing_needs_words(empty: object) -> None:
    with pytest.raises(ValueError, match=r"^--name: "):
        of("name", option(empty, "Text.", "TEXT"))
