"""The folder of a job: private, whole, bounded, and readable whatever has happened to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsrun.launcher.head.detached import job_folder
from dsrun.launcher.head.detached.job_folder import State
from dsrun.launcher.head.detached.process_identity import identity

from ...support.kept_jobs import FAR, GONE, NAME, about, end, kept

NOW = 5000.0


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def names(folder: str | Path) -> list[str]:
    return sorted(one.name for one in Path(folder).iterdir())


def found(environ: dict[str, str]) -> list[str]:
    return [one.about.job_id for one in job_folder.find(job_folder.root(environ))]


def test_a_folder_says_what_the_job_is(environ: dict[str, str], tmp_path: Path) -> None:
    path = kept(environ)
    assert path == tmp_path / "state/dsrun/jobs" / NAME.format(0)
    private = [path, path.parent, path.parent.parent]
    assert [one.stat().st_mode & 0o777 for one in private] == [0o700] * 3
    assert (path / "job.json").stat().st_mode & 0o777 == 0o600
    (one,) = job_folder.find(job_folder.root(environ))
    assert (one.path, one.about, one.end) == (str(path), about(), None)


def test_no_two_jobs_share_a_folder(environ: dict[str, str]) -> None:
    kept(environ)
    with pytest.raises(FileExistsError, match="a job of this id has a folder"):
        kept(environ)
    assert found(environ) == [NAME.format(0)]
    assert names(job_folder.root(environ)) == [NAME.format(0)]


@pytest.mark.parametrize("name", ["dsrun", "dsrun/jobs"])
def test_a_folder_that_others_can_change_is_not_used(
    environ: dict[str, str], tmp_path: Path, name: str
) -> None:
    (tmp_path / "state" / name).mkdir(parents=True)
    (tmp_path / "state/dsrun").chmod(0o700)
    (tmp_path / "state" / name).chmod(0o755)
    with pytest.raises(PermissionError, match="open to other users; run chmod 700"):
        kept(environ)


def test_a_job_that_has_ended_says_how(environ: dict[str, str]) -> None:
    path = kept(environ)
    job_folder.finish(str(path), end(3))
    (one,) = job_folder.find(job_folder.root(environ))
    assert (one.end, one.state) == (end(3), State.ENDED)


def test_states(environ: dict[str, str]) -> None:
    kept(environ, 0, identity(os.getpid()))
    kept(environ, 1, GONE)
    kept(environ, 2, FAR)
    job_folder.finish(str(kept(environ, 3, FAR)), end())
    states = [one.state for one in job_folder.find(job_folder.root(environ))]
    assert states == [State.RUNS, State.KILLED, State.ELSEWHERE, State.ENDED]


def test_an_end_that_cannot_be_written_is_known_as_such(environ: dict[str, str]) -> None:
    path = kept(environ)
    (path / "journal").write_bytes(b"x" * 100)
    (path / "end.json.new").mkdir()
    with pytest.raises(IsADirectoryError):
        job_folder.finish(str(path), end(3))
    (one,) = job_folder.find(job_folder.root(environ))
    assert one.state is State.UNKNOWN
    assert names(path) == ["end.json.new", "over.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2, "is": {}}', '{"version": 1}'])
def test_what_is_damaged_or_of_another_version_is_left_out(
    environ: dict[str, str], text: str
) -> None:
    path = kept(environ)
    (path / "end.json").write_text(text)
    (one,) = job_folder.find(job_folder.root(environ))
    assert one.state is State.KILLED
    (path / "job.json").write_text(text)
    assert found(environ) == []


def test_other_files_are_no_jobs(environ: dict[str, str], tmp_path: Path) -> None:
    assert found(environ) == []
    kept(environ)
    (tmp_path / "state/dsrun/jobs/notes").mkdir()
    (tmp_path / "state/dsrun/jobs" / NAME.format(1)).touch()
    assert found(environ) == [NAME.format(0)]
    job_folder.remove(str(tmp_path / "state/dsrun/jobs/no-such"))


@pytest.mark.parametrize(
    ("path", "is_one"),
    [(f"/a/{NAME.format(0)}", True), (NAME.format(0), False), ("/a/b", False), (7, False)],
)
def test_a_path_of_a_folder_is_known(path: object, is_one: bool) -> None:
    assert job_folder.is_job_folder(path) is is_one


# -- bounds ---------------------------------------------------------------------------------------


def test_the_newest_hundred_are_kept(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_folder, "MOST_JOBS", 2)
    kept(environ, 0, identity(os.getpid()))
    kept(environ, 1, FAR)
    for number in range(2, 6):
        job_folder.finish(str(kept(environ, number)), end())
    job_folder.prune(job_folder.root(environ), NOW)
    assert found(environ) == [NAME.format(number) for number in (0, 1, 4, 5)]


def test_old_ones_go_unless_they_run(environ: dict[str, str]) -> None:
    kept(environ, 0, identity(os.getpid()))
    (kept(environ, 1, FAR) / "journal").touch()
    kept(environ, 2, FAR)
    kept(environ, 3, GONE)
    job_folder.finish(str(kept(environ, 4)), end(at=NOW))
    job_folder.prune(job_folder.root(environ), NOW + job_folder.MOST_AGE)
    assert found(environ) == [NAME.format(number) for number in (0, 1, 4)]


def test_a_folder_that_was_never_finished_goes(environ: dict[str, str]) -> None:
    root = kept(environ).parent
    unfinished = root / f"{NAME.format(1)}.new"
    unfinished.mkdir()
    (unfinished / "job.json.new").touch()
    made = unfinished.stat().st_mtime
    job_folder.prune(str(root), made)
    assert unfinished.exists()
    job_folder.prune(str(root), made + 1 + job_folder.UNFINISHED)
    assert not unfinished.exists()
