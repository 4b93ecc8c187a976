"""Tests that drive a real tool say so, and are skipped by its name where it is not installed."""

import os
import shutil

import pytest


def need(*tools: str) -> None:
    """Skip the running test unless all tools are on PATH; in CI, where they must be, fail it."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if not missing:
        return
    reason = f"not installed: {', '.join(missing)}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
