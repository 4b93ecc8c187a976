"""Tests that drive a real tool say so, and are skipped by its name where it is not installed."""

from __future__ import annotations

import os
import shutil
from functools import partial
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence


def need(*tools: str) -> None:
    """Skip the running test unless all tools are on PATH; in CI, where they must be, fail it."""
    _settle([tool for tool in tools if shutil.which(tool) is None])


def need_modules(*names: str, among: Sequence[str] | None = None) -> None:
    """The same for modules of Python, or of another one whose modules are in these folders."""
    found = find_spec if among is None else partial(PathFinder.find_spec, path=among)
    _settle([name for name in names if found(name) is None])


def need_files(*paths: str) -> None:
    """The same for files that a package installs."""
    _settle([path for path in paths if not os.path.exists(path)])  # noqa: PTH110


def _settle(missing: list[str]) -> None:
    if not missing:
        return
    reason = f"not installed: {', '.join(missing)}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
