"""The figures of docs/map.md, and of docs/unasked.md, are those of what a job loads."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.backends.package import contents

from ..support.checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ROW = re.compile(r"^\| ([\w ,]+) \| (\d+) \| ([\d,]+) \|$", re.MULTILINE)
UNASKED = re.compile(r"(\d+) modules with ([\d,]+) lines, of which a plain start loads (\d+)")
SLACK = 0.1
"""A part by which a figure may differ, so that not every change of the code changes the page."""


def page(name: str) -> str:
    return (CHECKOUT / "docs" / name).read_text(encoding="utf-8")


def number(text: str) -> int:
    return int(text.replace(",", ""))


def lines_of(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def file_of(module: str) -> Path:
    """Return the file of a module of dsrun."""
    place = module.removeprefix("dsrun.").replace(".", "/")
    if module == "dsrun":
        place = "launcher/toplevel"
    path = CHECKOUT / f"{place}.py"
    return path if path.exists() else CHECKOUT / place / "__init__.py"


def measured() -> dict[str, tuple[int, int]]:
    """Return modules and lines of each part; test_startup records the modules of a plain job."""
    recorded = json.loads((CHECKOUT / "tests" / "recorded" / "start_modules.json").read_text())
    parts = {name: [file_of(module) for module in recorded[name]] for name in recorded}
    parts["package"] = [CHECKOUT / name for name, _ in contents.files(str(CHECKOUT))]
    return {name: (len(paths), lines_of(paths)) for name, paths in parts.items()}


NAMES = {
    "runner": "runner",
    "node launcher, with its guard": "node launcher",
    "all that is sent to a node without dsrun": "package",
}


def test_the_map_has_what_a_job_loads() -> None:
    known = measured()
    rows = {NAMES[name]: figures for name, *figures in ROW.findall(page("map.md"))}
    assert rows.keys() == known.keys()
    for name, figures in rows.items():
        assert [*map(number, figures)] == pytest.approx(known[name], rel=SLACK), name


def test_what_happens_unasked_has_the_same_figures() -> None:
    found = UNASKED.search(page("unasked.md"))
    assert found is not None
    known = measured()
    told = tuple(map(number, found.groups()))
    assert told == pytest.approx((*known["package"], known["node launcher"][0]), rel=SLACK)
