"""The programs of docs/programs.md, and the environment that has those that tests run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .checkout import CHECKOUT
from .needs import need_modules
from .recipes import recipes

if TYPE_CHECKING:
    from .recipes import Recipe

PAGE = CHECKOUT / "docs" / "programs.md"
FOLDER = CHECKOUT / ".venv" / "programs"
PYTHON = str(FOLDER / "bin" / "python")


def program(title: str) -> Recipe:
    """Return the section of the page about a program."""
    return recipes(PAGE)[title]


def need_program(module: str) -> None:
    """Skip the running test unless `make programs` has installed this; in CI, fail it."""
    need_modules(module, among=[*map(str, FOLDER.glob("lib/python3.*/site-packages"))])
