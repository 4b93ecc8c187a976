"""What stays of a detached job: its output, its events, and its end."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.features.detached import runner_job_folder as job_folder
from dsrun.launcher.features.detached import runner_journal as journal
from dsrun.launcher.features.detached.runner_keeper import JobKeeper
from dsrun.launcher.head.report.ending import Ending
from dsrun.launcher.head.run import events

from ...support.clock import Clock
from ...support.kept_jobs import NAME, kept
from ...support.limits import wait_for
from ...support.reports import failure, report

if TYPE_CHECKING:
    from pathlib import Path

START = events.Started("j", 2, ("n0",), ("n0", 1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return kept({"XDG_STATE_HOME": str(tmp_path)})


def keeper_of(folder: Path) -> tuple[JobKeeper, Clock]:
    clock = Clock()
    return JobKeeper(str(folder), clock.loop, pytest.fail), clock


def test_all_that_is_printed_and_happens_is_kept(folder: Path) -> None:
    keeper, clock = keeper_of(folder)
    keeper.message("connecting")
    keeper.on_event(START)
    clock.now += 1.5
    keeper.on_event(events.RankOutput(1, "n0", 2, b"wor"))
    keeper.on_event(events.RankOutput(1, "n0", 2, b"ds\n"))
    keeper.on_event(events.RankOutput(1, "n0", events.RESULT, b"secret"))
    keeper.on_event(events.RanksActive("n0", None))  # type: ignore[arg-type]
    lost = events.Lost("n1", "gone", survived=True)
    keeper.on_event(lost)
    ending = Ending("j", report())
    keeper.finish(ending)
    found = journal.entries((folder / "journal").read_bytes())
    assert [(one.kind, one.at) for one in found] == [
        (journal.MESSAGE, 0.0),
        (journal.EVENT, 0.0),
        (journal.STDERR, 1.5),
        (journal.STDERR, 1.5),
        (journal.EVENT, 1.5),
    ]
    assert found[0].data == b"connecting"
    assert found[2][3:] == (b"wor", 1, "n0", "")
    known = job_folder.open_folder(str(folder))
    assert known is not None
    end = known.ending
    assert end is not None
    assert (end.code, end.text, end.report) == (ending.code, ending.text, ending.data)
    assert (end.last, end.unkept) == ("1| words", "")


def test_of_a_job_that_could_not_start_nothing_stays(folder: Path) -> None:
    keeper, _ = keeper_of(folder)
    keeper.message("connecting")
    keeper.finish(Ending("j", NodeError("no route")))
    assert not folder.exists()


def test_old_folders_go_at_the_end(folder: Path) -> None:
    old = kept({"XDG_STATE_HOME": str(folder.parents[2])}, 1)
    keeper, _ = keeper_of(folder)
    keeper.on_event(START)
    keeper.finish(Ending("j", report()))
    assert folder.exists()
    assert not old.exists(), "it has ended in 1970"


def test_what_cannot_be_kept_is_told_once_and_at_the_end(tmp_path: Path) -> None:
    clock, told = Clock(), []
    folder = tmp_path / NAME.format(0)

    def warn(text: str) -> None:
        told.append(text)
        clock.loop.stop()

    keeper = JobKeeper(str(folder), clock.loop, warn)
    keeper.on_event(START)
    clock.loop.run()
    keeper.on_event(events.RankOutput(0, "n0", 1, b"lost\n"))
    (text,) = told
    assert text.startswith(f"cannot save the output of this job in {folder} (no such file")
    os.mkdir(folder)  # noqa: PTH102
    (folder / "job.json").touch()
    keeper.finish(Ending("j", report()))
    assert '"unkept": "no such file or directory"' in (folder / "end.json").read_text()


REMOVED = "its file was removed while the job ran"


@pytest.mark.parametrize(
    ("gone", "unkept"),
    [("job.json", ""), ("journal", REMOVED), ("", REMOVED), ("..", REMOVED), ("../..", REMOVED)],
)
def test_who_waits_for_a_job_whose_folder_was_removed_hears_how_it_has_ended(
    folder: Path, gone: str, unkept: str
) -> None:
    waited_for = job_folder.open_folder(str(folder))
    assert waited_for is not None
    keeper, _ = keeper_of(folder)
    keeper.on_event(START)
    wait_for((folder / "journal").exists, "a journal")
    removed = (folder / gone).resolve()
    shutil.rmtree(removed) if removed.is_dir() else removed.unlink()
    keeper.finish(Ending("j", report(failures=[failure(code=7)])))
    end = waited_for.ending
    assert end is not None
    assert (end.code, end.unkept) == (7, unkept)
    (again,) = job_folder.find(str(folder.parent))
    assert (again.about, again.state) == (waited_for.about, job_folder.JobState.ENDED)
    assert folder.stat().st_mode & 0o777 == 0o700
