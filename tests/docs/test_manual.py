"""The manual pages: well-formed, and complete when they are formatted."""

from __future__ import annotations

import re
import subprocess

import pytest

from docs.generate.commands import commands
from docs.generate.manual import escape, files, protect, text
from dsrun.launcher.cli.help.topics import TOPICS

from ..support.needs import need

PAGES = files()
NAMES = {command.name: command for command in commands()}


def formatted(name: str) -> str:
    """A page as a terminal shows it, with blanks alone between words; nothing to complain of."""
    need("groff")
    ran = subprocess.run(
        ["groff", "-man", "-ww", "-Tascii", "-P-cbou"],
        input=PAGES[f"share/man/man1/{name}.1"], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stderr == ""
    return " ".join(ran.stdout.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_every_option_with_its_text(name: str) -> None:
    shown = formatted(name)
    for row in NAMES[name].rows:
        assert " ".join([*", ".join(row.names).split(), row.metavar]).strip() in shown
        first = row.text.split(". ")[0].replace("-", "")
        assert first in re.sub(r"(?<=\w)-\s", "", shown).replace("-", ""), row.names


def test_the_page_of_dsrun_has_every_section() -> None:
    shown = formatted("dsrun")
    titles = ("NAME dsrun - start", "SYNOPSIS dsrun [options] SCRIPT", "EXIT STATUS", "SIGNALS")
    for title in (*titles, "ENVIRONMENT", "FILES", "EXAMPLES", "COMPATIBILITY", "SEE ALSO"):
        assert title in shown
    for topic in TOPICS.values():
        assert topic.title[1:] in shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a-b", "a\\-b"),
        ("~/it's", "\\(ti/it\\(aqs"),
        ("C:\\x", "C:\\ex"),
    ],
)
def test_no_character_has_a_meaning_for_troff(words: str, expected: str) -> None:
    assert escape(words) == expected


def test_a_line_does_not_begin_like_a_request() -> None:
    assert protect(".deepspeed_env") == "\\&.deepspeed_env"
    assert protect("plain") == "plain"


def test_the_names_of_options_are_bold() -> None:
    assert text("see --a_b, not x-y") == "see \\fB\\%\\-\\-a_b\\fR, not x\\-y"
