"""The hook in real workers: what they see is as without it, and they answer questions."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.stacks import hook
from dsrun.launcher.features.stacks import node_faults as faults
from dsrun.launcher.features.stacks import node_flight as flight
from dsrun.launcher.features.stacks import node_memory_files as memory_files
from dsrun.launcher.features.stacks import node_py_spy as py_spy
from dsrun.launcher.features.stacks.hook import sitecustomize
from dsrun.launcher.features.stacks.messages import StacksAsk
from dsrun.launcher.features.stacks.node_answer import answer
from dsrun.launcher.features.stacks.node_family import families
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec, spawn

from ....support.limits import HANG, wait_for
from ....support.preloading import COMMON, Ended, cold
from ....support.specs import PYTHON

if TYPE_CHECKING:
    from dsrun.launcher.features.stacks.messages import Collective

pytestmark = pytest.mark.usefixtures("adopting")

HOOK = os.fsencode(hook.FOLDER)

TELLS = """
    import sys
    modules = sorted(sys.modules)
    import importlib.util, os, subprocess, traceback
    def tell(name, value):
        print(name, ascii(value))
    tell("argv", (sys.argv, sys.orig_argv))
    tell("path", sys.path)
    tell("cache", sorted(sys.path_importer_cache))
    tell("finders", [one for one in sys.meta_path if "_Finder" not in repr(one)])
    tell("modules", modules)
    tell("main", sorted(vars(sys.modules["__main__"])))
    tell("environ", sorted(os.environb.items()))
    tell("executed", subprocess.run(["env"], capture_output=True).stdout)
    tell("found", importlib.util.find_spec("sitecustomize"))
    tell("files", [os.path.exists(f"/proc/self/fd/{fd}") for fd in range(200)])
    tell("hooks", (sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile()))
    tell("threads", os.listdir("/proc/self/task") == [str(os.getpid())])
    tell("first file", os.open("/dev/null", os.O_RDONLY))
    def fails():
        return 1 / 0
    try:
        fails()
    except ZeroDivisionError:
        traceback.print_exc()
    import broken.inside
"""

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "path": {"PYTHONPATH": "sub:/none"},
    "faults": {"PYTHONFAULTHANDLER": "1"},
    "development": {"PYTHONDEVMODE": "1"},
    "strict": {"PYTHONWARNINGS": "error"},
    "safe": {"PYTHONSAFEPATH": "1"},
    "own": {"PYTHONPATH": "own"},
    "failing": {"PYTHONPATH": "failing"},
}


def write(folder: Path, **texts: str) -> None:
    """Write modules, by their dotted names; packages are made for them."""
    for name, text in texts.items():
        path = folder.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        for above in path.relative_to(folder).parents[:-1]:
            (folder / above / "__init__.py").touch()
        path.write_text(dedent(text))


def spec(folder: Path, *, armed: bool = True, **env: str) -> WorkerSpec:
    """A worker that runs train.py."""
    variables = {os.fsencode(name): os.fsencode(v) for name, v in {**COMMON, **env}.items()}
    argv = [PYTHON, b"-u", b"train.py", b"--lr", b"1"]
    return WorkerSpec(3, argv, variables, os.fsencode(folder), hook=HOOK if armed else b"")


def run(folder: Path, *, armed: bool = True, **env: str) -> Ended:
    return cold(spec(folder, armed=armed, **env)).ends()


@pytest.mark.parametrize("env", SETTINGS.values(), ids=SETTINGS)
def test_a_worker_sees_nothing_of_it(tmp_path: Path, env: dict[str, Any]) -> None:
    """Its own modules of that name are imported, and fail, as ever."""
    write(tmp_path, train=TELLS, own__sitecustomize="a = 1", failing__sitecustomize="1 / 0")
    write(tmp_path, broken__inside="def f():\n    return 1 / 0\nf()")
    (tmp_path / "own" / "__init__.py").unlink()
    (tmp_path / "failing" / "__init__.py").unlink()
    armed, plain = run(tmp_path, **env), run(tmp_path, armed=False, **env)
    assert armed.out.splitlines() == plain.out.splitlines()
    assert armed == plain
    assert armed.status == 1


def test_it_is_not_inherited_by_other_programs(tmp_path: Path) -> None:
    """Nor in effect where Python is told to heed no variables, which are then left as they are."""
    shows = (
        "import faulthandler, os; print(faulthandler.is_enabled(), os.environ.get('PYTHONPATH'))"
    )
    write(
        tmp_path,
        train=f"""
        import os, subprocess, sys
        {shows}
        sys.stdout.flush()
        subprocess.run([sys.executable, "-c", {shows!r}])
        names = os.listdir("/proc/self/fd")
        subprocess.run([sys.executable, "-c", "import os; print(len(os.listdir('/proc/self/fd')))"])
        """,
    )
    assert run(tmp_path).out.splitlines() == ["True None", "False None", "4"]
    argv = [PYTHON, b"-I", b"-c", shows.encode()]
    isolated = cold(spec(tmp_path)._replace(argv=argv)).ends()
    assert isolated.out == f"False {hook.FOLDER}\n"


CRASH = """
    import ctypes
    def inner():
        ctypes.string_at(0)
    inner()
