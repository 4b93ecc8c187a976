"""Which workers of a run are forked from a preloader, and which preloader is kept for the next."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.features.preload.node_preloader import Preloader, PreloaderPhase
from dsrun.launcher.features.preload.node_workers import PreloadedWorkers
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.workers.spawn import WorkerSpec
from dsrun.launcher.specs.program import Program

from ...support.clock import Clock
from ...support.fake_preloader import FakePreloader
from ...support.limits import wait_for
from ...support.node_setup import node_setup
from ...support.tasks import task_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dsrun.launcher.common.loop import Loop
    from dsrun.launcher.features.preload.node_workers import PreloadRequest
    from dsrun.launcher.node.workers.spawn import Process


class Runs:
    """The runs of a node, one after another, and the preloaders that they start."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.folder = folder
        self.fakes: list[FakePreloader] = []
        self.requests: list[PreloadRequest] = []
        self.notes: list[str] = []
        self.calls: list[str] = []
        self.workers: PreloadedWorkers
        (folder / "train.py").touch()

    def run(self, kept: Preloader | None = None, **fields: Any) -> PreloadedWorkers:
        """Begin a run."""
        usual: dict[str, Any] = {
            "dsrun": __version__,
            "job_id": "j",
            "host": "n0",
            "program": Program("train.py", python=sys.executable),
            "workdir": str(self.folder),
            "env": {"DSRUN_ACCELERATOR": "cpu", "A": "1"},
            "slots": (0, 1),
            "port": None,
            "preload": ("m",),
        }
        setup = node_setup(task_of(**usual | fields), print)
        loop = self.clock.loop
        self.workers = PreloadedWorkers(loop, setup, self.notes.append, kept, self._make)
        return self.workers

    def _make(self, loop: Loop, request: PreloadRequest, note: Callable[[str], None]) -> Preloader:
        self.requests.append(request)
        self.fakes.append(FakePreloader())
        return Preloader(loop, request, note, self.fakes[-1].start)

    def imports(self, **report: object) -> None:
        self.fakes[-1].imports(**report)
        self.clock.settle()

    def prepare(self, count: int = 2, at: int = -1) -> None:
        """Prepare for so many workers, whose forks come."""
        self.workers.prepare(count, lambda: self.calls.append("start"))
        self.forks(at)

    def forks(self, at: int = -1) -> None:
        """Let all forks come that were asked for."""
        self.clock.settle()
        self.fakes[at].asked()
        for one in self.fakes[at].forks:
            if not one.pid:
                one.waits()
        self.clock.settle()

    def forked(self, process: Process) -> bool:
        """Whether a worker is a fork; its files are closed."""
        for fd in (process.stdin, process.stdout, process.stderr):
            os.close(fd)
        return any(process.pid == fork.pid for fake in self.fakes for fork in fake.forks)

    def reap(self) -> None:
        """Reap those that were killed."""
        for pid in processes.children():
            if processes.stat(pid)[0] == "Z" or pid not in self.workers.pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self.workers.on_reaped({pid})


@pytest.fixture
def runs(adopting: None, tmp_path: Path) -> Iterator[Runs]:  # noqa: ARG001
    found = Runs(tmp_path)
    yield found
    for fake in found.fakes:
        fake.close()
    found.clock.settle()
    for pid in processes.children():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def spec(rank: int = 0, env: dict[bytes, bytes] | None = None, **more: Any) -> WorkerSpec:
    return WorkerSpec(rank, [b"/bin/true"], {b"A": b"1"} if env is None else env, b"/", **more)


def test_workers_are_forks_and_the_preloader_ends(runs: Runs) -> None:
    workers = runs.run()
    runs.prepare()
    assert (runs.calls, workers.waiting) == ([], True)
    runs.imports(read={"A": "1"})
    runs.forks()
    assert (runs.calls, workers.waiting) == (["start"], False)
    assert all(runs.forked(workers.spawn(spec(rank))) for rank in range(2))
    assert not runs.forked(workers.spawn(spec(2)))  # nobody has asked for a third one
    workers.started(2)
    assert workers.pids == {runs.fakes[0].pid}
    os.waitpid(runs.fakes[0].pid, 0)
    workers.on_reaped({runs.fakes[0].pid})
    assert (workers.pids, runs.notes) == (set(), [])


def test_one_that_fails_is_named_once_and_workers_import_for_themselves(runs: Runs) -> None:
    workers = runs.run()
    runs.prepare()
    runs.imports(failed={"m": "ValueError: x"})
    assert runs.calls == ["start"]
    assert not any(runs.forked(workers.spawn(spec(rank))) for rank in range(2))
    assert runs.notes == ["workers import m themselves: m: ValueError: x"]


