"""Which file system is full; `tests/cluster/test_deaths.py` fills one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.features.diagnosis import node_disks as disks

MOUNTS = """\
root / ext4 rw 0 0
data /data nfs4 rw 0 0
odd /with\\040space tmpfs rw 0 0
late /data/deep tmpfs rw 0 0
"""


class FakeDisks:
    """File systems, some of which are full; `asked` is which were looked at."""

    def __init__(self, *full: str) -> None:
        self.full = full
        self.asked: list[str] = []

    def statvfs(self, path: str) -> os.statvfs_result:
        self.asked.append(path)
        free = 0 if path in self.full else 1 << 20
        return os.statvfs_result((4096, 4096, 1 << 20, free, free, 9, 9, 9, 0, 255))


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mounts").write_text(MOUNTS)
    return f"{tmp_path}/"


@pytest.mark.parametrize(
    ("full", "output", "environ", "found"),
    [
        ("/", "", {}, "/ (ext4) is full: 0 KiB of 4096 MiB are free"),
        ("/data", "", {}, ""),
        ("/data", "OSError: No space left on device: '/data/a/b.pt'", {}, "/data (nfs4)"),
        ("/data/deep", "", {"HF_HOME": "/data/deep/cache"}, "/data/deep (tmpfs)"),
        ("/with space", "", {"TMPDIR": "/with space/x"}, "/with space (tmpfs)"),
        ("/with space", "", {"TMPDIR": "relative"}, ""),
    ],
)
def test_the_first_full_one(
    monkeypatch: pytest.MonkeyPatch,
    root: str,
    full: str,
    output: str,
    environ: dict[str, str],
    found: str,
) -> None:
    fake = FakeDisks(full)
    monkeypatch.setattr(system, "statvfs", fake.statvfs)
    assert disks.full(output, "/work", environ, root).startswith(found)
    assert bool(disks.full(output, "/work", environ, root)) is bool(found)


def test_one_that_may_not_answer_is_asked_only_if_the_worker_has_named_it(
    monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    fake = FakeDisks()
    monkeypatch.setattr(system, "statvfs", fake.statvfs)
    disks.full("", "/work", {"HOME": "/data/home"}, root)
    assert "/data" not in fake.asked
    disks.full("'/data/x'", "/work", {}, root)
    assert "/data" in fake.asked


def test_files_may_be_used_up(monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    none = os.statvfs_result((4096, 4096, 99, 99, 99, 9, 0, 0, 0, 255))
    monkeypatch.setattr(system, "statvfs", lambda _: none)
    assert disks.full("", "/work", {}, root) == "/ (ext4) is full: it has no room for another file"
