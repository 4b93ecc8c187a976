"""Starts the workers of a run: from forks of the preloader if they fit, else by themselves."""

from __future__ import annotations

import os

from ...common.records import NamedTuple
from ...node.workers.spawn import spawn as spawn_cold
from ...node.workers.worker_specs import WorkerSpecs
from ...specs.environment import from_wire, to_wire
from ..stacks.node_outfit import with_recorder
from . import node_fitness as fitness
from .node_preloader import EXITED, Preloader, PreloaderPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ...common.loop import Loop
    from ...node.workers.prepare import NodeSetup
    from ...node.workers.spawn import Process, WorkerSpec


class PreloadedWorkers:
    """The preloader that a run uses, and the one that is kept for later runs of a held node."""

    def __init__(
        self,
        loop: Loop,
        setup: NodeSetup,
        note: Callable[[str], None],
        kept: Preloader | None = None,
        make: Callable[[Loop, PreloadRequest, Callable[[str], None]], Preloader] = Preloader,
    ) -> None:
        """Use the preloader kept from an earlier run if it fits, else a new one.

        A preloader that fits saves the workers of this run the wait. A run of a held node that
        preloads nothing, or that cannot start, keeps the preloader for the next run.

        Raises:
            DsrunError, ValueError: the workers cannot be started as requested.
        """
        self._task = setup.task
        self._folder_first = setup.program.folder_first
        self._note = note
        self._told: set[str] = set()
        self._preloader: Preloader | None = None
        self._next: Preloader | None = None
        self.waiting = False
        if not (self._task.workers.preload and setup.usable):
            self._keep(kept)
            return
        wanted = request(setup)
        why = misfit(kept, wanted) if kept is not None else ""
        if kept is not None and not why:
            self._preloader = kept
            kept.note = self._note
            return
        if kept is not None:
            kept.close()
        made = make(loop, wanted, self._note)
        if kept is None or not setup.task.held:
            self._preloader = made
        else:
            self._next = made
            self._tell(why)

    def _keep(self, kept: Preloader | None) -> None:
        """Use no preloader, and leave a kept one to the next run of a held node."""
        if kept is not None and self._task.held:
            self._next = kept
        elif kept is not None:
            kept.close()

    @property
    def pids(self) -> set[int]:
        """The processes of preloaders, and forks that are no workers yet."""
        return set().union(*(one.pids for one in self._all()))

    @property
    def kept(self) -> Preloader | None:
        """The preloader for the next run of a held node."""
        return self._next or self._preloader

    def prepare(self, count: int, then: Callable[[], None]) -> None:
        """Call `then` once this number of workers can be started without waiting."""
        self.waiting = True

        def ready() -> None:
            self.waiting = False
            if self._preloader is not None:
                self._tell(self._preloader.problem)
            then()

        def settled() -> None:
            assert self._preloader is not None
            if path := _changed(self._preloader):
                self._preloader.fail(path)
            self._preloader.when_ready(count, ready)

        if self._preloader is None:
            ready()
        else:
            self._preloader.when_ready(0, settled)

    def spawn(self, spec: WorkerSpec) -> Process:
        """Return this worker, started.

        Raises:
            SpawnFailed: it could not be started.
        """
        process = None
        if self._preloader is not None and self._preloader.phase is PreloaderPhase.READY:
            first = [spec.workdir] if self._folder_first else []
            why = unfit(self._preloader, spec, *first)
            self._tell(why)
            process = None if why else self._preloader.take(spec, first)
        return spawn_cold(spec) if process is None else process

    def started(self, count: int) -> None:
        """Continue after this number of workers has been started."""
        if self._preloader is None:
            return
        if self._task.workers.warm:
            self._preloader.when_ready(count, lambda: None)
        elif not self._task.has_rounds and not self._task.held:
            self._preloader.close()

    def cancel(self) -> None:
        """Stop starting workers."""
        self.waiting = False
        if self._preloader is not None:
            self._preloader.cancel_forks()

    def on_reaped(self, reaped: Collection[int]) -> None:
        """Record children of this process that have ended."""
        for one in self._all():
            one.on_reaped(reaped)

    def finish(self, then: Callable[[], None]) -> None:
        """Stop the processes that no later run needs, and call `then` once they are gone."""
        self.waiting = False
        if self._preloader is None:
            then()
        elif self._task.held:
            self._preloader.cancel_forks(then)
        else:
            self._preloader.close(then)

    def close(self) -> None:
        """Stop the processes that no later run needs."""
        self.finish(lambda: None)

    def _all(self) -> list[Preloader]:
        return [one for one in (self._preloader, self._next) if one is not None]

    def _tell(self, why: str) -> None:
        if why and why not in self._told:
            self._told.add(why)
            modules = ", ".join(self._task.workers.preload)
            self._note(f"workers import {modules} themselves: {why}")


