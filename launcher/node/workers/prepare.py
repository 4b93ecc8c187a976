"""A task on this node before the start: what it needs, and what is wrong with it."""

from __future__ import annotations

import os
import sys

from ...common.errors import DsrunError, reason
from ...control import messages
from ...specs import environment
from ...specs.binding_policy import BindingPolicy
from ...specs.program import Program
from .. import hello, ports, preflight, venv
from ..binding import apply
from ..devices import Devices
from .devices import WorkerDevices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...specs.host import Slot
    from .logs import JobFolder


class NodeSetup:
    """One task on this node; all that can fail is tried when it is made, for HELLO to report.

    Attributes:
        base: the environment that the workers begin with, wire texts.
        workdir: the folder they run in.
        python: the interpreter that runs them.
        path: the folders where programs are looked for.
        devices: those of this node.
        slots: how many workers belong here, 0 where that is not known.
        folder: where their log files are, None for none.
    """

    def __init__(self, task: messages.Task, note: Callable[[str], None]) -> None:
        """Make every check; `note` takes lines for the user."""
        self.task = task
        self.policy = BindingPolicy(*task.binding)
        self.program = Program(*task.program)
        self.folder: JobFolder | None = None
        self.base = _own_environment()
        self._note = note
        self._problems: list[str] = []
        self._reservation: ports.Reservation | None = None
        self._check(preflight.version_problem(task.dsrun))
        if task.by_engine:
            self._check(preflight.host_problem(task.host))
        self.workdir = environment.from_wire(task.workdir)
        self._check(preflight.folder_problem(self.workdir))
        self.python = self._find_python(self._enter_venv())
        self.path = environment.from_wire(self.base.get("PATH", os.defpath))
        if not self._problems:
            self._check_program()
        self.slots = self._find_devices()
        self._make_log_dir()
        self._reserve()

    def hello(self) -> messages.Hello:
        """Return this node's HELLO."""
        port = self._reservation.port if self._reservation else None
        return hello.hello(
            self.task,
            self.devices,
            self.slots,
            port,
            self._problems,
            text(os.fsencode(self.folder.path)) if self.folder else "",
        )

    def equip(self, slots: Sequence[Slot]) -> WorkerDevices:
        """Return the workers' devices.

        Raises:
            ValueError: a slot is none of the visible devices.
        """
        return WorkerDevices(self.devices, slots, self.policy)

    def open_to_store(self) -> None:
        """Stop listening on the master port, where rank 0's store is to listen."""
        if self._reservation is not None:
            self._reservation.open_to_store()

    def close(self) -> None:
        """Let the master port go: the next job may have the same."""
        if self._reservation is not None:
            self._reservation.close()

    # -- checks -----------------------------------------------------------------------------

    def _check(self, problem: str) -> None:
        if problem:
            self._problems.append(problem)

    def _enter_venv(self) -> bytes:
        """Source --venv_script; returns the python that it puts on PATH, b"" for none."""
        if not self.task.venv_script or not os.path.isdir(self.workdir):
            return b""
        script = environment.from_wire(self.task.venv_script)
        try:
            found = venv.environ_after(script, os.environb, self.workdir)
        except OSError as error:
            self._check(f"--venv_script {self.task.venv_script}: {reason(error)}")
            return b""
        except ValueError as error:
            self._check(f"--venv_script {self.task.venv_script}: {error}")
            return b""
        self.base = {text(name): text(value) for name, value in found.items()}
        return venv.interpreter(os.environb, found)

    def _find_python(self, of_venv: bytes) -> bytes:
        """Return --python, else the python of --venv_script, else the one this runs on."""
        named = self.program.python
        if not named:
            return of_venv or os.fsencode(sys.executable)
        if "/" in named:
            return os.path.join(self.workdir, environment.from_wire(named))
        folders = environment.from_wire(self.base.get("PATH", os.defpath)).split(b":")
        found = [os.path.join(folder, environment.from_wire(named)) for folder in folders]
        return next((one for one in found if os.access(one, os.X_OK)), found[0])

    def _check_program(self) -> None:
        script = environment.from_wire(self.program.script)
        self._check(
            preflight.program_problem(self.program, self.python, script, self.workdir, self.path)
        )

    def _find_devices(self) -> int:
        """Check that the slots and cores asked for are there; return how many workers belong here.

        There may be none, where that is the problem.
        """
        task, slots = self.task, 0
        try:
            self.devices = Devices(self.base, task.env)
        except ValueError as error:
            self._check(str(error))
            self.devices = Devices({"DSRUN_ACCELERATOR": "cpu"}, {})
        try:
            slots = len(task.slots) if task.slots is not None else self.devices.count()
            found = self.equip(task.slots or tuple(range(slots)))
            if self.policy.bind_to != "none":
                environ = {**self.base, **task.env}
                self._warn(apply.check(environ, self.policy, found.numa_nodes))
        except (ValueError, DsrunError) as error:
            self._check(str(error))
        return slots

    def _warn(self, text: str) -> None:
        if text:
            self._note(text)

    def _reserve(self) -> None:
        if self.task.port is None:
            return
        try:
            self._reservation = ports.Reservation(self.task.port)
        except OSError:
            self._check(ports.taken_problem(self.task.port))

    def _make_log_dir(self) -> None:
        """Make --log_dir itself, so that it is known before the start whether it can be."""
        if not (self.task.log_dir or self.task.log_private):
            return
        from .logs import job_folder

        self.folder = job_folder(self.task, self.workdir)
        if self.folder is None or self._problems:
            return
        try:
            self.folder.check()
        except FileExistsError:
            self._check(f"--log_dir {self.task.log_dir}: is a file; name a folder")
        except OSError as error:
            where = self.task.log_dir or self.folder.path
            self._check(f"--log_dir {where}: {reason(error)}")


def text(data: bytes) -> str:
    """Return bytes as the wire text that means them."""
    return data.decode("utf-8", "surrogateescape")


def _own_environment() -> dict[str, str]:
    return {text(name): text(value) for name, value in os.environb.items()}
