"""Reading the kernel's small files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dsrun.accelerator.hardware import sysfs

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_of_proc_is_read_beyond_its_first_page() -> None:
    """The kernel returns this file in parts; that of a Python has a hundred lines."""
    assert len(sysfs.text("/proc/self/maps")) > os.sysconf("SC_PAGE_SIZE")


def test_a_long_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("0" * 100_000)
    assert sysfs.text(str(tmp_path / "long")) == "0" * 65536


def test_a_line_comes_without_its_end(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("4: ACTIVE\n")
    assert sysfs.line(str(tmp_path / "state")) == "4: ACTIVE"


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert sysfs.text(str(tmp_path / "none")) == ""
    assert sysfs.text(str(tmp_path)) == ""
    assert sysfs.names(str(tmp_path / "none")) == []
