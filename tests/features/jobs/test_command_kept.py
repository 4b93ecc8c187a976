"""dsrun-job about detached jobs that run no more: found, listed, waited for, shown, forgotten."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import entry
from dsrun.launcher.features.detached import runner_job_folder as job_folder
from dsrun.launcher.features.jobs import command
from dsrun.launcher.head.run.events import CheckWarning, Exit, RanksStarted, Started

from ...support import schemas
from ...support.kept_jobs import FAR, NAME, end, event, kept, message, output, write
from ...support.own_names import own_names
from ...support.pictures import HOSTILE, embedded

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["own_names"]

pytestmark = pytest.mark.usefixtures("own_names")


class Site:
    """Folders of jobs, and the command about them."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.environ = {"XDG_STATE_HOME": str(folder)}
        self._capfd = capfd

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run the command; return exit code, standard output and standard error."""
        self._capfd.readouterr()
        code = entry.main(command.run, words)
        out, err = self._capfd.readouterr()
        return code, out, err

    def ended(self, number: int = 0, code: int = 0) -> Path:
        """A job that has ended."""
        path = kept(self.environ, number)
        write(
            path,
            message("lost n2"),
            event(Started("j", 2, ("n0",), ("n0", 1)), 0.5),
            event(CheckWarning("n1: another torch"), 0.5),
            event(RanksStarted("n0", (0, 1)), 1.0),
            output(0, b"step 1\nste", 2.0),
            output(1, b"\x1b]0;x\x07bye\n", 3.0, stream=2),
            output(0, b"p 2\n", 4.0),
            event(Exit(0, "n0", 7, code, False, HOSTILE[0]), 5.0),
        )
        job_folder.finish(str(path), end(code))
        return path


@pytest.fixture
def site(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Site:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Site(tmp_path, capfd)


def test_the_end_is_that_of_dsrun(site: Site) -> None:
    site.ended(0)
    site.ended(1, 3)
    assert site.run("wait", NAME.format(0)) == (0, "", "")
    assert site.run("wait", "last") == (3, "", "dsrun: rank 0 exited with code 3\n")
    assert site.run("report", "last")[:2] == (0, "dsrun: rank 0 exited with code 3\n")
    line = f"dsrun: job {NAME.format(0)} has ended with exit code 0\n"
    assert site.run("report", "000000-000000") == (0, line, "")


@pytest.mark.parametrize(
    "words", [("kill",), ("signal", "USR1"), ("scale", "2"), ("stacks",), ("top",)]
)
def test_what_has_ended_can_be_asked_for_nothing(site: Site, words: tuple[str, ...]) -> None:
    site.ended(1, 3)
    verb, *more = words
    name = NAME.format(1)
    says = f"dsrun: dsrun-job: job {name} has ended; `dsrun-job report {name}` shows how\n"
    assert site.run(verb, name, *more) == (2, "", says)
    assert "no job nobody on this machine; running: " in site.run(verb, "nobody", *more)[2]


def test_the_output_is_shown_as_dsrun_shows_it(site: Site) -> None:
    site.ended()
    name = NAME.format(0)
    lines = "dsrun: lost n2\nn0:0| step 1\nn0:1| \x1b]0;x\x07bye\nn0:0| step 2\n"
    assert site.run("logs", name) == (0, lines, "")
    assert site.run("logs", name, "--follow", "--rank", "0")[1] == "n0:0| step 1\nn0:0| step 2\n"
    rows = [json.loads(line) for line in site.run("logs", name, "--json")[1].splitlines()]
    assert schemas.faults("jobs", rows[0], "message") == []
    assert schemas.faults("jobs", rows[1], "line") == []
    assert [row.get("line") for row in rows] == [None, "step 1", "\x1b]0;x\x07bye", "step 2"]


def test_a_picture_shows_what_has_happened(site: Site, tmp_path: Path) -> None:
    site.ended(0, 3)
    assert site.run("report", "last", "--html", str(tmp_path / "r.html")) == (0, "", "")
    text = (tmp_path / "r.html").read_text()
    assert HOSTILE[0] not in text
    data = embedded(text)
    assert data["findings"] == ["n1: another torch"]
    printed = {"0": "step 1\nstep 2\n", "1": "\\x1b]0;x\\x07bye\n"}
    assert data["tails"] == {rank: [["", text]] for rank, text in printed.items()}
    assert data["about"] == {
        "program": "train.py",
        "command line": "train.py --lr 1",
        "started": "1970-01-01 00:16:40 UTC",
        "dsrun": "1",
    }
    assert [span[5] for span in data["spans"]] == ["failed", "running"]  # type: ignore[attr-defined]
    assert site.run("report", "last", "--html", str(tmp_path))[0] == 2
    (tmp_path / "v.py").write_text("import torch\n")
    code, _, said = site.run("report", "last", "--html", str(tmp_path / "v.py"))
    assert (code, "has content that dsrun did not write" in said) == (2, True)
    assert (tmp_path / "v.py").read_text() == "import torch\n"


def test_roles_are_told_apart(site: Site, tmp_path: Path) -> None:
    path = kept(site.environ, roles={"server": "never", "trainer": "job"})
    write(
        path,
        message("server is ready"),
        event(Started("j", 1, ("n0",), ("n0", 1)), 0.5, "trainer"),
        event(RanksStarted("n0", (0,)), 0.5, "trainer"),
        output(0, b"GET /", role="server"),
        output(0, b"step 1\n", role="trainer"),
        output(0, b" 200\n", role="server"),
    )
    job_folder.finish(str(path), end())
    served = "server/n0:0| GET / 200\n"
    every = f"dsrun: server is ready\ntrainer/n0:0| step 1\n{served}"
    assert site.run("logs", "last") == (0, every, "")
    assert site.run("logs", "last", "--role", "server") == (0, served, "")
    row = json.loads(site.run("logs", "last", "--role", "trainer", "--json")[1])
    assert (row["role"], row["line"]) == ("trainer", "step 1")
    code, _, err = site.run("logs", "last", "--role", "x")
    assert (code, err.partition(": its ")[2]) == (2, "roles are server, trainer\n")
    assert site.run("report", "last", "--html", str(tmp_path / "r.html"))[0] == 0
    data = embedded((tmp_path / "r.html").read_text())
    assert data["hosts"] == ["trainer/n0"]


def test_jobs_that_have_ended_are_listed(site: Site) -> None:
    site.ended(0)
    site.ended(1, 137)
    kept(site.environ, 2)
    kept(site.environ, 3, FAR)
    code, out, _ = site.run("list", "--ended")
    rows = [re.split("  +", line) for line in out.splitlines()[1:]]
    assert (code, [row[:2] for row in rows]) == (
        0,
        [
            [NAME.format(3), "on another-machine"],
            [NAME.format(2), "killed"],
            [NAME.format(1), "exit code 137"],
            [NAME.format(0), "ended"],
        ],
    )
    assert rows[3][2:4] + rows[3][5:] == ["1", "2", "train.py --lr 1", "1| bye"]
    listed = json.loads(site.run("list", "--ended", "--json")[1])
    assert schemas.faults("jobs", listed, "ended") == []
    assert [one["exit_code"] for one in listed["ended"]] == [None, None, 137, 0]


def test_of_a_job_without_an_end_all_is_told_that_is_known(site: Site) -> None:
    kept(site.environ, 2)
    code, _, err = site.run("wait", NAME.format(2))
    assert code == 75
    assert re.fullmatch(
        rf"dsrun: job {NAME.format(2)}: its dsrun \(pid \d+ on \S+\) was killed, or .*\n", err
    )
    told = json.loads(site.run("report", NAME.format(2), "--json")[1])
    assert schemas.faults("jobs", told, "report") == []
    assert (told["state"], told["report"]) == ("killed", None)
    kept(site.environ, 3, FAR)
    assert "runs on another-machine; ask there" in site.run("report", NAME.format(3))[1]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(16 << 30)


def socket_file(path: Path) -> None:
    folder = os.open(path.parent, os.O_PATH)  # a socket's path has at most 107 bytes
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


INSTEAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (fifo, "is a pipe, not a file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "is a link, not a file"),
    "a loop": (lambda path: path.symlink_to(path.name), "is a link, not a file"),
    "a folder": (Path.mkdir, "is a folder, not a file"),
    "a socket": (socket_file, "is a socket, not a file"),
    "a hole": (sparse, "larger than"),
}


@pytest.mark.parametrize("kind", INSTEAD)
@pytest.mark.parametrize("file", ["job.json", "end.json", "journal"])
def test_a_damaged_folder_is_one_line(site: Site, file: str, kind: str) -> None:
    make, why = INSTEAD[kind]
    path = site.ended(0)
    site.ended(1, 3)
    before = site.run("list", "--ended")[1].splitlines()[:2]
    (path / file).unlink()
    make(path / file)
    code, out, err = site.run("list", "--ended")
    *rows, damaged = out.splitlines()
    assert (code, err) == (0, "")
    assert [row.split("  ")[0] for row in rows] == [before[0].split("  ")[0], NAME.format(1)]
    assert damaged.startswith(NAME.format(0))
    assert f"damaged: {file}: {why}" in damaged
    listed = json.loads(site.run("list", "--ended", "--json")[1])
    assert schemas.faults("jobs", listed, "ended") == []
    assert len(listed["ended"] + listed["damaged"]) == 2
    assert site.run("wait", NAME.format(1))[0] == 3
    assert site.run("wait", "last")[0] == 3
    name = NAME.format(0)
    codes = {verb: site.run(verb, name)[0] for verb in ("wait", "report", "logs", "kill")}
    assert (
        codes
        == {
            "job.json": {"wait": 2, "report": 2, "logs": 2, "kill": 2},
            "end.json": {"wait": 74, "report": 0, "logs": 0, "kill": 2},
            "journal": {"wait": 0, "report": 0, "logs": 74, "kill": 2},
        }[file]
    )
    assert site.run("forget", name)[:2] == (0, f"dsrun-job: job {name}: forgotten\n")
    assert not path.exists()


def test_what_damage_says_cannot_harm_a_terminal(site: Site) -> None:
    path = site.ended(0)
    text = (path / "job.json").read_text()
    (path / "job.json").write_text(text.replace('"roles": {}', '"roles": {"\\u001b]0;x\\n": 1}'))
    code, out, _ = site.run("list", "--ended")
    assert (code, out.count("\n")) == (0, 2)
    assert "damaged: job.json: roles[" in out
    assert "\x1b" not in out
    assert "\x1b" not in site.run("report", NAME.format(0))[2]


def test_what_cannot_be_removed_is_named(site: Site) -> None:
    path = site.ended(0)
    (path / "job.json").unlink()
    (path / "job.json").mkdir()
    (path / "job.json/mine").touch()
    code, _, err = site.run("forget", NAME.format(0))
    assert (code, f"{path} could not be removed" in err) == (2, True)
    assert (path / "job.json/mine").exists()


def test_jobs_are_forgotten(site: Site, tmp_path: Path) -> None:
    for number in range(3):
        site.ended(number)
    kept(site.environ, 3, FAR)
    name = NAME.format(1)
    assert site.run("forget", name)[1] == f"dsrun-job: job {name}: forgotten\n"
    done = json.loads(site.run("forget", "--all", "--json")[1])
    assert (done["done"], schemas.faults("jobs", done, "done")) == ("2 jobs forgotten", [])
    assert [one.name for one in (tmp_path / "dsrun/jobs").iterdir()] == [NAME.format(3)]
    assert site.run("forget", NAME.format(3))[0] == 0, "by its name, even if it may run there"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["wait"], "dsrun-job: no job of yours is running on this machine"),
        (["wait", "last", "more"], "dsrun-job wait: unexpected 'more'"),
        (["report", "nobody"], "dsrun-job: no job nobody on this machine; running: none; ended: 2"),
        (["logs", "2026"], "2026: matches the names of several jobs; name one: 2026"),
        (["logs", "last", "--role", "server"], "dsrun-job: --role server: job"),
        (["forget"], "dsrun-job forget: expected a job, or --all for all that have ended"),
        (["forget", "2026", "--all"], "dsrun-job forget: expected a job or --all, not both"),
        (["wait", "--follow"], "--follow: not with wait, only with logs"),
        (["report", "last", "--html", "/no/such/r.html"], "--html /no/such/r.html: no folder"),
        (["rm", "x"], "dsrun-job: expected one of"),
    ],
)
def test_wrong_words_are_one_line(site: Site, words: list[str], says: str) -> None:
    site.ended(0)
    site.ended(1)
    code, out, err = site.run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_without_any_there_is_none(site: Site) -> None:
    assert site.run("list", "--ended") == (0, "", "")
    assert (
        site.run("wait", "last")[2]
        == "dsrun: dsrun-job: no job of yours is running on this machine\n"
    )
    assert site.run("forget", "--all")[1] == "dsrun-job: 0 jobs forgotten\n"
