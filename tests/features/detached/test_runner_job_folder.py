"""The folder of a job: private, whole, bounded, and readable whatever has happened to it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.features.detached import runner_job_folder as job_folder
from dsrun.launcher.features.detached.runner_job_folder import JobState
from dsrun.launcher.features.detached.runner_process_identity import identity

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
    assert (one.path, one.about, one.ending) == (str(path), about(), None)


def test_no_two_jobs_share_a_folder(environ: dict[str, str]) -> None:
    kept(environ)
    with pytest.raises(FileExistsError, match="a job with this id already has a folder"):
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
    assert (one.ending, one.state) == (end(3), JobState.ENDED)


def test_states(environ: dict[str, str]) -> None:
    kept(environ, 0, identity(os.getpid()))
    kept(environ, 1, GONE)
    kept(environ, 2, FAR)
    job_folder.finish(str(kept(environ, 3, FAR)), end())
    states = [one.state for one in job_folder.find(job_folder.root(environ))]
    assert states == [JobState.RUNS, JobState.KILLED, JobState.ELSEWHERE, JobState.ENDED]


def test_an_end_that_cannot_be_written_is_known_as_such(environ: dict[str, str]) -> None:
    path = kept(environ)
    (path / "journal").write_bytes(b"x" * 100)
    (path / "end.json.new").mkdir()
    with pytest.raises(IsADirectoryError):
        job_folder.finish(str(path), end(3))
    (one,) = job_folder.find(job_folder.root(environ))
    assert one.state is JobState.UNKNOWN
    assert names(path) == ["end.json.new", "over.json"]


def damaged(environ: dict[str, str]) -> list[str]:
    return [one.why for one in job_folder.find_all(job_folder.root(environ))[1]]


def test_what_is_of_another_form_is_named_and_left_alone(environ: dict[str, str]) -> None:
    path = kept(environ)
    here = f"dsrun {__version__} reads format {job_folder.VERSION}"
    (path / "end.json").write_text('{"version": 1}')
    (one,) = job_folder.find(job_folder.root(environ))
    assert one.state is JobState.DAMAGED
    assert one.damage == f"end.json is written in format 1; {here}"
    (path / "job.json").write_text('{"version": 3, "is": {"version": "9.9"}}')
    (other,) = job_folder.find_all(job_folder.root(environ))[1]
    assert other.is_whole
    assert other.why == f"job.json is written in format 3, by dsrun 9.9; {here}"
    job_folder.prune(job_folder.root(environ), 1e12)
    assert path.exists()


FIELDS = {**about()._asdict(), "process": GONE._asdict()}


def whole(**changed: object) -> str:
    """A file about a job in which some fields are others."""
    return json.dumps({"version": job_folder.VERSION, "is": {**FIELDS, **changed}})


DAMAGED = {
    **dict.fromkeys(("", "{"), "not valid: Expecting"),
    "[" * 100_000: "not valid: nested too deeply",
    **dict.fromkeys(("[]", "7", '{"version": "2", "is": {}}'), "not a file of dsrun"),
    '{"version": 2, "is": []}': "not a file of dsrun",
    '{"version": 2, "is": {}}': "expected the fields machine",
    whole(since="nan"): "since: expected float",
    whole(since=float("nan")): "not valid: NaN is not a number",
    whole().replace("1000.0", "1e999"): "not valid: 1e999 is not a 64-bit number",
    whole(nodes=True): "nodes: expected Size",
    whole(nodes=-1): "nodes: expected Size",
    whole(world_size=10**400): "not valid: a number with 401 digits",
    whole(program=["a"]): "program: expected str",
    whole(program="\ud800"): "program: expected str",
    whole(roles={"a": 1}): "roles['a']: expected str",
    whole(process=None): "expected the fields machine",
    whole(process={**GONE._asdict(), "start": "x"}): "start: expected Size",
    whole(more=1): "expected the fields job_id",
    whole(job_id=NAME.format(7)): "it belongs to job 20260101-000000-000007",
}


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: text[:70])
def test_what_is_damaged_is_named(environ: dict[str, str], text: str) -> None:
    path = kept(environ)
    kept(environ, 1)
    (path / "job.json").write_text(text)
    (why,) = damaged(environ)
    assert why.startswith(f"job.json: {DAMAGED[text]}")
    assert len(why) < 300
    assert found(environ) == [NAME.format(1)]
    assert job_folder.open_folder(str(path)) is None
    with pytest.raises(job_folder.Damage):
        job_folder.folder_of(environ, NAME.format(0))


@pytest.mark.parametrize(
    "changed",
    [
        *({"at": "x"}, {"code": 1 << 40}, {"code": None}, {"text": 1}, {"last": []}, {"more": 1}),
        *({"report": []}, {"report": {"hosts": 7}}, {"report": {"hosts": [{}]}}),
        *({"report": {"world_size": "2"}}, {"report": {"seconds": [1]}}),
    ],
    ids=str,
)
def test_so_is_an_end_that_is_damaged(environ: dict[str, str], changed: dict[str, object]) -> None:
    path = kept(environ)
    fields = {**end(3)._asdict(), **changed}
    (path / "end.json").write_text(json.dumps({"version": job_folder.VERSION, "is": fields}))
    (one,) = job_folder.find(job_folder.root(environ))
    assert (one.ending, one.state) == (None, JobState.DAMAGED)
    assert one.damage.startswith("end.json: ")


def test_a_job_that_runs_is_no_ruin(environ: dict[str, str]) -> None:
    path = kept(environ, 0, identity(os.getpid()))
    (path / "end.json").write_text("{")
    (one,) = job_folder.find(job_folder.root(environ))
    assert one.state is JobState.RUNS


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_what_belongs_to_another_user_is_not_read(environ: dict[str, str]) -> None:
    path = kept(environ)
    os.chown(path / "job.json", 1234, 1234)
    assert damaged(environ) == ["job.json: belongs to another user"]
    os.chown(path, 1234, 1234)
    assert damaged(environ) == ["belongs to another user"]


def test_a_link_is_neither_followed_nor_emptied(environ: dict[str, str], tmp_path: Path) -> None:
    path = kept(environ)
    other = path.rename(tmp_path / NAME.format(0))
    path.symlink_to(other)
    (path.parent / NAME.format(1)).symlink_to(NAME.format(1))  # a loop
    assert (found(environ), damaged(environ)) == ([], ["is a link, not a folder"] * 2)
    for one in job_folder.find_all(job_folder.root(environ))[1]:
        job_folder.remove(one.path)
    assert (names(path.parent), names(other)) == ([], ["job.json"])


def test_what_is_in_place_of_files_does_not_hold_up_the_next_job(environ: dict[str, str]) -> None:
    path = kept(environ)
    (path / "job.json").unlink()
    os.mkfifo(path / "job.json")
    os.mkfifo(kept(environ, 1) / "end.json")
    job_folder.prune(job_folder.root(environ), NOW)
    assert names(path) == ["job.json"], "nothing is known of its age"
    job_folder.remove(str(path))
    assert not path.exists()


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