def misfit(kept: Preloader, wanted: PreloadRequest) -> str:
    """Return why a kept preloader cannot be used for this request, "" if it can be.

    A preloader that still imports is checked when its workers are started.
    """
    if kept.phase in {PreloaderPhase.UNUSABLE, PreloaderPhase.CLOSED}:
        return kept.problem or EXITED
    former, imported = kept.request, kept.imported
    if (former.python, former.modules) != (wanted.python, wanted.modules):
        return "earlier runs used another Python or other modules"
    if imported is None:
        return ""
    if name := fitness.env_changed(imported, wanted.env):
        return f"the variable {name}, read during the import, has changed"
    for folder in former.folders:
        if former.folders != wanted.folders and fitness.below(imported, folder):
            return f"earlier runs imported from {folder}"
    return _changed(kept)


def unfit(preloader: Preloader, spec: WorkerSpec, first: bytes = b"") -> str:
    """Return why a worker cannot be forked from a ready preloader, "" if it can be.

    `first` is a folder in the worker's PYTHONPATH before the preloader's folders.
    """
    imported = preloader.imported
    assert imported is not None
    if name := fitness.env_changed(imported, fitness.without(first, spec.env)):
        return f"the variable {name}, read during the import, differs for some workers"
    if fitness.cpus_changed(imported, spec.cpus):
        return "libraries depend on the CPUs, and some workers have different ones"
    return ""


def _changed(preloader: Preloader) -> str:
    imported = preloader.imported
    path = fitness.changed(imported) if imported is not None else ""
    return f"{path} has changed since it was imported" if path else ""


class PreloadRequest(NamedTuple):
    """The settings of a preloader.

    Attributes:
        python: the interpreter of the workers.
        folders: the folders that a worker searches first for modules.
        workdir: the folder that it runs in.
        env: the variables that all workers share.
    """

    python: bytes
    modules: tuple[str, ...]
    folders: tuple[str, ...]
    workdir: bytes
    env: Mapping[bytes, bytes]


def request(setup: NodeSetup) -> PreloadRequest:
    """Return the preloader request for the task of a node.

    Raises:
        DsrunError, ValueError: its workers cannot be started as requested.
    """
    env = WorkerSpecs(setup, lambda _: None).common()
    return PreloadRequest(
        python=setup.python,
        modules=setup.task.workers.preload,
        folders=tuple(map(to_wire, _folders(setup))),
        workdir=setup.workdir,
        env=with_recorder(env, setup.log_folder) if setup.task.hooked else env,
    )


def _folders(setup: NodeSetup) -> list[bytes]:
    """Return the first folders on a worker's path: the script's own, even through a link.

    The first folder of PYTHONPATH follows, if it is the workers' folder.
    """
    first = [setup.workdir] if setup.program.folder_first else []
    if setup.program.module:
        return [setup.workdir, *first]
    script = os.path.join(setup.workdir, from_wire(setup.program.script))
    return [os.path.dirname(os.path.realpath(script)), *first]
