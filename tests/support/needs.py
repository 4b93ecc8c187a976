"""Tests that drive a real tool say so, and are skipped by its name where it is not installed."""

import os
import shutil
from importlib.util import find_spec

import pytest


def need(*tools: str) -> None:
    """Skip the running test unless all tools are on PATH; in CI, where they must be, fail it."""
    _settle([tool for tool in tools if shutil.which(tool) is None])


def need_modules(*names: str) -> None:
    """The same for modules of Python."""
    _settle([name for name in names if find_spec(name) is None])


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
