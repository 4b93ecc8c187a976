"""Histories of runs whose workers are forked from a preloader: real processes, small modules."""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.control import frames
from dsrun.launcher.control.messages import Start
from dsrun.launcher.node.checks.file_checks import check
from dsrun.launcher.node.machine import leftovers, processes
from dsrun.launcher.node.run.run import NodeRun, RunContext
from dsrun.launcher.node.run.run_state import NodeRunPhase
from dsrun.launcher.specs.policies import WorkerPolicy
from dsrun.launcher.specs.program import Program

from ...support.played_run import Played
from ...support.tasks import task_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TWO = Start(0, (0, 1), 2, 0, 1, "h", 29500, 1 << 20)

SHOW = """
import os, sys, time
names = ("RANK", "LOCAL_RANK", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
forked = "mine" in getattr(sys.meta_path[0], "kept", ())
shown = ("up", *map(os.environ.get, names), str(forked), *sys.argv[1:])
os.write(1, " ".join(shown).encode() + b"\\n")
"""
WAITS = SHOW + "time.sleep(600)"

pytestmark = pytest.mark.usefixtures("adopting")


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Played]]:
    """Make a run of a script that preloads `mine`, a module with this text.

    What others have left on this machine is not told.
    """
    monkeypatch.setattr(leftovers, "leftovers", list)

    def made(script: str = SHOW, mine: str = "", **fields: Any) -> Played:
        (tmp_path / "train.py").write_text(script)
        (tmp_path / "mine.py").write_text(mine)
        usual: dict[str, Any] = {
            "dsrun": __version__,
            "job_id": "j",
            "host": "n0",
            "program": Program("train.py", ("x",), python=sys.executable),
            "workdir": str(tmp_path),
            "env": {"DSRUN_ACCELERATOR": "cpu"},
            "slots": (0, 1),
            "port": None,
            "lease": 1e6,
            "preload": ("mine",),
        }
        return Played(task_of(**usual | fields))

    yield made
    signal.set_wakeup_fd(-1)


def lines(played: Played) -> list[str]:
    return sorted(played.output().splitlines())


def test_workers_have_imported_before_they_begin(make: Callable[..., Played]) -> None:
    played = make()
    played.run.start(TWO)
    assert played.names() == []
    assert played.done()["left"] == []
    shown = [f"up {rank} {rank} 29500 0 True --local_rank={rank} x" for rank in range(2)]
    assert lines(played) == shown
    assert sorted(played.exits()) == [(0, 0, False), (1, 0, False)]
    assert processes.children() == []


def test_the_path_of_a_worker_is_as_ever(make: Callable[..., Played], tmp_path: Path) -> None:
    script = "import os, sys; os.write(1, repr((sys.path, os.environ['PYTHONPATH'])).encode())"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "train.py").write_text(script)
    program = Program("sub/train.py", python=sys.executable, folder_first=True)
    env = {"DSRUN_ACCELERATOR": "cpu", "PYTHONPATH": "/more"}
    shown = []
    for modules in (), ("mine",):
        played = make(program=program, env=env, slots=(0,), preload=modules)
        played.run.start(TWO._replace(slots=(0,)))
        played.done()
        assert played.notes() == []
        shown.append(played.output())
    assert f"'{tmp_path}/sub', '{tmp_path}', '/more'" in shown[0]
    assert shown[0] == shown[1]


def test_workers_may_call_a_function(make: Callable[..., Played]) -> None:
    head = json.dumps({"path": [], "python": sys.version_info[:2]}).encode()
    call = pickle.dumps((eval, ("'fractions' in __import__('sys').modules",), {}))
    payload = base64.b64encode(head + b"\n" + call).decode()
    played = make(payload=payload, slots=(0,), preload=("fractions",))
    played.run.start(TWO._replace(slots=(0,)))
    played.done()
    ((rank, stream, report),) = (
        frames.unpack_output(body) for kind, body in played.received if kind == frames.OUTPUT
    )
    assert (rank, stream) == (0, 3)
    assert pickle.loads(report.partition(b"\n")[2]) is True


