"""File systems that do not answer: ext4 that is frozen, and FUSE whose server says nothing."""

from __future__ import annotations

import ctypes
import os
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


@contextmanager
def silent(folder: Path) -> Iterator[Path]:
    """Within the block, a file system is mounted below this folder that answers no question at all.

    Whoever asks waits until he is killed, or the block is left.
    """
    point = folder / "silent"
    point.mkdir()
    try:
        server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        pytest.skip("there is no FUSE here")
    try:
        data = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
        mount = ctypes.CDLL(None, use_errno=True).mount
        if mount(b"silent", os.fsencode(point), b"fuse", ctypes.c_ulong(0), data):
            pytest.skip(f"FUSE cannot be mounted here: {os.strerror(ctypes.get_errno())}")
        yield point
    finally:
        os.close(server)
        subprocess.run(["umount", "--lazy", point], check=False)
