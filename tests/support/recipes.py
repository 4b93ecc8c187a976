"""The recipes of docs/recipes.md, as tests run them: the blocks of the page, in a folder for them.

A block is what stands between two fences, and its language says what it is: `sh` a command,
`text` lines that it prints, `python` a cell of a notebook, and any other a file.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from .checkout import CHECKOUT
from .desk import environment
from .limits import HANG

PAGE = CHECKOUT / "docs" / "recipes.md"
FENCED = re.compile(r"^```([\w-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+(\.\d+)?")
LONG = 900.0
"""Seconds for what DeepSpeed compiles, once, on a busy machine."""


class Block(NamedTuple):
    """What stands between two fences, and which language it is said to be in."""

    language: str
    text: str


class Recipe(NamedTuple):
    """A section of the page.

    Attributes:
        title: its heading.
        blocks: what is between fences there.
    """

    title: str
    blocks: tuple[Block, ...]

    def every(self, language: str) -> list[str]:
        """Return the texts of the blocks in this language, in their order."""
        return [block.text for block in self.blocks if block.language == language]

    def one(self, language: str) -> str:
        """Return the text of the one block in this language."""
        (text,) = self.every(language)
        return text

    def not_in(self, output: str) -> list[str]:
        """Return the lines that the page shows and the output lacks; any number is as good."""
        printed = {_pattern(line) for line in output.splitlines()}
        shown = [line for text in self.every("text") for line in text.splitlines()]
        return [line for line in shown if _pattern(line) not in printed]


def _pattern(line: str) -> str:
    return NUMBER.sub("0", " ".join(line.split()))


def recipes(page: Path = PAGE) -> dict[str, Recipe]:
    """Return the recipes of the page, by their titles."""
    _, *sections = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = [(text.partition("\n")[0], FENCED.findall(text)) for text in sections]
    return {title: Recipe(title, tuple(Block(*one) for one in blocks)) for title, blocks in found}


def recipe(title: str) -> Recipe:
    """Return the recipe under this heading."""
    return recipes()[title]


def offline(desk: Path) -> dict[str, str]:
    """Variables with which nothing is downloaded, and nothing is left outside of the folder.

    Frameworks keep their caches in the home folder. What DeepSpeed compiles is kept with the
    interpreter, for the next run of the tests.
    """
    extensions = f"{sys.prefix}/torch_extensions"
    return environment(desk, HOME=str(desk), HF_HUB_OFFLINE="1", TORCH_EXTENSIONS_DIR=extensions)


def run(recipe: Recipe, desk: Path, limit: float = HANG) -> str:
    """Run the commands of a recipe on this machine; return all that they print.

    Raises:
        AssertionError: one of them has failed, still runs after so many seconds, or lacks a line
            that the page shows.
    """
    printed = "".join(_printed(command, desk, limit) for command in recipe.every("sh"))
    assert recipe.not_in(printed) == [], printed
    return printed


def _printed(command: str, desk: Path, limit: float) -> str:
    started = subprocess.Popen(
        ["sh", "-ec", command],
        cwd=desk,
        env=os.environ | offline(desk),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with started:
        try:
            printed, _ = started.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)  # the nodes end what they have started
            printed, _ = started.communicate()
    assert started.returncode == 0, printed
    return printed
