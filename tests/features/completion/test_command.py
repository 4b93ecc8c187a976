"""What completion offers: jobs and holds that a test serves, kept jobs, and files of a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.cli.options import all_options
from dsrun.launcher.cli.tool_options import OWN
from dsrun.launcher.control import local
from dsrun.launcher.features.completion.command import KINDS, MOST, offered, run
from dsrun.launcher.features.jobs.command import VERBS

from ...support.checkout import BIN
from ...support.jobs import status, verbs
from ...support.kept_jobs import about, kept
from ...support.limits import HANG
from ...support.local_control import serving
from ...support.own_names import own_names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["own_names"]

ENDED = about().job_id
NASTY = "$(touch${IFS}owned)"


@pytest.fixture(autouse=True)
def folder(own_names: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder, which is the home as well."""
    assert own_names is None
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "DSRUN_HOSTFILE", "DSRUN_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def running() -> Iterator[tuple[str, str]]:
    """The names of a running job and of a hold."""
    with ExitStack() as stack:
        known: dict[str, Any] = dict(verbs(status(), []))
        job = stack.enter_context(serving(known))
        told = status(job_id=job.name)._replace(program="/w/train.py --lr 1")
        known["status"] = verbs(told, [])["status"]
        hold = stack.enter_context(serving({}, local.HOLD))
        yield job.name, hold.name


def test_running_jobs_and_holds(running: tuple[str, str]) -> None:
    job, hold = running
    assert offered("jobs", "", []) == [job, "last"]
    assert offered("jobs", job[:-2], []) == [job]
    assert offered("jobs,holds", "", []) == [job, "last", hold]
    assert offered("jobs", "x", []) == []


def test_programs_of_running_jobs(running: tuple[str, str]) -> None:
    assert offered("jobs,programs", "tr", []) == ["train.py"]
    assert offered("jobs,programs", "", []) == [running[0], "last", "train.py"]


def test_kept_jobs_that_have_ended_the_newest_first(folder: Path) -> None:
    environ = {"HOME": str(folder)}
    kept(environ, 0)
    kept(environ, 1, program="'my train.py' --lr 1")
    damaged = kept(environ, 2)
    (damaged / "job.json").write_text("{")
    ids = [about(1).job_id, ENDED, about(2).job_id]
    assert offered("ended", "", []) == [*ids, "train.py"]


def test_a_running_detached_job_has_not_ended(folder: Path, running: tuple[str, str]) -> None:
    kept({"HOME": str(folder)}, 0)
    assert offered("ended", "2", []) == [ENDED]
    assert running[0] not in offered("ended", "", [])


def test_signals() -> None:
    assert offered("signals", "USR", []) == ["USR1", "USR2"]
    assert offered("signals", "SIGUSR", []) == ["SIGUSR1", "SIGUSR2"]


def test_profiles_of_the_project_and_of_the_person(folder: Path) -> None:
    (folder / ".config" / "dsrun").mkdir(parents=True)
    (folder / ".config" / "dsrun" / "config.toml").write_text("[profile.mine]\nnum_gpus = 1\n")
    (folder / "dsrun.toml").write_text("[profile.big]\nno_such_option = 1\n[profile.small]\n")
    assert offered("profiles", "", []) == ["mine", "big", "small"]
    assert offered("profiles", "b", []) == ["big"]


def test_a_project_without_trust_names_its_profiles_and_nothing_more_of_it_counts(
    folder: Path,
) -> None:
    program = f"touch {folder}/owned; echo n9"
    (folder / "hosts").write_text("n1\n")
    (folder / "dsrun.toml").write_text(
        f'[default]\nhostfile = "hosts"\n[profile.a]\nhost_discovery_script = "{program}"\n'
        f'[profile."{NASTY}"]\n[profile."-x"]\n'
    )
    assert offered("profiles", "", []) == ["a"]
    assert offered("hosts", "", ["--profile", "a"]) == []
    assert not (folder / "owned").exists()


@pytest.mark.parametrize(
    "before",
    [
        ["-H", "hosts"],
        ["--hostfile", "hosts"],
        ["--hostfile=hosts"],
        ["-H", "'hosts'"],
        ["-H", "~/hosts", "-q"],
        ["-H", "none", "-H", "hosts"],
        ["--host", "n1:2,n2:0-1"],
        ["--host=n[1-2]"],
    ],
)
def test_hosts_that_are_typed(folder: Path, before: list[str]) -> None:
    (folder / "hosts").write_text("n1 slots=2\nn2 slots=2\n")
    assert offered("hosts", "", before) == ["n1", "n2"]
    assert offered("hosts", "n2", before) == ["n2"]


def test_hosts_of_a_variable_and_of_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "hosts").write_text("n1\n")
    (folder / "others").write_text("n2\n")
    (folder / ".config" / "dsrun").mkdir(parents=True)
    (folder / ".config" / "dsrun" / "config.toml").write_text(
        f'[default]\nhostfile = "{folder}/hosts"\n'
    )
    assert offered("hosts", "", []) == ["n1"]
    monkeypatch.setenv("DSRUN_HOSTFILE", "others")
    assert offered("hosts", "", []) == ["n2"]


def test_the_next_host_of_a_list(folder: Path) -> None:
    (folder / "hosts").write_text("n1\nn2\n")
    before = ["-H", "hosts"]
    assert offered("hosts", "n1:0,2@n2", before) == ["n1:0,2@n2"]
    assert offered("hosts", "n1:4,", before) == ["n1:4,n1", "n1:4,n2"]
    assert offered("hosts", "$(touch x)@", before) == []


@pytest.mark.parametrize("text", [None, "", "n1 slots=x\n", "\0", "[[hosts]]\n", f"{NASTY}\n"])
def test_a_hostfile_that_is_none_offers_nothing(
    folder: Path, text: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (folder / "hosts").write_text(text)
    assert run(["--complete", "hosts", "", "-H", "hosts"]) == 0
    assert capfd.readouterr() == ("", "")


def test_a_pipe_in_place_of_a_hostfile_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "hosts")
    assert offered("hosts", "", ["-H", "hosts"]) == []


def test_no_more_than_can_be_read(folder: Path) -> None:
    (folder / "hosts").write_text(f"n[1-{MOST + 5}]\n")
    assert len(offered("hosts", "n", ["-H", "hosts"])) == MOST


@pytest.mark.parametrize("words", [[], [""], ["no-such-kind"], ["jobs"], ["jobs,,nothing", "x"]])
def test_it_never_complains(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["--complete", *words]) == 0
    assert capfd.readouterr() == ("", "")


def test_every_kind_that_a_verb_or_an_option_names_is_known() -> None:
    kinds = {kind for verb in VERBS.values() for word in verb.words for kind in word.split(",")}
    tables = [all_options(), *OWN.values()]
    kinds |= {option.offers for table in tables for option in table.values()}
    assert kinds - {""} == KINDS.keys()


def test_it_loads_little(folder: Path) -> None:
    (folder / "hosts").write_text("n1\n")
    asked = ["--complete", "jobs,ended,hosts,profiles", "n", "-H", "hosts"]
    argv = [sys.executable, "-E", "-S", "-X", "importtime", str(BIN / "dsrun-job"), *asked]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=HANG)
    assert ran.stdout == "n1\n"
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "dsrun.launcher.features.completion.command" in loaded
    assert not loaded & {
        *("torch", "paramiko", "rich", "subprocess", "socket", "asyncio", "argparse"),
        *("dsrun.launcher.features.jobs.command", "dsrun.launcher.planning.planner"),
    }
