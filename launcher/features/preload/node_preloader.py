"""The preloader of this node: a process that imports modules once, and from which workers fork.

It never holds up a start. If it cannot be used, or has failed, workers are started without it.
"""

from __future__ import annotations

import os
import signal
import socket
from enum import Enum

from ...node.machine import descendants, processes
from ...node.workers.output_pipes import OutputPipe
from ...node.workers.spawn import SpawnFailed, WorkerSpec, spawn
from . import node_fitness as fitness
from . import node_fork as fork
from . import node_messages as messages
from . import node_progress as progress
from .node_fork import Fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ...common.loop import Loop, Timer
    from ...node.workers.spawn import Process
    from .node_fitness import Imported
    from .node_workers import PreloadRequest

PROGRAM = os.fsencode(os.path.join(os.path.dirname(__file__), "process.py"))

FORK_LIMIT = 5.0
"""Seconds within which forks must be ready."""

RECHECK = 0.1
"""Seconds between two checks whether all forks are gone."""

EXITED = "the preloader exited"

BATCH = 200
"""Forks in one request; a message carries 253 descriptors."""


class PreloaderPhase(Enum):
    """The phase of a preloader; phases only go forward.

    Attributes:
        STARTING: it is importing modules.
        READY: workers can be forked from it.
        UNUSABLE: it has failed, and was ended.
        CLOSED: it is no longer needed, and was ended.
    """

    STARTING = 1
    READY = 2
    UNUSABLE = 3
    CLOSED = 4


