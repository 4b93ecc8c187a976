"""What an editor is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dsrun.launcher.control.messages import NodeJob
from dsrun.launcher.features.debug.runner_debugging import Configurations, folders
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.sync import SyncSpec

if TYPE_CHECKING:
    from pathlib import Path

SPEC = JobSpec("j", Plan((), Program("x.py"), "ssh", None, None), "/home/me/repo/train")


def task(workdir: str) -> NodeJob:
    return NodeJob("", "", "", Program("x"), workdir, {}, None, None)


def test_folders_are_the_same_unless_one_is_synced() -> None:
    sync = SyncSpec("/home/me/repo", 9, {SPEC.workdir: "train"})
    assert folders(SPEC, task(SPEC.workdir)) == (SPEC.workdir, SPEC.workdir)
    synced = SPEC._replace(sync=sync)
    assert folders(synced, task(SPEC.workdir)) == (SPEC.workdir, SPEC.workdir)
    assert folders(synced, task("/tmp/copy/train")) == ("/home/me/repo", "/tmp/copy")
    whole = SPEC._replace(sync=SyncSpec("/home/me/repo/train", 9, {SPEC.workdir: ""}))
    assert folders(whole, task("/tmp/copy")) == ("/home/me/repo/train", "/tmp/copy")


def test_without_a_file_they_are_printed() -> None:
    said = Configurations("", print).add(3, "n1", 5001, ("/a", "/b"))
    head, _, text = said.partition(": ")
    assert head == "configuration for launch.json"
    one = json.loads(text)
    assert (one["name"], one["connect"]["port"]) == ("dsrun: rank 3 on n1", 5001)
    assert one["pathMappings"] == [{"localRoot": "/a", "remoteRoot": "/b"}]


def test_a_file_gets_all_ranks_and_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "launch.json"
    path.write_text('{"configurations": [{"name": "mine"}]}')
    made = Configurations(str(path), print)
    made.add(1, "n0", 5001, ("/a", "/a"))
    made.add(0, "n0", 5000, ("/a", "/a"))
    said = made.add(1, "n1", 5001, ("/a", "/a"))
    made.close()
    assert said == f'"dsrun: rank 1 on n1" in {path}'
    names = [one["name"] for one in json.loads(path.read_text())["configurations"]]
    assert names == ["mine", "dsrun: rank 0 on n0", "dsrun: rank 1 on n1"]


def test_a_file_that_cannot_be_written_any_more_is_named_and_the_rest_printed(
    tmp_path: Path,
) -> None:
    warned: list[str] = []
    made = Configurations(str(tmp_path / "gone" / "x"), lambda text, _level: warned.append(text))
    assert made.add(0, "n0", 5000, ("/a", "/a")).startswith("configuration for")
    made.close()
    assert warned[0].startswith("--debug_file /")