"""


def test_a_crash_is_shown_with_its_stack(tmp_path: Path) -> None:
    write(tmp_path, train=CRASH)
    armed, plain = run(tmp_path), run(tmp_path, armed=False)
    assert armed.status == plain.status == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in armed.err
    assert f'File "{tmp_path}/train.py", line 4 in inner' in armed.err
    assert plain.err == ""


HOLDS = """
    import ctypes, os
    def inside():
        os.write(1, b"ready")
        ctypes.PyDLL(None).read(os.pipe()[0], b"x", 1)
    def load():
        inside()
    if os.fork() == 0:
        load()
    inside()
"""


def started_worker(folder: Path, text: str, ready: bytes = b"ready") -> Process:
    """Start a worker, and wait until it has printed this."""
    write(folder, train=text)
    process = spawn(spec(folder))
    os.set_blocking(process.stdout, True)
    printed = b""
    while len(printed) < len(ready):
        block = os.read(process.stdout, 100)
        assert block, os.read(process.stderr, 9999)
        printed += block
    return process


def await_call(name: str, *pids: int) -> None:
    """Wait until these processes are in a system call, by its name in the kernel (wchan)."""
    wait_for(lambda: all(name in Path(f"/proc/{one}/wchan").read_text() for one in pids), name)


def ended(process: Process) -> None:
    """End a worker and its children."""
    os.killpg(process.pid, signal.SIGKILL)
    for fd in (process.stdin, process.stdout, process.stderr):
        os.close(fd)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def test_on_the_signal_it_writes_its_stacks_whatever_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's lock is held by C code for ever, in the worker and in a process that it forked."""
    process = started_worker(tmp_path, HOLDS, b"ready" * 2)
    try:
        both = families([(3, process.pid)], children=True)
        await_call("pipe", *(one.pid for one in both))
        monkeypatch.setattr(faults, "YOUNG", 1e9)
        assert faults.read(both, time.monotonic() + HANG) == {}
        monkeypatch.setattr(faults, "YOUNG", 0.0)
        inner, where = f"inside ({tmp_path}/train.py:5)", f"({tmp_path}/train.py:"
        whole = {
            both[0].pid: [(True, (inner, f"<module> {where}10)"))],
            both[1].pid: [(True, (inner, f"load {where}7)", f"<module> {where}9)"))],
        }
        number, _ = memory_files.find(process.pid, sitecustomize.STACKS)
        assert number >= 250
        file = Path(f"/proc/{process.pid}/fd/{number}")

        def read() -> bool:
            """One that gets no core in time has not written all, and writes the rest later."""
            found = faults.read(both, time.monotonic() + HANG)
            shown = {pid: [(one.main, one.frames) for one in rows] for pid, rows in found.items()}
            return shown == whole and file.stat().st_size == 0

        for _ in range(2):
            wait_for(read, "both stacks")
    finally:
        ended(process)


@pytest.mark.parametrize("ending", ["signal.signal(62, signal.SIG_DFL)", "os.closerange(3, 2000)"])
def test_a_process_that_would_die_or_write_elsewhere_gets_no_signal(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "YOUNG", 0.0)
    text = f"import os, signal; {ending}; os.write(1, b'ready'); signal.pause()"
    process = started_worker(tmp_path, text)
    try:
        assert faults._texts([process.pid], time.monotonic() + 5) == {}
        assert os.waitpid(process.pid, os.WNOHANG) == (0, 0)
    finally:
        ended(process)


HOT = """
import os, signal, threading
def runs():
    os.write(1, b"ready")
    while True:
        abs(1)
"""

RUNS = {
    "its main thread": "runs()",
    "another thread": "threading.Thread(target=runs).start(); signal.pause()",
}


