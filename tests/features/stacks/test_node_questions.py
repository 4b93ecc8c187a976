"""Questions for stacks through a session: real workers, read by the real py-spy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.control import frames
from dsrun.launcher.features.stacks import node_faults as faults
from dsrun.launcher.features.stacks import node_questions as questions
from dsrun.launcher.features.stacks.messages import STACKS, StacksAnswer, StacksAsk
from dsrun.launcher.features.stacks.node_family import families
from dsrun.launcher.node.machine import processes
from dsrun.launcher.specs.program import Program

from ...support.fake_runner import prepared, running, stopped
from ...support.limits import HANG
from ...support.questions import answers as answers_in
from ...support.questions import question, replies

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_runner import FakeRunner, Steps

pytestmark = pytest.mark.usefixtures("adopting")

WORKER = """
import os
def wait_here():
    os.write(1, b"ready")
    os.read(os.pipe()[0], 1)
def load():
    wait_here()
if os.fork() == 0:
    load()
wait_here()
"""


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacks are read in time, however busy this machine is."""
    monkeypatch.setattr(system, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(questions, "SECONDS", HANG)
    monkeypatch.setattr(questions, "NATIVE_SECONDS", HANG)
    monkeypatch.setattr(faults, "FIRST_OF_3", 99)  # as for a Python that py-spy has long known


def started(r: FakeRunner, folder: Path, python: str = sys.executable, **fields: object) -> Steps:
    """A run of a worker with one child, which both wait in `wait_here`."""
    times = r.output().count("ready") + 2
    script = folder / "train.py"
    script.write_text(WORKER)
    program = Program(str(script), python=python, local_rank=False)
    yield from prepared(r, program=program, **fields)
    r.start()
    yield lambda: r.output().count("ready") == times


def wait_in(r: FakeRunner, function: str, count: int) -> Callable[[], bool]:
    """Return whether the worker and its children, so many in all, are in that kernel function."""
    pid = r.all(frames.STARTED)[-1]["pids"][0]
    return lambda: (
        [(one.state, function in one.waits_in) for one in families([(0, pid)], children=True)]
        == [("S", True)] * count
    )


def both_wait(r: FakeRunner) -> Callable[[], bool]:
    """Return whether the worker and its child are in their read, to be asked again and again."""
    return wait_in(r, "pipe", 2)


def asks(r: FakeRunner, number: int, **fields: Any) -> None:
    """Ask, with this number."""
    r.sends(frames.QUESTION, question(STACKS, StacksAsk(**fields), number))


def asked(r: FakeRunner, number: int = 7, **fields: Any) -> Steps:
    """Ask, and wait for the answer."""
    times = r.names().count("REPLY") + 1
    children = len(processes.children())
    asks(r, number, **fields)
    yield r.got(frames.REPLY, times)
    yield lambda: len(processes.children()) <= children  # the one that has read is reaped


def answers(r: FakeRunner) -> list[StacksAnswer]:
    return answers_in(r.received, STACKS)


def functions(stacks: StacksAnswer, pid: int) -> list[list[str]]:
    """The names of the functions in which the threads of a process are."""
    found = [one.frames for one in stacks.threads if one.pid == pid]
    return [[frame.partition(" ")[0] for frame in frames] for frames in found]


def test_a_worker_and_its_child(runner: FakeRunner, tmp_path: Path) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from started(r, tmp_path, log_dir=str(tmp_path / "logs"))
        yield both_wait(r)
        yield from asked(r, save=True)
        (found,) = answers(r)
        worker, child = found.processes
        assert (replies(r.received)[0].number, worker.pid) == (
            7,
            r.all(frames.STARTED)[0]["pids"][0],
        )
        assert (child.rank, child.parent, child.state) == (0, worker.pid, "S")
        assert worker.command.endswith("train.py")
        assert {row.source: row.problem for row in found.processes} == {"py-spy": ""}
        assert functions(found, worker.pid) == [["wait_here", "<module>"]]
        assert functions(found, child.pid) == [["wait_here", "load", "<module>"]]
        assert found.threads[0].frames[0] == f"wait_here ({tmp_path}/train.py:5)"
        assert found.threads[0].main
        assert found.saved == str(tmp_path / "logs" / "j")
        text = (tmp_path / "logs" / "j" / "rank-0000.stacks").read_text()
        assert text.count(f"    wait_here ({tmp_path}/train.py:5)\n") == 2
        yield from asked(r, children=False, ranks=(0,), native=True)
        (only,) = answers(r)[1].processes
        assert only.pid == worker.pid
        assert len(functions(answers(r)[1], worker.pid)[0]) > 2, "the frames of C code, too"
        yield from asked(r, ranks=(1,))
        assert answers(r)[2].processes == ()
        yield from stopped(r)
        yield from asked(r)
        assert answers(r)[3].processes == ()
        r.end()

    assert runner.play(history) == 0


FAMILY = """
import os
for _ in range({count}):
    if os.fork() == 0:
        break
os.write(1, b"ready")
os.read(os.pipe()[0], 1)
"""


@pytest.mark.parametrize(("children", "more"), [(1, False), (questions.FEW, True)])
def test_a_node_with_many_processes_says_that_it_takes_longer(
    runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, children: int, more: bool
) -> None:
    monkeypatch.setattr(questions, "EACH", 1.0)
    monkeypatch.setattr(questions, "LONGEST", 2 * HANG)
    script = tmp_path / "train.py"
    script.write_text(FAMILY.format(count=children))

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, program=Program(str(script), local_rank=False))
        r.start()
        yield lambda: r.output().count("ready") == children + 1
        asks(r, 7)
        yield r.got(frames.REPLY, 1 + more)
        (found,) = answers(r)
        assert len(found.processes) == children + 1
        *word, last = replies(r.received)
        assert last.more == 0.0
        assert [(one.number, one.body) for one in word] == [(7, {})] * more
        assert all(one.more > questions.SECONDS for one in word)
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0


