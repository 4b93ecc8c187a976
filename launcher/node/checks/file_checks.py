"""Checks of the files that a task uses: its folder, Python, script and log folder.

A file system may not answer, and a process that waits for it cannot be killed. The node launcher
therefore runs these checks in a child (`preparation`).
"""

from __future__ import annotations

import json
import os
import sys

from ...common import executable, system
from ...common.errors import reason
from ...specs import environment
from ...specs.environment import to_wire
from ..workers.prepare import FileFindings, NodeSetup, program_of
from . import preflight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO, TypeAlias

    from ...control.messages import NodeJob
    from ..machine.devices import NodeDevices

    At: TypeAlias = Callable[[str], object]


def check(task: NodeJob, at: At = str, devices: NodeDevices | None = None) -> FileFindings:
    """Run every check. This may block forever.

    Args:
        task: the program that this node prepares.
        at: called with each path before it is touched.
        devices: the devices of this node, if they are already known.
    """
    made = with_devices(_Checks(task, at).make(), task, devices)
    if made.problems or not (task.debug_secret or task.writes_logs or task.facts):
        return made
    # The node launcher itself holds the port.
    setup = NodeSetup(task._replace(port=None), lambda _: None, made)
    if not setup.usable:
        return made
    problem = _debugger_problem(setup, at) or _log_problem(setup, at)
    if problem:
        return made._replace(problems=(problem,))
    if not task.facts:
        return made
    from ...features.quick_check.node_collect import collect

    return made._replace(facts=collect(setup, at))


def with_devices(found: FileFindings, task: NodeJob, devices: NodeDevices | None) -> FileFindings:
    """Return the findings with the devices, unless --venv_script may have changed the devices."""
    return found._replace(devices=devices) if found.base == environment_of(task) else found


def write(task: NodeJob, devices: NodeDevices | None, pipe: TextIO) -> None:
    """Run every check; write each path before it is touched, and at last the findings, as JSON.

    If the workers may run in a synced folder, this process prevents changes of the folder until it
    is killed.
    """

    def say(text: object) -> None:
        pipe.write(json.dumps(text) + "\n")
        pipe.flush()

    try:
        found = check(task, say, devices)
        say(found._replace(devices=None))
        if task.synced and not found.problems:
            say(True)
            system.poll().poll()
    except Exception:
        import traceback

        say({"raised": traceback.format_exc()})


def restored(fields: list[Any]) -> FileFindings:
    """Return the findings, given the line that `write` has written."""
    problems, base, python, facts, *_ = fields
    if facts is not None:
        from ...control.facts import Facts

        facts = Facts(*facts)
    return FileFindings(tuple(problems), base, python, facts)


def environment_of(task: NodeJob) -> dict[str, str]:
    """Return the base of the workers' environment."""
    own = {to_wire(name): to_wire(value) for name, value in os.environb.items()}
    if task.by_engine or "OMPI_COMM_WORLD_SIZE" in own:
        own = environment.without_empty_folders(own)
    base = own if task.base is None else environment.rebased(own, task.base)
    return base if task.rank_per_task else environment.without_task(base)


