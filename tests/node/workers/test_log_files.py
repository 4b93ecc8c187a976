"""The log files of a round."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.control.messages import Start, Task
from dsrun.launcher.node.workers import error_file
from dsrun.launcher.node.workers.log_files import LogFiles
from dsrun.launcher.node.workers.prepare import NodeSetup
from dsrun.launcher.node.workers.worker_specs import WorkerSpecs
from dsrun.launcher.specs.program import Program

START = Start(4, (0, 1), 8, 2, 3, "h", 1, 1, generation=1, restarts=2)


def files(folder: Path, **fields: Any) -> LogFiles:
    """Return the files of a task whose log folder is here."""
    program = Program("true", no_python=True)
    task = Task(__version__, "j", "n1", program, str(folder), {}, (0, 1), None, **fields)
    return LogFiles(NodeSetup(task, print), print)


def test_no_file_where_none_is_asked_for(tmp_path: Path) -> None:
    assert files(tmp_path).open([4, 5], START) == {}
    assert list(tmp_path.iterdir()) == []


def test_ranks_have_files_by_their_names(tmp_path: Path) -> None:
    logs = files(tmp_path, log_dir="logs").open([5], START)
    assert list(logs) == [5]
    logs[5].write(1, b"out")
    logs[5].write(2, b"err")
    logs[5].close()
    folder = tmp_path / "logs" / "j"
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == {
        "rank-0005.out": b"out",
        "rank-0005.err": b"err",
    }
    assert logs[5].errors == str(folder / "rank-0005.err")


def test_torchruns_names_are_by_restart_and_local_rank(tmp_path: Path) -> None:
    made = files(tmp_path, log_dir="logs", log_layout="torchrun")
    logs = made.open([4, 5], START)
    for log in logs.values():
        log.close()
    found = [log.errors.partition("attempt_")[2] for log in logs.values()]
    assert found == ["2/0/stderr.log", "2/1/stderr.log"]
    assert made.error_file(START, 1).endswith("attempt_2/1/error.json")


def test_files_are_new_in_the_first_round_and_continued_later(tmp_path: Path) -> None:
    made = files(tmp_path, log_dir="logs")
    for generation, text in ((1, b"one"), (2, b"two")):
        log = made.open([4], START._replace(generation=generation))[4]
        log.write(1, text)
        log.close()
    assert (tmp_path / "logs" / "j" / "rank-0004.out").read_bytes() == b"onetwo"
    with pytest.raises(FileExistsError):
        made.open([4], START)


def test_files_may_be_named_by_the_agent(tmp_path: Path) -> None:
    said: tuple[dict[str, str], ...] = ({}, {"DSRUN_LOG_OUT": "named/out", "DSRUN_LOG_ERR": ""})
    made = files(tmp_path, logs_specs=("name", "", "", "", ""))
    logs = made.open([4, 5], START._replace(agent_variables=said))
    logs[5].write(1, b"text")
    for log in logs.values():
        log.close()
    assert (tmp_path / "named" / "out").read_bytes() == b"text"
    assert [log.errors for log in logs.values()] == ["", ""]


def test_exceptions_are_kept_in_the_folder_or_in_memory(tmp_path: Path) -> None:
    named = files(tmp_path, log_dir="logs").error_file(START, 1)
    assert named == str(tmp_path / "logs" / "j" / "rank-0005.json")
    made = files(tmp_path)
    path = Path(made.error_file(START, 1))
    path.write_text("kept")
    assert path.read_text() == "kept"
    assert made.error_file(START, 1) != str(path)
    made.close()
    assert not path.exists() or path.read_bytes() != b"kept"


def test_a_kernel_without_files_in_memory_keeps_no_exceptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> tuple[int, str]:
        raise OSError("none")

    monkeypatch.setattr(error_file, "in_memory", none)
    assert files(tmp_path).error_file(START, 0) == ""


def test_a_disk_that_is_full_in_every_round_is_told_of_once(tmp_path: Path) -> None:
    program = Program("true", no_python=True)
    log_dir = str(tmp_path / "logs")
    task = Task(__version__, "j", "n1", program, str(tmp_path), {}, (0,), None, log_dir=log_dir)
    said: list[str] = []
    setup = NodeSetup(task, said.append)
    made = WorkerSpecs(setup, said.append)
    for generation in (1, 2, 3):
        start = Start(0, (0,), 1, 0, 1, "127.0.0.1", 1, 1, generation=generation)
        _, logs = made.make(start)
        with full_disk():
            logs[0].write(1, b"text")
        logs[0].close()
    (told,) = [text for text in said if "log ends here" in text]
    assert told.startswith(log_dir)


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can grow: a write fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