def test_a_worker_that_would_have_imported_otherwise_does_so(runs: Runs) -> None:
    workers = runs.run()
    runs.prepare(3)
    runs.imports(read={"LOCAL_RANK": None, "A": "1"}, cpus=[0, 1])
    runs.forks()
    assert not runs.forked(workers.spawn(spec(0, {b"A": b"1", b"LOCAL_RANK": b"0"})))
    assert not runs.forked(workers.spawn(spec(1, {b"A": b"1", b"LOCAL_RANK": b"1"})))
    assert not runs.forked(workers.spawn(spec(2, cpus=(1,))))
    assert runs.forked(workers.spawn(spec(2)))
    assert runs.notes == [
        "workers import m themselves:"
        " the variable LOCAL_RANK, read during the import, differs for some workers",
        "workers import m themselves:"
        " libraries depend on the CPUs, and some workers have different ones",
    ]


def test_a_module_that_was_edited_is_imported_as_it_is_now(runs: Runs) -> None:
    workers = runs.run(elastic=True)
    (runs.folder / "m.py").touch()
    runs.imports(files={str(runs.folder / "m.py"): [1, 0]})
    runs.prepare()
    assert runs.calls == ["start"]
    assert not runs.forked(workers.spawn(spec()))
    changed = f"{runs.folder}/m.py has changed since it was imported"
    assert runs.notes == [f"workers import m themselves: {changed}"]
    runs.prepare()
    assert (runs.calls, len(runs.notes)) == (["start", "start"], 1)


def test_rounds_are_forked_from_the_same_preloader(runs: Runs) -> None:
    workers = runs.run(elastic=True)
    runs.imports()
    for _ in range(2):
        runs.prepare(1)
        assert runs.forked(workers.spawn(spec()))
        workers.started(1)
    assert (runs.fakes[0].asked(), len(runs.fakes)) == (2, 1)


def test_warm_workers_wait_for_the_next_round(runs: Runs) -> None:
    workers = runs.run(elastic=True, warm=True)
    runs.imports()
    runs.prepare(2)
    for rank in range(2):
        assert runs.forked(workers.spawn(spec(rank)))
    workers.started(2)
    runs.forks()
    assert runs.fakes[0].asked() == 4
    assert workers.pids == {runs.fakes[0].pid, *(one.pid for one in runs.fakes[0].forks[2:])}
    workers.prepare(2, lambda: runs.calls.append("next"))
    assert runs.calls == ["start", "next"]
    assert runs.forked(workers.spawn(spec()))


def test_who_is_cancelled_starts_nothing(runs: Runs) -> None:
    workers = runs.run()
    runs.prepare()
    workers.cancel()
    runs.imports()
    assert (runs.calls, workers.waiting, runs.fakes[0].asked()) == ([], False, 0)


def test_a_run_ends_after_its_preloader(runs: Runs) -> None:
    workers = runs.run()
    workers.finish(lambda: runs.calls.append("end"))
    assert runs.calls == []
    os.waitpid(runs.fakes[0].pid, 0)
    workers.on_reaped({runs.fakes[0].pid})
    assert runs.calls == ["end"]


# -- held nodes -----------------------------------------------------------------------------------


def first(runs: Runs, **report: object) -> Preloader:
    """The preloader that the first run of a held node leaves."""
    workers = runs.run(held=True)
    runs.imports(**report)
    runs.prepare(1)
    assert runs.forked(workers.spawn(spec()))
    workers.started(1)
    workers.finish(lambda: runs.calls.append("end"))

    def over() -> bool:
        runs.clock.go(0.01)
        return runs.calls == ["start", "end"]

    wait_for(over, "the end of the forks that wait")
    runs.calls.clear()
    runs.reap()
    assert workers.kept is not None
    assert workers.kept.phase is PreloaderPhase.READY
    return workers.kept


def test_a_held_node_keeps_its_preloader(runs: Runs) -> None:
    kept = first(runs)
    workers = runs.run(kept, held=True, job_id="k", env={"DSRUN_ACCELERATOR": "cpu", "B": "2"})
    runs.prepare(1)
    assert runs.forked(workers.spawn(spec()))
    assert (len(runs.fakes), runs.notes, workers.kept) == (1, [], kept)


