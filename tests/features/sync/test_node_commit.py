"""A change of a copy that is cut off anywhere: the next sync completes it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.private_folder import private_folder
from dsrun.launcher.features.sync.manifest import FILE, ManifestEntry
from dsrun.launcher.features.sync.node_changes import Changes
from dsrun.launcher.features.sync.node_commit import complete, made_copy, missing
from dsrun.launcher.features.sync.node_folder import SyncFolder
from dsrun.launcher.features.sync.runner_source import SyncSource

from ...support.played_sync import PlayedSync, contents, fill, run_program, spec, sync

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "open"}
"""What a sync does to files, as the interpreter reports it."""


def _killed_at(step: int, source: SyncSource, cache: Path) -> bool:
    """Sync in a process that is killed before so many steps; return whether it was."""
    played = PlayedSync(source)
    child = os.fork()
    if child == 0:
        left = [step]

        def count(event: str, _arguments: object) -> None:
            if event in STEPS:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            run_program(played, cache)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory: what is flushed to a disk many times takes long."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.tier("ci")
def test_a_kill_at_any_step_leaves_nothing_half_done(memory: Path) -> None:
    here = fill(memory / "proj", {"a.py": "1", "src/b.py": "1", "gone/c.py": "1", "kind": "file"})
    base = memory / "before"
    sync(here, base)
    fill(base / "dsrun/sync/proj-key/proj", {"checkpoint": "10", "gone/log": "x"})
    before = contents(here)
    shutil.rmtree(here / "gone")
    (here / "kind").unlink()
    fill(here, {"a.py": "2", "kind/d.py": "2", "new/deep/e.py": "2"})
    names = ("a.py", "src/b.py", "kind/d.py", "new/deep/e.py")
    later = fill(memory / "later" / "proj", dict.fromkeys(names, "3"))
    source, step, killed = SyncSource(spec(here), {}), 0, True
    while killed:
        step += 1
        cache = memory / f"cache{step}"
        shutil.copytree(base, cache)
        killed = _killed_at(step, source, cache)
        wanted = later if step % 2 else here
        assert "ready" in sync(wanted, cache).last, step
        copy = cache / "dsrun/sync/proj-key/proj"
        assert contents(copy) == {**contents(wanted), "checkpoint": "10", "gone/log": "x"}, step
        shutil.rmtree(cache)
    assert step > 20, "all of it was tried"
    assert before != contents(here)


def test_a_link_in_the_way_of_a_change_that_was_cut_off_is_named(tmp_path: Path) -> None:
    folder = SyncFolder(private_folder(str(tmp_path), "proj-key"), "proj")
    made_copy(folder)
    (tmp_path / "proj-key/proj/src").symlink_to("elsewhere")
    journal = {"delete": [], "folders": [], "place": ["src/a.py"], "state": ["", []]}
    folder.write(".journal", journal)
    with pytest.raises(NotADirectoryError, match="is a link, not a folder") as refused:
        complete(folder)
    assert refused.value.filename == "src"
    folder.close()


def test_the_same_contents_are_received_once() -> None:
    one, two, other = (
        ManifestEntry(path, FILE, 0o644, 1, content)
        for path, content in (("a", "x"), ("b", "x"), ("c", "y"))
    )
    found = Changes([], [], [one, two, other], [], {"y": "old"}, [])
    assert missing(found) == [one]
