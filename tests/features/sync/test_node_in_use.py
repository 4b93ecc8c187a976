"""What a run holds while its workers are in a copy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.sync.node_folder import SyncFolder
from dsrun.launcher.features.sync.node_in_use import hold

if TYPE_CHECKING:
    from pathlib import Path


def test_several_runs_hold_a_copy(tmp_path: Path) -> None:
    folder = SyncFolder(str(tmp_path), "proj")
    folder.label("digest")
    with pytest.raises(BlockingIOError):
        hold(folder.lock, "digest")
    folder.share()
    fds = [hold(folder.lock, "digest"), hold(folder.lock, "digest")]
    folder.close()
    assert not SyncFolder(str(tmp_path), "proj").claimed
    for fd in fds:
        os.close(fd)
    assert SyncFolder(str(tmp_path), "proj").claimed


@pytest.mark.parametrize("digest", ["other", "diges", "digest2"])
def test_a_copy_with_other_contents_is_not_used(tmp_path: Path, digest: str) -> None:
    folder = SyncFolder(str(tmp_path), "proj")
    folder.label("digest")
    folder.share()
    with pytest.raises(OSError, match="was changed by another job"):
        hold(folder.lock, digest)
    folder.close()
