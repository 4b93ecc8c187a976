"""The log files of a round."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.control.messages import NodeJob, Start
from dsrun.launcher.node.workers import error_file
from dsrun.launcher.node.workers.log_files import LogFiles
from dsrun.launcher.node.workers.worker_specs import WorkerSpecs
from dsrun.launcher.specs.policies import OutputPolicy
from dsrun.launcher.specs.program import Program

from ...support.node_setup import node_setup
from ...support.tasks import task_of
from ...support.unkillable import held, unkillable
from ...support.written_logs import write

START = Start(4, (0, 1), 8, 2, 3, "h", 1, 1, generation=1, restarts=2)


def files(folder: Path, **fields: Any) -> LogFiles:
    """Return the files of a task whose log folder is here."""
    program = Program("true", no_python=True)
    task = task_of(
        dsrun=__version__,
        job_id="j",
        host="n1",
        program=program,
        workdir=str(folder),
        **{"env": {}, "slots": (0, 1), "port": None, **fields},
    )
    return LogFiles(node_setup(task, print), print)


def test_no_file_where_none_is_asked_for(tmp_path: Path) -> None:
    assert files(tmp_path).open([4, 5], START) is None
    assert list(tmp_path.iterdir()) == []


def test_ranks_have_files_by_their_names(tmp_path: Path) -> None:
    logs = files(tmp_path, log_dir="logs").open([5], START)
    write(logs, (5, 1, b"out"), (5, 2, b"err"))
    folder = tmp_path / "logs" / "j"
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == {
        "rank-0005.out": b"out",
        "rank-0005.err": b"err",
    }
    assert logs is not None
    assert logs.errors(5) == str(folder / "rank-0005.err")


def test_torchruns_names_are_by_restart_and_local_rank(tmp_path: Path) -> None:
    made = files(tmp_path, log_dir="logs", log_layout="torchrun")
    logs = made.open([4, 5], START)
    write(logs)
    assert logs is not None
    found = [logs.errors(rank).partition("attempt_")[2] for rank in (4, 5)]
    assert found == ["2/0/stderr.log", "2/1/stderr.log"]
    assert made.error_file(START, 1).endswith("attempt_2/1/error.json")


def test_files_are_new_in_the_first_round_and_continued_later(tmp_path: Path) -> None:
    made = files(tmp_path, log_dir="logs")
    for generation, text in ((1, b"one"), (2, b"two")):
        write(made.open([4], START._replace(generation=generation)), (4, 1, text))
    assert (tmp_path / "logs" / "j" / "rank-0004.out").read_bytes() == b"onetwo"
    with pytest.raises(FileExistsError):
        made.open([4], START)
    os.wait()


def test_files_may_be_named_by_the_agent(tmp_path: Path) -> None:
    named = {"DSRUN_LOG_OUT": "named/out", "DSRUN_LOG_ERR": os.devnull}
    said: tuple[dict[str, str], ...] = ({}, named)
    made = files(tmp_path, logs_specs=("name", "", "", "", ""))
    logs = made.open([4, 5], START._replace(agent_variables=said))
    write(logs, (5, 1, b"text"))
    assert (tmp_path / "named" / "out").read_bytes() == b"text"
    assert logs is not None
    assert [logs.errors(rank) for rank in (4, 5)] == ["", ""]
    assert logs.sink(5, 2) is None
    assert made.open([4], START._replace(agent_variables=said)) is None


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
    task = NodeJob(__version__, "j", "n1", program, str(tmp_path), {}, (0,), None)
    task = task._replace(output=OutputPolicy(log_dir=log_dir))
    said: list[str] = []
    setup = node_setup(task, said.append)
    made = WorkerSpecs(setup, said.append)
    for generation in (1, 2, 3):
        start = Start(0, (0,), 1, 0, 1, "127.0.0.1", 1, 1, generation=generation)
        _, logs = made.make(start)
        assert logs is not None
        resource.prlimit(logs.pid, resource.RLIMIT_FSIZE, (0, 0))  # as on a full disk
        write(logs, (0, 1, b"text"))
    (told,) = [text for text in said if "log ends here" in text]
    assert told.startswith(log_dir)


def test_a_round_has_no_logs_while_a_former_one_waits_for_the_disk(tmp_path: Path) -> None:
    made = files(tmp_path, log_dir="logs", lease=10.0)  # half of it is for a fork on a busy machine
    logs = made.open([4], START)
    assert logs is not None
    with unkillable(logs.pid):
        os.kill(logs.pid, signal.SIGSTOP)
        write(logs, (4, 1, b"text"), reap=False)
        held(logs.pid)
        assert made.stuck == made.pids == {logs.pid}
        again = START._replace(generation=2)
        assert made.open([4], again) is None
    assert os.waitpid(logs.pid, 0)[1] == signal.SIGKILL
    made.on_reaped({logs.pid: signal.SIGKILL})
    assert made.stuck == made.pids == set()
    write(made.open([4], again), (4, 1, b"later"))
    assert (tmp_path / "logs" / "j" / "rank-0004.out").read_bytes().endswith(b"later")