def test_a_module_that_raises_costs_only_a_line(make: Callable[..., Played]) -> None:
    played = make(mine="raise ValueError('x')")
    played.run.start(TWO)
    played.done()
    assert [line.split()[5] for line in lines(played)] == ["False", "False"]
    told = "workers import mine themselves: mine: ValueError: x"
    assert played.notes() == [(told, 0)]


def test_a_module_that_reads_a_rank_is_not_preloaded(make: Callable[..., Played]) -> None:
    played = make(mine="import os; os.environ.get('LOCAL_RANK')")
    played.run.start(TWO)
    played.done()
    assert [line.split()[5] for line in lines(played)] == ["False", "False"]
    why = "the variable LOCAL_RANK, read during the import, differs for some workers"
    assert played.notes() == [(f"workers import mine themselves: {why}", 0)]


def test_a_stop_does_not_wait_for_an_import(make: Callable[..., Played]) -> None:
    played = make(mine="import time; time.sleep(600)")
    played.run.start(TWO)
    assert len(processes.children()) == 1
    played.run.stop(signal.SIGTERM, 30.0)
    assert played.done()["left"] == []
    assert (played.names(), processes.children()) == (["DONE"], [])


def test_nor_does_the_end_of_a_run_that_was_not_started(make: Callable[..., Played]) -> None:
    played = make(mine="import time; time.sleep(600)")
    played.run.stop(signal.SIGTERM, 30.0)
    played.done()
    assert processes.children() == []


def test_a_module_that_hangs_is_not_awaited(make: Callable[..., Played]) -> None:
    played = make(mine="import time; time.sleep(600)")
    played.run.start(TWO)
    played.until(lambda: at_rest(processes.children()[0]))
    for _ in range(12):
        played.skip(1.0)
    played.done()
    assert [line.split()[5] for line in lines(played)] == ["False", "False"]
    assert played.notes()[0][0].endswith("themselves: the import made no progress for 10 s")


def at_rest(pid: int) -> bool:
    """Whether a process sleeps, as its import does."""
    return "nanosleep" in Path(f"/proc/{pid}/wchan").read_text()


def test_input_is_kept_until_there_is_a_worker(make: Callable[..., Played]) -> None:
    script = "import sys; print(sys.stdin.read(), 'mine' in getattr(sys.meta_path[0], 'kept', ()))"
    played = make(script, stdin=True, slots=(0,))
    played.run.start(TWO._replace(slots=(0,)))
    played.run.receive(frames.INPUT, b"a\n")
    played.run.receive(frames.INPUT, b"b")
    played.run.receive(frames.INPUT, b"")
    played.done()
    assert played.output() == "a\nb True\n"
    took = [
        frames.unpack_credit(body) for kind, body in played.received if kind == frames.INPUT_ACK
    ]
    assert sum(took) == 3


def test_the_death_of_the_preloader_is_a_cold_start(make: Callable[..., Played]) -> None:
    played = make(mine="import time; time.sleep(600)")
    played.run.start(TWO)
    (preloader,) = processes.children()
    os.kill(preloader, signal.SIGKILL)
    played.done()
    assert [line.split()[5] for line in lines(played)] == ["False", "False"]
    assert played.notes() == [("workers import mine themselves: the preloader exited", 0)]


# -- rounds ---------------------------------------------------------------------------------------


def forms(played: Played, generation: int) -> None:
    """The runner forms a round, whose first node this is, once it has joined."""
    played.until(lambda: played.names().count("READY") == generation)
    port = played.all(frames.READY)[-1]["port"]
    start = TWO._replace(generation=generation, master_port=port, restarts=generation - 1)
    played.run.receive(frames.ROUND, json.dumps(start._asdict()).encode())


@pytest.mark.parametrize("warm", [False, True])
def test_rounds_are_forked_from_what_was_imported_once(
    make: Callable[..., Played], warm: bool
) -> None:
    played = make(WAITS, mine="print(1)", elastic=True, warm=warm)
    played.run.start(TWO)
    for number in (1, 2):
        forms(played, number)
        port = played.all(frames.READY)[-1]["port"]
        played.until(lambda: played.output().count(f" {port} {number - 1} True") == 2)  # noqa: B023
        played.run.receive(frames.LEAVE_ROUND, b"")
    played.until(lambda: played.names().count("READY") == 3)
    played.run.stop(signal.SIGTERM, 30.0)
    played.done()
    assert (played.notes(), processes.children()) == ([], [])


