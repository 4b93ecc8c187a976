"""A root file system for stand-ins of container runtimes: a folder that gets /usr of its host."""

from __future__ import annotations

from pathlib import Path

OF_IMAGE = "PATH=/usr/local/bin:/usr/bin:/bin\nLD_LIBRARY_PATH=/of/the/image\nPYTORCH_VERSION=2\n"
"""The variables of the image; pyxis makes up ranks for one of PyTorch."""

LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders that are links into /usr on all distributions with Python 3.10 or newer."""


def root_folder(place: Path) -> Path:
    """Make a root file system with the file /inside, and with folders to mount on."""
    for name in ("dev", "etc", "proc", "root", "run/home", "sys", "tmp", "usr"):
        (place / name).mkdir(parents=True)
    for link in (Path("/", name) for name in LINKS):
        if link.is_symlink():
            (place / link.name).symlink_to(link.readlink())
    (place / "inside").touch()
    (place / "etc/environment").write_text(OF_IMAGE)
    (place / "etc/hosts").touch()
    (place / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    return place
