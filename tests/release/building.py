"""Wheel and source archive of the checkout: their bytes follow from its files and one time."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..support.checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOMS = ("launcher", "accelerator")
FOLDERS = (*ROOMS, "share", "docs/schemas")
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE")
"""What is copied to be built, as far as it is there."""

LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*")

EARLIEST = 315532800
"""1980, before which an archive of zip, as a wheel is, knows no time."""


class Archives(NamedTuple):
    """The two files of a version."""

    wheel: Path
    sdist: Path


def moment() -> int:
    """Return the time of all files in the archives: SOURCE_DATE_EPOCH, or that of the commit.

    It is in seconds since 1970 (https://reproducible-builds.org/specs/source-date-epoch/).
    """
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    told = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=CHECKOUT, capture_output=True, check=False
    )
    return int(told.stdout or EARLIEST)


def copy(folder: Path) -> Path:
    """Copy what is needed to build into a new folder, and return it: building leaves files behind.

    Modes are those that git would give with a usual umask.
    """
    for name in FOLDERS:
        shutil.copytree(CHECKOUT / name, folder / name, ignore=LEFT_OUT)
    for name in FILES:
        if (CHECKOUT / name).exists():
            shutil.copy(CHECKOUT / name, folder)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def build(source: Path, out: Path, time: int) -> Archives:
    """Build the source archive from a folder, and the wheel from what is in that archive.

    setuptools has to be installed: nothing is fetched.

    Raises:
        SystemExit: that is not possible; the output of the build says why.
    """
    argv = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
    ran = subprocess.run(
        argv, env=environ, umask=0o022, capture_output=True, text=True, cwd="/", check=False
    )
    if ran.returncode:
        sys.exit(f"{' '.join(argv)}\n{ran.stdout}{ran.stderr}")
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    sdist.write_bytes(settled(sdist.read_bytes(), time))
    return Archives(wheel, sdist)


def settled(archive: bytes, time: int) -> bytes:
    """Return a source archive with one time, no owners, and its members in order.

    setuptools 84 takes SOURCE_DATE_EPOCH for wheels alone.
    """
    unpacked = BytesIO()
    with (
        tarfile.open(fileobj=BytesIO(archive)) as old,
        tarfile.open(fileobj=unpacked, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for one in sorted(old.getmembers(), key=lambda member: member.name):
            content = old.extractfile(one) if one.isfile() else None
            one.pax_headers = {}  # times with fractions
            plain = one.replace(mtime=time, uid=0, gid=0, uname="", gname="", deep=False)
            new.addfile(plain, content)
    return gzip.compress(unpacked.getvalue(), mtime=time)


def build_twice(out: Path) -> Archives:
    """Build in two folders of different names, and keep the archives if they are the same bytes.

    Raises:
        SystemExit: they differ, or cannot be built.
    """
    time = moment()
    with tempfile.TemporaryDirectory(prefix="release-") as first:
        tops = [Path(first, name) for name in ("a", "another/folder")]
        made = [build(copy(top / "source"), top / "built", time) for top in tops]
        if differing := different(*made):
            sys.exit(f"two builds of the same files differ: {', '.join(differing)}")
        out.mkdir(exist_ok=True)
        return Archives(*(Path(shutil.copy(one, out)) for one in made[0]))


def different(first: Sequence[Path], second: Sequence[Path]) -> list[str]:
    """Return the names of the archives whose bytes differ."""
    pairs = zip(first, second, strict=True)
    return [one.name for one, two in pairs if one.read_bytes() != two.read_bytes()]