def test_a_stopped_worker_is_read_and_stays_stopped(runner: FakeRunner, tmp_path: Path) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from started(r, tmp_path)
        yield both_wait(r)
        pid = r.all(frames.STARTED)[0]["pids"][0]
        os.kill(pid, signal.SIGSTOP)
        yield lambda: processes.stat(pid)[0] == "T"
        yield from asked(r, native=True)
        assert answers(r)[0].processes[0].state == "T"
        assert functions(answers(r)[0], pid) == [["wait_here", "<module>"]]
        assert processes.stat(pid)[0] == "T"
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0


def test_without_py_spy_there_are_states_and_the_reason(
    runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", "/bin")

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "echo ready; read forever", stdin=True)
        r.start()
        yield r.prints("ready")
        yield lambda: processes.stat(r.all(frames.STARTED)[0]["pids"][0])[0] == "S"
        yield from asked(r)
        (row,) = answers(r)[0].processes
        assert (row.state, row.source) == ("S", "")
        assert row.problem == "py-spy is not installed on this node (pip install py-spy)"
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0


BLOCKED = """
import os
os.mkfifo("fifo")
os.write(1, b"ready" * 2)
os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "fifo", 0, 0)])
import signal; signal.pause()
"""


def test_a_worker_in_d_state_is_read_and_does_not_hold_up_anything(
    runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the exec of a child that shares its memory (vfork), which waits for a pipe."""
    monkeypatch.setattr(sys.modules[__name__], "WORKER", BLOCKED)

    def history(r: FakeRunner) -> Steps:
        yield from started(r, tmp_path)
        pid = r.all(frames.STARTED)[0]["pids"][0]
        yield lambda: processes.stat(pid)[0] == "D"
        yield from asked(r, native=True)
        found = answers(r)[0].processes[0]
        assert (found.state, found.source) == ("D", "py-spy")
        assert found.command.startswith("python")
        assert " " not in found.command, "its command line is in memory that may be locked"
        assert functions(answers(r)[0], pid) == [["<module>"]]
        assert processes.stat(pid)[0] == "D"
        (tmp_path / "fifo").write_text("")
        yield lambda: processes.stat(pid)[0] == "S"
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0


def test_where_py_spy_may_not_read_the_worker_writes_its_stacks(
    runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its child, too; a worker without the hook would die of the signal, and gets none."""
    monkeypatch.setattr(faults, "YOUNG", 0.0)
    monkeypatch.setenv("PATH", os.defpath)
    base = Path(sys._base_executable)  # type: ignore[attr-defined]
    (tmp_path / "python3").symlink_to(base)
    (tmp_path / "py-spy").write_text("#!/bin/sh\necho Error: Permission denied >&2; exit 1\n")
    (tmp_path / "py-spy").chmod(0o755)
    python = str(tmp_path / "python3")

    def history(r: FakeRunner) -> Steps:
        yield from started(r, tmp_path, python=python, hook=True)
        yield both_wait(r)
        while True:
            yield from asked(r)
            worker, child = answers(r)[-1].processes
            shown = [functions(answers(r)[-1], one.pid) for one in (worker, child)]
            if shown == [[["wait_here", "<module>"]], [["wait_here", "load", "<module>"]]]:
                break  # else one got no core in time to write all
        assert {row.source: row.problem for row in (worker, child)} == {"faulthandler": ""}
        yield from stopped(r)
        yield from started(r, tmp_path, python=python)
        yield both_wait(r)
        yield from asked(r)
        problems = {row.problem for row in answers(r)[-1].processes}
        assert problems == {"py-spy is not allowed to read it (ptrace)"}
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0


RESTRICTED = """
import json, os, signal, sys, time
sys.path[:0] = {path!r}
from dsrun.launcher.node.machine import processes
from dsrun.launcher.features.stacks.messages import StacksAsk
from dsrun.launcher.features.stacks.node_answer import answer
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec
os.setuid(65534)  # from now on the kernel lets nobody but root read this process, or its forks
waits, tells = os.pipe()
pid = os.fork()
if pid == 0:
    os.write(tells, b"up")
    signal.pause()
os.read(waits, 2)
while processes.stat(pid)[0] != "S":
    time.sleep(0.01)
spec = WorkerSpec(3, [b"/none/python"], {{}}, b"/")
found = answer(StacksAsk(), [Process(spec, pid, -1, -1, -1)], 5.0)
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
print(json.dumps(found.processes))
"""


HALTED = """
import fcntl, os, signal, sys
sys.path[:0] = {path!r}
from dsrun.launcher.features.stacks.hook.sitecustomize import COLLECTIVES
from dsrun.launcher.features.stacks.messages import StacksAsk
from dsrun.launcher.features.stacks.node_answer import answer
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec
asks, asked = os.pipe()
os.memfd_create(f"{{COLLECTIVES}}{{asked}}")
os.set_blocking(asks, False)
pid = os.fork()
if pid == 0:
    signal.pause()
if {stopped}:
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
answer(StacksAsk(), [Process(WorkerSpec(3, [sys.executable], {{}}, b"/"), pid, -1, -1, -1)], 1.0)
os.kill(pid, signal.SIGKILL)
try:
    print(os.read(asks, 9).decode())
except BlockingIOError:
    print("nothing")
"""


@pytest.mark.parametrize(("stopped", "asked"), [(True, "nothing"), (False, "?")])
def test_a_process_that_is_stopped_is_not_asked_for_its_collectives(
    stopped: bool, asked: str
) -> None:
    """It would not answer, and the others of its node would be waiting for it."""
    code = HALTED.format(path=sys.path, stopped=stopped)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{asked}\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_process_that_nobody_may_read_has_a_state_and_a_reason() -> None:
    code = RESTRICTED.format(path=sys.path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ((rank, _, _, _, state, _, source, problem, _),) = json.loads(done.stdout)
    assert (rank, state, source) == (3, "S", "")
    assert problem.startswith(("there is no py-spy", "py-spy"))


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked hangs."""
    monkeypatch.setattr(questions, "answer", lambda *_: signal.pause())


PAUSES = Program(
    sys.executable,
    ("-ISc", "import os, signal; os.write(1, b'ready\\n'); signal.pause()"),
    no_python=True,
    local_rank=False,
)
"""It runs no more once it waits, other than `WAITS`, which sleeps for short times."""


@pytest.mark.usefixtures("stuck")
def test_what_hangs_is_answered_by_states_in_time(runner: FakeRunner) -> None:
    """The child that reads is not taken for a process of the workers."""

    def history(r: FakeRunner) -> Steps:
        yield from running(r, PAUSES)
        yield wait_in(r, "pause", 1)
        for number in range(questions.AT_ONCE + 1):
            asks(r, number)
        yield r.got(frames.REPLY)
        assert replies(r.received)[0].number == questions.AT_ONCE
        assert answers(r)[0].processes[0].problem == "too many questions at once"
        yield r.skip(questions.SECONDS + questions.MARGIN)
        yield r.got(frames.REPLY, questions.AT_ONCE + 1)
        assert {one.processes[0].state for one in answers(r)} == {"S"}
        assert answers(r)[1].processes[0].problem == "nothing was read in time"
        yield lambda: len(processes.children()) == 2  # the guard's stand-in, and the worker
        asks(r, 9)
        yield from stopped(r)
        assert r.all(frames.DONE)[0]["left"] == []
        yield r.skip(questions.SECONDS + questions.MARGIN)
        yield lambda: len(processes.children()) == 1
        r.end()

    assert runner.play(history) == 0


def test_an_invalid_question_ends_the_line(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        r.sends(frames.QUESTION, b'{"number":1,"name":"stacks","body":{"ranks":[-1]}}')
        yield lambda: r.closed

    assert runner.play(history) == 75
