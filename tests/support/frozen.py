"""A file system that does not answer: ext4 on a loop device, which is frozen."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = 16 << 20
TOOLS = ("mkfs.ext4", "fsfreeze", "mount", "umount")


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """Within the block, an ext4 of its own is mounted below this folder."""
    image, point = folder / "image", folder / "disk"
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(SIZE)
    for words in (["mkfs.ext4", "-q", str(image)], ["mount", "-o", "loop", str(image), str(point)]):
        if not all(map(shutil.which, TOOLS)) or subprocess.run(words, check=False).returncode:
            pytest.skip("no file system can be mounted here")
    try:
        yield point
    finally:
        subprocess.run(["umount", "--lazy", point], check=True)


@contextmanager
def frozen(point: Path) -> Iterator[None]:
    """Within the block, whoever writes there waits in the kernel, and cannot be killed."""
    subprocess.run(["fsfreeze", "--freeze", point], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", point], check=True)
