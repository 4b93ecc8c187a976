"""A folder in which the examples are run as their own text says: `dsrun examples/...`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from .checkout import BIN, CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path


def lay_out(folder: Path) -> Path:
    """Make a folder look like the checkout, with a `dsrun` in `bin` that finds what it needs."""
    (folder / "examples").symlink_to(CHECKOUT / "examples")
    command = folder / "bin" / "dsrun"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {BIN / "dsrun"} "$@"\n')
    command.chmod(0o755)
    return folder


def environment(desk: Path, **more: str) -> dict[str, str]:
    """Variables with which the folder's own `dsrun` is run, and torch leaves nothing in /tmp."""
    path = f"{desk}/bin:{os.environ['PATH']}"
    return {"PATH": path, "TORCHINDUCTOR_CACHE_DIR": f"{desk}/inductor", **more}