@pytest.mark.parametrize(
    ("report", "fields", "why"),
    [
        ({}, {"preload": ("n",)}, "earlier runs used another Python or other modules"),
        (
            {"read": {"A": "1"}},
            {"env": {"DSRUN_ACCELERATOR": "cpu"}},
            "the variable A, read during the import, has changed",
        ),
        (
            {"folders": {"/": 1}},
            {},
            "/ has changed since it was imported",
        ),
    ],
)
def test_one_that_does_not_fit_is_replaced_for_the_run_after(
    runs: Runs, report: dict[str, object], fields: dict[str, Any], why: str
) -> None:
    """This run does not wait for it."""
    runs.run(held=True)
    runs.imports(**report)
    kept = runs.workers.kept
    workers = runs.run(kept, held=True, **fields)
    (modules,) = fields.get("preload", ("m",))
    assert runs.notes == [f"workers import {modules} themselves: {why}"]
    workers.prepare(1, lambda: runs.calls.append("start"))
    assert runs.calls == ["start"]
    assert not runs.forked(workers.spawn(spec()))
    workers.started(1)
    workers.finish(lambda: runs.calls.append("end"))
    assert runs.calls == ["start", "end"]
    assert workers.kept is not kept
    assert len(runs.fakes) == 2
    third = runs.run(workers.kept, held=True, **fields)
    third.prepare(1, lambda: runs.calls.append("third"))
    runs.imports()
    runs.forks()
    assert runs.calls[-1] == "third"
    assert runs.forked(third.spawn(spec()))


def test_modules_of_a_scripts_folder_are_those_of_that_folder(runs: Runs) -> None:
    runs.run(held=True)
    (runs.folder / "m.py").touch()
    status = (runs.folder / "m.py").stat()
    runs.imports(files={str(runs.folder / "m.py"): [status.st_mtime_ns, status.st_size]})
    (runs.folder / "other").mkdir()
    (runs.folder / "other" / "train.py").touch()
    program = Program("other/train.py", python=sys.executable)
    runs.run(runs.workers.kept, held=True, program=program)
    why = f"earlier runs imported from {runs.folder}"
    assert runs.notes == [f"workers import m themselves: {why}"]


def test_one_that_has_died_between_two_runs_is_replaced(runs: Runs) -> None:
    kept = first(runs)
    os.kill(runs.fakes[0].pid, signal.SIGKILL)
    os.waitpid(runs.fakes[0].pid, 0)
    kept.on_reaped({runs.fakes[0].pid})
    runs.run(kept, held=True)
    assert runs.notes == ["workers import m themselves: the preloader exited"]
    assert len(runs.fakes) == 2


def test_one_that_still_imports_is_awaited_by_the_next_run(runs: Runs) -> None:
    runs.run(held=True)
    workers = runs.run(runs.workers.kept, held=True)
    runs.prepare(1)
    assert runs.calls == []
    runs.imports()
    runs.forks()
    assert runs.calls == ["start"]
    assert runs.forked(workers.spawn(spec()))


def test_the_last_run_of_a_line_that_is_not_held_waits_for_its_own(runs: Runs) -> None:
    runs.run(held=True)
    runs.imports()
    workers = runs.run(runs.workers.kept, preload=("n",))
    runs.prepare(1)
    assert runs.calls == []
    runs.imports()
    runs.forks()
    assert runs.forked(workers.spawn(spec()))


def test_the_folder_that_the_workers_run_in_may_be_first_on_their_path(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preloader has imported without it, so that it may be another one in another run."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    program = Program("train.py", python=sys.executable, folder_first=True)
    workers = runs.run(program=program)
    runs.imports(prefixes=["PYTHON"])
    runs.prepare(1)
    assert b"PYTHONPATH" not in runs.requests[0].env
    worker = spec(env={b"A": b"1", b"PYTHONPATH": b"/work"})._replace(workdir=b"/work")
    assert runs.forked(workers.spawn(worker))
    assert runs.fakes[0].forks[0].order()[0]["path"] == ["/work"]
    assert runs.notes == []


@pytest.mark.parametrize("fields", [{"preload": ()}, {"workdir": "/nowhere"}])
def test_a_run_that_preloads_nothing_leaves_it_to_the_next(
    runs: Runs, fields: dict[str, Any]
) -> None:
    kept = first(runs)
    workers = runs.run(kept, held=True, **fields)
    workers.prepare(1, lambda: runs.calls.append("start"))
    assert not runs.forked(workers.spawn(spec()))
    workers.started(1)
    workers.finish(lambda: runs.calls.append("end"))
    assert runs.calls == ["start", "end"]
    assert (workers.kept, workers.pids, kept.phase) == (
        kept,
        {runs.fakes[0].pid},
        PreloaderPhase.READY,
    )
    assert runs.run(kept, held=False, **fields).kept is None
    assert kept.phase is PreloaderPhase.CLOSED