class _Checks:
    """The checks of one task."""

    def __init__(self, task: NodeJob, at: At) -> None:
        self._task = task
        self._at = at
        self._problems: list[str] = []
        self._base = environment_of(task)
        self._program = program_of(task)
        self._workdir = environment.from_wire(task.workdir)

    def make(self) -> FileFindings:
        """Run the checks, in the order in which they depend on each other."""
        self._check(preflight.version_problem(self._task.dsrun))
        if self._task.by_engine:
            self._check(preflight.host_problem(self._task.host))
        self._check_synced_folder()
        self._at(os.fsdecode(self._workdir))
        self._check(preflight.folder_problem(self._workdir))
        python = self._find_python(self._enter_venv())
        if not self._problems:
            self._check_program(python)
        return FileFindings(tuple(self._problems), self._base, to_wire(python))

    def _check(self, problem: str) -> None:
        if problem:
            self._problems.append(problem)

    def _check_synced_folder(self) -> None:
        """Prevent changes of the synced folder while this process runs."""
        if not self._task.synced:
            return
        from ...features.sync import node_in_use as in_use

        self._at(os.fsdecode(environment.from_wire(self._task.synced[0])))
        try:
            in_use.hold(*self._task.synced)
        except OSError as error:
            self._check(f"--sync: {self._task.workdir}: {reason(error)}")

    def _enter_venv(self) -> bytes:
        """Source --venv_script; return the Python that it puts on PATH, b"" for none."""
        named = self._task.workers.venv_script
        if not named or not system.isdir(self._workdir):
            return b""
        from ...features.quick_check import node_venv as venv

        script, wire = environment.from_wire(named), environment.from_wire
        before = {wire(name): wire(value) for name, value in self._base.items()}
        self._at(os.fsdecode(script))
        try:
            environ = venv.environ_after(script, before, self._workdir)
        except OSError as error:
            self._check(f"--venv_script {named}: {reason(error)}")
            return b""
        except ValueError as error:
            self._check(f"--venv_script {named}: {error}")
            return b""
        self._base = {to_wire(name): to_wire(value) for name, value in environ.items()}
        return venv.interpreter(before, environ)

    def _find_python(self, of_venv: bytes) -> bytes:
        """Return --python, else --venv_script's Python, else the project's, else this process's."""
        named = self._program.python
        if not named:
            project = environment.from_wire(self._program.project_python)
            return of_venv or project or os.fsencode(sys.executable)
        if "/" in named:
            return os.path.join(self._workdir, environment.from_wire(named))
        name = os.fsdecode(environment.from_wire(named))
        folders = [*filter(os.path.isabs, os.fsdecode(self._path).split(os.pathsep))]
        for folder in folders:
            self._at(os.path.join(folder, name))
            if found := executable.find(name, [folder]):
                return os.fsencode(found)
        return os.fsencode(os.path.join(next(iter(folders), "/"), name))

    @property
    def _path(self) -> bytes:
        return environment.from_wire(self._base.get("PATH", os.defpath))

    def _check_program(self, python: bytes) -> None:
        program, script = self._program, environment.from_wire(self._program.script)
        looked = [script] if program.no_python else [python, script]
        self._at(" or ".join(os.fsdecode(os.path.join(self._workdir, one)) for one in looked))
        sent = self._task.env.get("PATH")
        path = self._path if sent is None else environment.from_wire(sent)
        modules = self._module_folders() if program.module else []
        self._check(
            preflight.program_problem(program, python, script, self._workdir, path, modules)
        )

    def _module_folders(self) -> list[bytes]:
        """Return the folders that Python searches before installed modules (-m, -P)."""
        env = {**self._base, **self._task.env}
        named = environment.from_wire(env.get("PYTHONPATH", "")).split(b":")
        own = [] if env.get("PYTHONSAFEPATH") else [self._workdir]
        return [*own, *(os.path.join(self._workdir, one) for one in named if one)]


def _debugger_problem(setup: NodeSetup, at: At) -> str:
    if not setup.task.debug_secret:
        return ""
    from ...features.debug import node_check as debugpy

    at(os.fsdecode(setup.python))
    return debugpy.problem(setup)


def _log_problem(setup: NodeSetup, at: At) -> str:
    """Create --log_dir: the user learns before the start if that is impossible."""
    if setup.folder is None:
        return ""
    path = setup.folder.path
    folder = os.path.dirname(path) if setup.task.output.log_dir else path
    at(folder)
    where = to_wire(folder)
    try:
        setup.folder.check()
    except FileExistsError:
        return f"--log_dir {where}: is a file; name a folder"
    except OSError as error:
        return f"--log_dir {where}: cannot be created or written to: {reason(error)}"
    return ""