class Preloader:
    """The preloader's process, and its forks that are not workers yet.

    Attributes:
        request: the request for the preloader.
        problem: why the preloader is unusable; "" if it is not.
        imported: its report on the imports, once it is ready.
        note: called with messages for the user.
    """

    def __init__(
        self,
        loop: Loop,
        request: PreloadRequest,
        note: Callable[[str], None],
        start: Callable[[PreloadRequest], tuple[Process, socket.socket]] | None = None,
    ) -> None:
        """Start the process, by `start` if given, which returns the process and its socket."""
        self.request = request
        self.phase = PreloaderPhase.STARTING
        self.problem = ""
        self.imported: Imported | None = None
        self.note = note
        self._loop = loop
        self._pid = 0
        self._line: socket.socket | None = None
        self._outputs: list[OutputPipe] = []
        self._forks: list[Fork] = []
        self._workers: set[int] = set()
        self._dying: set[int] = set()
        self._command = b""
        self._wanted = 0
        self._then: Callable[[], None] | None = None
        self._gone: Callable[[], None] | None = None
        self._timer: Timer | None = None
        self._late: Timer | None = None
        try:
            process, self._line = (start or started)(request)
        except (SpawnFailed, OSError) as error:
            self.fail(f"the preloader was not started: {error}")
            return
        self._watch(process)

    @property
    def pids(self) -> set[int]:
        """The pids of the preloader, and of its forks that are not workers yet.

        A fork that has not sent its pid yet is recognized by its command line, which is still the
        preloader's.
        """
        known = self._dying | {one.pid for one in self._waiting()}
        if self._pid:
            known.add(self._pid)
            self._command = self._command or _command(self._pid)
        children = set(processes.children()) - known - self._workers if self._command else set()
        return known | {pid for pid in children if _command(pid) == self._command}

    def when_ready(self, count: int, then: Callable[[], None]) -> None:
        """Call `then` once this number of forks waits for orders, or never will.

        It replaces an earlier call, and is made at once if there is nothing to wait for.
        """
        self._then, self._wanted = then, count
        if self.phase is PreloaderPhase.READY:
            self._ask()
        self._advance()

    def take(self, spec: WorkerSpec, path: Sequence[bytes] = ()) -> Process | None:
        """Return this worker, started from a waiting fork; None if there is no such fork.

        `path` has the folders of the worker's PYTHONPATH that the preloader's lacks.
        """
        while waiting := self._waiting():
            first = waiting[0]
            if first.stopped:
                self._kill_stopped(first)
                continue
            process = first.order(spec, path)
            if process is not None:
                self._workers.add(process.pid)
                return process
            self._forks.remove(first)
        return None

    def _kill_stopped(self, one: Fork) -> None:
        """End a fork that would not become a worker."""
        self.note(f"a fork for a worker was stopped (pid {one.pid}); killed")
        self._dying.add(one.pid)
        self._forks.remove(one)
        one.stop()

    def on_reaped(self, reaped: Collection[int]) -> None:
        """Record children of this process that have ended."""
        self._workers.difference_update(reaped)
        self._dying.difference_update(reaped)
        for one in [one for one in self._forks if one.pid in reaped]:
            self._forks.remove(one)
            one.close()
        if self._pid in reaped:
            self._pid = 0
            self.fail(self._last_words())
        self._report_gone()

    def cancel_forks(self, gone: Callable[[], None] | None = None) -> None:
        """End all waiting forks, drop the calls for them, and call `gone` once they have ended."""
        if self.phase is not PreloaderPhase.STARTING:
            self._cancel_timer()
        self._then, self._wanted, self._gone = None, 0, gone
        self._dying.update(one.pid for one in self._waiting())
        for one in self._forks:
            one.stop()
        self._forks = [one for one in self._forks if one.phase is fork.ForkPhase.ORDERED]
        self._await_gone(self._loop.clock() + descendants.GIVE_UP)

    def close(self, gone: Callable[[], None] | None = None) -> None:
        """Stop the preloader; call `gone` once none of its processes is left."""
        if self.phase is not PreloaderPhase.UNUSABLE:
            self.phase = PreloaderPhase.CLOSED
        self._kill()
        self.cancel_forks(gone)

    def fail(self, problem: str) -> None:
        """Become unusable for this reason, and make the waiting call."""
        if self.phase in {PreloaderPhase.UNUSABLE, PreloaderPhase.CLOSED}:
            return
        self.phase, self.problem = PreloaderPhase.UNUSABLE, problem
        then = self._then
        self.cancel_forks()
        self._kill()
        if then is not None:
            then()

    # -- the process ------------------------------------------------------------------------

    def _watch(self, process: Process) -> None:
        assert self._line is not None
        self._pid = process.pid
        os.close(process.stdin)
        self._loop.add_reader(self._line.fileno(), self._receive)
        for fd in (process.stdout, process.stderr):
            pipe = OutputPipe(fd)
            self._outputs.append(pipe)
            self._loop.add_reader(fd, lambda pipe=pipe: self._read(pipe))  # type: ignore[misc]
        counted = progress.PreloadProgress(lambda: progress.activity(self._pid))
        self._check(counted)

    def _check(self, counted: progress.PreloadProgress) -> None:
        """Check from time to time that the import makes progress."""
        if self.phase is not PreloaderPhase.STARTING:
            return
        if problem := counted.check():
            self.fail(problem)
        else:
            self._timer = self._loop.call_later(progress.EVERY, lambda: self._check(counted))

    def _receive(self) -> None:
        """Read the report on the imports; no further message follows."""
        assert self._line is not None
        try:
            received = messages.receive(self._line)
            message = fitness.parse(received[0]) if received is not None else None
        except BlockingIOError:
            return
        except (OSError, ValueError, IndexError, KeyError, TypeError):
            message = None
        if message is None:
            self.fail(self._last_words())
        elif self.phase is PreloaderPhase.STARTING:
            self._on_imported(message)

    def _on_imported(self, imported: Imported) -> None:
        for text in imported.missing.values():
            self.note(f"not preloaded: {text}")
        failed = next((f"{name}: {text}" for name, text in imported.failed.items()), "")
        unsafe = imported.unsafe and f"forking is not safe after their import: {imported.unsafe}"
        if problem := failed or unsafe:
            self.fail(problem)
            return
        self._cancel_timer()
        self.phase, self.imported = PreloaderPhase.READY, imported
        self._ask()
        self._advance()

    def _read(self, pipe: OutputPipe) -> None:
        """Keep the last output of the process, for a failure."""
        if pipe.read() == b"":
            self._loop.remove(pipe.fd)
            pipe.close()

    def _last_words(self) -> str:
        for pipe in self._outputs:
            self._loop.remove(pipe.fd)
            pipe.finish()
        printed = b"".join(pipe.tail for pipe in self._outputs).decode("utf-8", "replace")
        lines = printed.strip().splitlines()
        return f"{EXITED}: {lines[-1]}" if lines else EXITED

    # -- forks ------------------------------------------------------------------------------

    def _waiting(self) -> list[Fork]:
        return [one for one in self._forks if one.phase is fork.ForkPhase.WAITING]

    def _coming(self) -> int:
        phases = {fork.ForkPhase.ASKED, fork.ForkPhase.WAITING}
        return sum(one.phase in phases for one in self._forks)

    def _ask(self) -> None:
        lacking = self._wanted - self._coming()
        try:
            for first in range(0, lacking, BATCH):
                self._ask_for(min(BATCH, lacking - first))
        except ConnectionError:
            self.fail(self._last_words())
        except OSError as error:
            self.fail(f"the preloader was not asked to fork: {error}")

    def _ask_for(self, count: int) -> None:
        assert self._line is not None
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)]
        for ours, _ in pairs:
            self._forks.append(Fork(self._loop, ours, self._on_fork, self._remark))
        try:
            messages.send(self._line, {"fork": count}, [theirs.fileno() for _, theirs in pairs])
        finally:
            for _, theirs in pairs:
                theirs.close()

    def _on_fork(self, one: Fork) -> None:
        if one.phase is fork.ForkPhase.CLOSED and one in self._forks:
            self._forks.remove(one)
            if not one.pid:
                self.fail("the preloader could not fork")
        self._advance()

    def _remark(self, text: str) -> None:
        self.note(text)  # the note of the present user

    def _advance(self) -> None:
        """Make the waiting call if nothing is left to wait for; else set the limit."""
        if self._then is None or self.phase is PreloaderPhase.STARTING:
            return
        if self.phase is PreloaderPhase.READY and len(self._waiting()) < self._wanted:
            self._limit_forks()
            return
        self._cancel_timer()
        then, self._then = self._then, None
        then()

    def _limit_forks(self) -> None:
        if self._timer is None:
            text = f"the preloader did not fork within {FORK_LIMIT:.0f} s"
            self._timer = self._loop.call_later(FORK_LIMIT, lambda: self.fail(text))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- the end ----------------------------------------------------------------------------

    def _kill(self) -> None:
        self._cancel_timer()
        if self._pid:
            processes.send(self._pid, signal.SIGKILL)
        if self._line is not None and self._line.fileno() >= 0:
            self._loop.remove(self._line.fileno())
            self._line.close()
        for pipe in self._outputs:
            self._loop.remove(pipe.fd)
            pipe.close()

    def _report_gone(self) -> None:
        """Call `gone` if all forks have ended, and the process if it is being ended.

        A child without a command line may be about to end, or not reaped yet: it may be a fork
        whose pid was never known. It may also be about to execute a program.
        """
        if self._gone is None:
            return
        stays = (
            {self._pid} if self.phase in {PreloaderPhase.STARTING, PreloaderPhase.READY} else set()
        )
        if not self.pids - stays and all(map(_command, processes.children())):
            self._call_gone()

    def _await_gone(self, until: float) -> None:
        """Check again from time to time: not every change is reported, and no process may last."""
        self._report_gone()
        if self._gone is not None and self._loop.clock() >= until:
            self._call_gone()
        elif self._gone is not None:
            self._late = self._loop.call_later(RECHECK, lambda: self._await_gone(until))

    def _call_gone(self) -> None:
        gone, self._gone = self._gone, None
        if self._late is not None:
            self._late.cancel()
        if gone is not None:
            gone()


def started(request: PreloadRequest) -> tuple[Process, socket.socket]:
    """Start the process of a preloader; return it and our end of its socket.

    Raises:
        OSError, SpawnFailed: the process was not started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    spec = WorkerSpec(
        rank=0,
        argv=[request.python, b"-u", PROGRAM],
        env=request.env,
        workdir=request.workdir,
        stdin=theirs.fileno(),
    )
    try:
        messages.send(ours, {"modules": request.modules, "folders": request.folders})
        return spawn(spec), ours
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()


def _command(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