def warm() -> list[int]:
    """The forks that wait for the next round; the preloader itself is older."""
    found = [one for one in processes.children() if "process.py" in processes.command(one, 4096)]
    forks = sorted(found, key=processes.started)[1:]
    return [one for one in forks if os.getsid(one) == one and processes.stat(one)[0] == "S"]


def test_a_warm_worker_that_is_stopped_does_not_hold_up_the_next_round(
    make: Callable[..., Played],
) -> None:
    """It is ended, and another process takes its place."""
    played = make(WAITS, elastic=True, warm=True)
    played.run.start(TWO)
    forms(played, 1)
    played.until(lambda: played.output().count("0 True") == 2)
    played.until(lambda: len(warm()) == 2)
    stopped = warm()[0]
    os.kill(stopped, signal.SIGSTOP)
    played.until(lambda: processes.stat(stopped)[0] == "T")
    played.run.receive(frames.LEAVE_ROUND, b"")
    forms(played, 2)
    played.until(lambda: len(re.findall(" 1 (?:True|False)", played.output())) == 2)
    assert played.notes() == [(f"a fork for a worker was stopped (pid {stopped}); killed", 0)]
    played.run.stop(signal.SIGTERM, 30.0)
    played.done()
    assert processes.children() == []


def test_a_change_does_not_wait_for_an_import(make: Callable[..., Played], tmp_path: Path) -> None:
    wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    played = make(WAITS, mine=wait, elastic=True)
    played.run.start(TWO)
    forms(played, 1)
    played.run.receive(frames.LEAVE_ROUND, b"")
    forms(played, 2)
    (tmp_path / "go").touch()
    played.until(lambda: played.output().count("up") == 2)
    assert [line.split()[4:6] for line in lines(played)] == [["1", "True"]] * 2
    played.run.stop(signal.SIGTERM, 30.0)
    played.done()
    assert (played.notes(), processes.children()) == ([], [])


def test_the_death_of_the_preloader_costs_a_line_in_the_next_round(
    make: Callable[..., Played],
) -> None:
    played = make(WAITS, elastic=True)
    played.run.start(TWO)
    forms(played, 1)
    played.until(lambda: played.output().count("0 True") == 2)
    (preloader,) = set(processes.children()) - set(played.pids())
    os.kill(preloader, signal.SIGKILL)
    played.run.receive(frames.LEAVE_ROUND, b"")
    forms(played, 2)
    played.until(lambda: played.output().count("1 False") == 2)
    assert played.notes() == [("workers import mine themselves: the preloader exited", 0)]
    played.run.stop(signal.SIGTERM, 30.0)
    played.done()


# -- held nodes -----------------------------------------------------------------------------------


def test_a_held_node_forks_its_next_run_from_the_same_preloader(
    make: Callable[..., Played],
) -> None:
    played = make(held=True)
    preloader = played.run.kept
    assert preloader is not None
    played.run.start(TWO)
    played.done()
    (pid,) = processes.children()
    former = played.run
    played.received.clear()
    played.run = NodeRun(
        played.loop,
        former.task,
        played._send,
        played._ended,
        check(former.task),
        RunContext(former.kept),
    )
    assert played.run.former == frozenset()
    played.ends = 0
    played.run.start(TWO._replace(master_port=29501))
    played.done()
    assert [line.split()[3:6] for line in lines(played)] == [["29501", "0", "True"]] * 2
    assert (processes.children(), played.notes()) == ([pid], [])
    # The last one has no use for it.
    task = former.task._replace(workers=WorkerPolicy(), held=False)
    around = RunContext(played.run.kept)
    NodeRun(played.loop, task, played._send, played._ended, check(task), around)
    os.waitpid(pid, 0)
    played.run.close()
    assert played.run.phase is NodeRunPhase.ENDED
