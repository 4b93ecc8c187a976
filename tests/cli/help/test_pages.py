"""The pages of the help: complete, within the width, and true to the table of options."""

from __future__ import annotations

import re

import pytest

from dsrun.launcher.cli.help.essentials import ESSENTIALS
from dsrun.launcher.cli.help.pages import of_tool, text
from dsrun.launcher.cli.help.rows import groups
from dsrun.launcher.cli.help.rows import row as option_row
from dsrun.launcher.cli.help.tools import TOOLS
from dsrun.launcher.cli.help.topics import TOPICS
from dsrun.launcher.cli.option import Option
from dsrun.launcher.cli.options import all_options, table
from dsrun.launcher.cli.peers import REFUSED

OPTIONS = all_options()
PAGES = ("short", "all", *TOPICS)
OTHERS = {"help", "version", "lr", "local_rank", "gpus-per-node", "nodes", *REFUSED}
"""Names after two dashes that are in the help and not in the table."""


def row(page: str, name: str) -> str:
    """What a page says of an option, on one line."""
    names = rf"^  (?:-\w, )?(?:--\w+, )*--{name}\b"
    found = re.search(rf"{names}.*?(?=^  -|^\S|^$|\Z)", text(page), re.M | re.S)
    assert found is not None, name
    return " ".join(found[0].split())


def test_every_option_is_described_once() -> None:
    names = [name for group in groups().values() for name in group]
    assert names == list(OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_description_is_sentences(name: str) -> None:
    words = option_row(name).text
    assert words[0].isupper() or words.startswith("torchrun's ")
    assert words.endswith(".")
    assert "  " not in words


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_terminal(page: str) -> None:
    lines = text(page).splitlines()
    assert max(map(len, lines)) < 80
    assert not [line for line in lines if line != line.rstrip()]


def test_the_short_page_fits_two_screens() -> None:
    assert len(text("short").splitlines()) <= 48


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_only_options_that_exist(page: str) -> None:
    named = set(re.findall(r"--([A-Za-z][\w-]*)", text(page)))
    assert named <= {*table(), "rdzv_"} | OTHERS


def test_the_complete_page_has_every_name_of_every_option() -> None:
    shown = text("all")
    names = set(re.findall(r"--([a-z_]+)", shown))
    assert names >= {name for name in table() if name[0] != "-"} | set(REFUSED)
    assert {"-H", "-i", "-e", "-m", "-r", "-t", "-q"} <= set(re.findall(r"(-[A-Za-z]), --", shown))


@pytest.mark.parametrize(("name", "option"), OPTIONS.items())
def test_the_complete_page_has_the_default_of_every_value(name: str, option: Option) -> None:
    words = row("all", name)
    assert ("[default: " in words) is (option.kind != "bool")
    if option.kind == "seconds":
        default = f"{option.default:g} s" if option.default is not None else option.unset
        assert f"[default: {default}]" in words


def test_choices_are_shown() -> None:
    assert "One of: auto, always, never." in row("all", "color")


@pytest.mark.parametrize("name", [name for rows in ESSENTIALS.values() for name in rows])
def test_the_short_page_shows_the_value_of_an_option(name: str) -> None:
    assert f"--{name} {OPTIONS[name].metavar}".rstrip() in row("short", name)


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_has_its_options_as_the_complete_page_has_them(name: str) -> None:
    assert len(TOPICS[name].options) >= 8
    for option in TOPICS[name].options:
        assert row(name, option) == row("all", option)


@pytest.mark.parametrize("name", ["launcher", "accelerator", "rdzv_backend", "nproc_per_node"])
def test_suggested_values_are_named_in_the_description(name: str) -> None:
    known = option_row(name)
    assert known.values
    assert [one for one in known.values if one not in known.text] == []


@pytest.mark.parametrize("name", TOOLS)
def test_the_help_of_a_tool_fits_a_screen(name: str) -> None:
    lines = of_tool(name).splitlines()
    assert lines[0].startswith(f"usage: {name}")
    assert len(lines) <= (32 if name == "dsrun-job" else 24)  # a line for each of its verbs
    assert max(map(len, lines)) < 80


def test_the_help_of_a_tool_has_its_options_and_choices() -> None:
    words = " ".join(of_tool("dsrun-topo").split())
    assert "--bind_smt WHICH Use all hardware threads of a core. One of: yes, no." in words
    assert "scale N limit an elastic job to N nodes" in " ".join(of_tool("dsrun-job").split())