@pytest.mark.parametrize("then", RUNS.values(), ids=RUNS)
def test_a_process_that_runs_gets_no_signal(
    tmp_path: Path, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could die of it: its frames are read without Python's lock."""
    monkeypatch.setattr(faults, "YOUNG", 0.0)
    process = started_worker(tmp_path, HOT + then)
    try:
        only = families([(3, process.pid)], children=False)
        assert faults.read(only, time.monotonic() + HANG) == {}
        number, _ = memory_files.find(process.pid, sitecustomize.STACKS)
        assert Path(f"/proc/{process.pid}/fd/{number}").stat().st_size == 0
    finally:
        ended(process)


RECORDER = """
    def _dump_fr_trace_json():
        return b'{"entries": [{"process_group": ["0", "default_pg"], "profiling_name": "g:x"}]}'
"""

USES = """
    import os, signal, sys
    import torch.distributed.distributed_c10d as c10d
    assert c10d.loaded and type(c10d.__spec__.loader).__name__ == "SourceFileLoader"
    assert "exec_module" not in vars(c10d.__loader__)
    assert not [one for one in sys.meta_path if "_Finder" in repr(one)]
    import threading; assert threading.active_count() == 1
    os.write(1, b"ready")
    {then}
"""


def recorder(folder: Path) -> None:
    """Something in place of torch."""
    write(
        folder,
        torch___C___distributed_c10d=RECORDER,
        torch__distributed__distributed_c10d="import torch._C._distributed_c10d; loaded = True",
    )
    (folder / "torch" / "_C").mkdir(parents=True, exist_ok=True)
    (folder / "torch" / "_C" / "__init__.py").touch()
    (folder / "torch" / "_C" / "_distributed_c10d.py").write_text(dedent(RECORDER))


def test_once_torch_is_imported_collectives_can_be_asked_for(tmp_path: Path) -> None:
    recorder(tmp_path)
    process = started_worker(tmp_path, USES.format(then="signal.pause()"))
    try:
        for _ in range(2):
            until = time.monotonic() + HANG
            told = flight.records([process], flight.ask([process]), until)
            (one,) = flight.collectives(told)
            assert (one.rank, one.group, one.operation) == (3, "default_pg", "x")
    finally:
        ended(process)


COMPUTES = """
    import hashlib
    def spin():
        hashlib.pbkdf2_hmac("sha256", b"", b"", (1 << 31) - 1)
    spin()
"""


def test_a_main_thread_that_runs_is_told_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits for a kernel of CUDA: in a loop, without Python's lock."""
    recorder(tmp_path)
    process = started_worker(tmp_path, USES.format(then=COMPUTES))
    monkeypatch.setattr(py_spy, "find", lambda _: "")

    def spins() -> bool:
        told = flight.records([process], flight.ask([process]), time.monotonic() + HANG)
        return flight.main_threads(told)[3][0].startswith("spin ")

    try:
        wait_for(spins, "its loop")
        told = answer(StacksAsk(), [process], HANG)
        ((_, _, main, active, frames),) = told.threads
        assert (main, active) == (True, True)
        assert [one.partition(" ")[0] for one in frames] == ["spin", "<module>"]
        assert f"({tmp_path}/" in frames[0]
        assert [one.source for one in told.processes] == ["worker"]
    finally:
        ended(process)


def test_a_thread_without_pythons_lock_does_not_answer(tmp_path: Path) -> None:
    recorder(tmp_path)
    then = "import ctypes; ctypes.PyDLL(None).pause()"
    process = started_worker(tmp_path, USES.format(then=then))
    try:
        await_call("pause", process.pid)
        asked = flight.ask([process])
        assert asked.keys() == {3}
        assert flight.records([process], asked, time.monotonic() + 0.05) == {}
    finally:
        ended(process)


@pytest.mark.parametrize(
    "body", ["import torch._C._distributed_c10d; 1 / 0", "import none", "(", ""]
)
def test_an_import_that_fails_does_so_as_ever(tmp_path: Path, body: str) -> None:
    """So does one of a torch that was built without a recorder."""
    recorder(tmp_path)
    write(
        tmp_path,
        torch__distributed__distributed_c10d=body,
        train="import torch.distributed.distributed_c10d",
    )
    armed, plain = run(tmp_path), run(tmp_path, armed=False)
    assert armed == plain
    assert (armed.status == 0) == (not body)


TRAINS = """
    import os, signal, socket
    import torch, torch.distributed as dist
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    for size in (3, 4):
        dist.all_reduce(torch.ones(size))
    os.write(1, b"ready")
    os.read(os.pipe()[0], 1)
"""


@pytest.mark.tier("ci")
def test_the_flight_recorder_of_torch_itself(tmp_path: Path) -> None:
    began = time.time()
    process = started_worker(tmp_path, TRAINS)
    found: tuple[Collective, ...] = ()

    def completed() -> bool:
        """Torch notes the end of a collective after who waited for it goes on."""
        nonlocal found
        told = flight.records([process], flight.ask([process]), time.monotonic() + HANG)
        found = flight.collectives(told)
        return {one.state for one in found} == {"completed"}

    try:
        wait_for(completed, "the end of the collectives")
        named = [(one.group, one.sequence, one.operation, one.sizes) for one in found]
        assert named == [
            ("default_pg", 1, "all_reduce", "[[3]]"),
            ("default_pg", 2, "all_reduce", "[[4]]"),
        ]
        assert {one.types for one in found} == {"['Float']"}
        assert 0 < found[0].age <= time.time() - began
    finally:
        ended(process)
