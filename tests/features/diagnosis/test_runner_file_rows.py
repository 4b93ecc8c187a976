"""Failures of what is read and written; `test_corpus` has more of them."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.diagnosis.runner_file_rows import DISK_ROWS, SHARED_MEMORY_ROWS
from dsrun.launcher.features.diagnosis.runner_row import fits

ENOSPC = "[Errno 28] No space left on device"
ENOENT = "FileNotFoundError: [Errno 2] No such file or directory"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"OSError: {ENOSPC}", "disk-full"),
        (f"OSError: {ENOSPC}: '/dev/shm/x'", "shm-full"),
        (f"{ENOENT}: 'ninja'\n(subprocess.py:1950)", "no-program"),
        (f"{ENOENT}: 'data.bin'\n(subprocess.py:1950)", "no-file"),
        (f"{ENOENT}: 'ninja'\n(train.py:3)", "no-file"),
    ],
)
def test_the_first_row_that_fits(text: str, name: str) -> None:
    rows = (*SHARED_MEMORY_ROWS, *DISK_ROWS)
    raised = text.partition(":")[0]
    assert next(row.name for row in rows if fits(row, text, raised) is not None) == name
