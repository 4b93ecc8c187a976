"""Control groups that tests make."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def removed(group: Path) -> bool:
    """Remove a control group, unless a process is still in it; whether it is gone."""
    with suppress(OSError):
        group.rmdir()
    return not group.exists()
