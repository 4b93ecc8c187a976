"""The pages that people write: their links lead somewhere, and their commands can be parsed."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.parser import parse

from ..support.checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

README = CHECKOUT / "README.md"
PAGES = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")])
GENERATED = "<!-- Written by "


LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def anchors(path: Path) -> set[str]:
    """Return the names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", text(path), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", one.lower()) for one in headings]
    return {one.replace(" ", "-") for one in plain}


def broken(path: Path) -> Iterator[str]:
    """Return the relative links of a page that lead nowhere."""
    for link in LINK.findall(text(path)):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if ":" not in link and not (target.exists() and (not anchor or anchor in anchors(target))):
            yield link


def commands(path: Path) -> list[str]:
    """Return the dsrun command lines of a page, from blocks of code and from spans of code."""
    joined = text(path).replace("\\\n", " ")
    lines = joined.splitlines()
    blocks = [line.strip().removeprefix("$ ") for line in lines if line.startswith("    ")]
    blocks += [line for block in SHELL.findall(joined) for line in block.splitlines()]
    spans = [span for line in lines for span in CODE.findall(line)]
    return [one for one in (*blocks, *spans) if one.startswith("dsrun ") and "..." not in one]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    assert not list(broken(path))


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A, b!\n[x](#a-b) [y](#c) [z](none.md) [w](page.md#a-b) [v](https://d.e/f)\n")
    assert list(broken(page)) == ["#c", "none.md"]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_commands_can_be_parsed(path: Path) -> None:
    for line in [] if text(path).startswith(GENERATED) else commands(path):
        parse(shlex.split(line, comments=True)[1:], {})


def test_readme_has_commands() -> None:
    assert len(commands(README)) >= 8


def test_readme_names_every_page() -> None:
    pages = {path.resolve() for path in (CHECKOUT / "docs").glob("*.md")}
    linked = {(CHECKOUT / link.partition("#")[0]).resolve() for link in LINK.findall(text(README))}
    assert pages <= linked
