"""The core stays small: ratchets on its modules and lines of code, and no arrow leads out of it.

The list of its modules is in pyproject.toml, where the lint holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .support import core

if TYPE_CHECKING:
    from pathlib import Path

APART = "cli.options"
"""The table of options, which is data: it counts as no part of the core's size."""

MODULES, LINES = 142, 14043
"""How large the core is: modules with code, and their lines of code. They only go down: to 120
modules with 12,500 lines."""

FEW_MODULES, FEW_LINES = 1, 40
"""How far below that it may be before the numbers here are lowered."""


def test_the_core_only_becomes_smaller() -> None:
    listed = core.listed(core.contract()["core"])
    assert APART in listed
    modules, lines = core.size({*listed} - {APART})
    assert MODULES - FEW_MODULES <= modules <= MODULES
    assert LINES - FEW_LINES <= lines <= LINES


def test_no_arrow_leads_out_of_the_core() -> None:
    assert core.faults(core.listed(core.contract()["core"])) == ([], [])


def test_each_module_of_the_core_is_listed_once() -> None:
    listed = core.listed(core.contract()["core"])
    assert sorted(listed) == sorted({*listed})


def test_what_is_listed() -> None:
    assert core.listed([": runner", "node: guard main", "node: x"]) == [
        *("runner", "node.guard", "node.main", "node.x")
    ]


MODULE = """from __future__ import annotations
import os
from .. import words
from ..far import near, value
from .same import X
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .types import T
try:
    from . import tried
except ImportError:
    from dsrun.launcher.by import name
def f():
    from . import later
"""


def test_what_a_module_imports_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "LAUNCHER", tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_text(MODULE)
    known = {"words", "far", "far.near", "a.same", "a.types", "a.tried", "by.name", "a.later"}
    found = {"words", "far", "far.near", "a.same", "a.tried", "by.name"}
    assert core.at_once(tmp_path / "a" / "b.py", known) == found


def test_an_arrow_out_of_the_core_is_a_fault_and_so_is_an_unknown_name() -> None:
    found = core.faults(["head.job.ending", "no_such"])
    assert found.unknown == ["no_such"]
    assert "head.job.ending -> head.doors" in found.arrows
