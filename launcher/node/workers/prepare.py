"""A task on this node before the start: what it needs, and its problems."""

from __future__ import annotations

import os
import sys

from ...common import system
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

    from ...control.facts import Facts
    from ...control.reach_messages import Network
    from ...specs.host import Slot
    from .logs import JobFolder


class NodeSetup:
    """One task on this node. All checks are made on creation, and HELLO reports the problems.

    Attributes:
        base: the environment that the workers begin with, as wire text.
        workdir: the folder in which they run.
        python: the interpreter that runs them.
        path: the folders in which programs are searched.
        devices: the devices of this node.
        slots: how many workers run here, 0 if not known.
        folder: where their log files are, None for none.
    """

    def __init__(self, task: messages.Task, note: Callable[[str], None]) -> None:
        """Make every check; `note` is called with messages for the user."""
        self.task = task
        self.policy = BindingPolicy(*task.binding)
        self.program = _program(task)
        self.folder: JobFolder | None = None
        self.base = _environment(task)
        self._note = note
        self._problems: list[str] = []
        self._reservation: ports.Reservation | None = None
        self._check(preflight.version_problem(task.dsrun))
        if task.by_engine:
            self._check(preflight.host_problem(task.host))
        self.workdir = environment.from_wire(task.workdir)
        self._folder_in_use = -1
        self._use_synced_folder()
        self._check(preflight.folder_problem(self.workdir))
        self.python = self._find_python(self._enter_venv())
        self.path = environment.from_wire(self.base.get("PATH", os.defpath))
        if not self._problems:
            self._check_program()
        self.slots = self._find_devices()
        self._make_log_dir()
        self._reserve()

    @property
    def usable(self) -> bool:
        """Whether no check has found a problem."""
        return not self._problems

    def hello(self, network: Network | None = None) -> messages.Hello:
        """Return this node's HELLO, with its interfaces if others are to try them."""
        port = self._reservation.port if self._reservation else None
        return hello.hello(
            self.task,
            self.devices,
            self.slots,
            port,
            self._problems,
            text(os.fsencode(self.folder.path)) if self.folder else "",
            self._facts(),
        )._replace(network=network)

    def _facts(self) -> Facts | None:
        """Return the facts by which nodes are compared, if that is asked for and makes sense."""
        if not (self.task.facts and self.usable):
            return None
        from ..facts.collect import collect

        return collect(self)

    def equip(self, slots: Sequence[Slot]) -> WorkerDevices:
        """Return the workers' devices.

        Raises:
            ValueError: a slot is not one of the visible devices.
        """
        return WorkerDevices(self.devices, slots, self.policy)

    def open_to_store(self) -> None:
        """Stop listening on the master port, so that rank 0's store can."""
        if self._reservation is not None:
            self._reservation.open_to_store()

    def close(self) -> None:
        """Release the master port: the next job may use the same one."""
        if self._reservation is not None:
            self._reservation.close()
        if self._folder_in_use >= 0:
            system.close(self._folder_in_use)
            self._folder_in_use = -1

    # -- checks -----------------------------------------------------------------------------

    def _check(self, problem: str) -> None:
        if problem:
            self._problems.append(problem)

    def _use_synced_folder(self) -> None:
        """Let nobody change the folder while the workers may run in it."""
        if not self.task.synced:
            return
        from ..sync import in_use

        try:
            self._folder_in_use = in_use.hold(*self.task.synced)
        except OSError as error:
            self._check(f"--sync: {self.task.workdir}: {reason(error)}")

    def _enter_venv(self) -> bytes:
        """Source --venv_script; return the Python that it puts on PATH, b"" for none."""
        if not self.task.venv_script or not system.isdir(self.workdir):
            return b""
        script, wire = environment.from_wire(self.task.venv_script), environment.from_wire
        before = {wire(name): wire(value) for name, value in self.base.items()}
        try:
            environ = venv.environ_after(script, before, self.workdir)
        except OSError as error:
            self._check(f"--venv_script {self.task.venv_script}: {reason(error)}")
            return b""
        except ValueError as error:
            self._check(f"--venv_script {self.task.venv_script}: {error}")
            return b""
        self.base = {text(name): text(value) for name, value in environ.items()}
        return venv.interpreter(before, environ)

    def _find_python(self, of_venv: bytes) -> bytes:
        """Return --python, else the Python of --venv_script, else the one that runs this."""
        named = self.program.python
        if not named:
            return of_venv or os.fsencode(sys.executable)
        if "/" in named:
            return os.path.join(self.workdir, environment.from_wire(named))
        folders = environment.from_wire(self.base.get("PATH", os.defpath)).split(b":")
        paths = [os.path.join(folder, environment.from_wire(named)) for folder in folders]
        return next((one for one in paths if system.access(one, os.X_OK)), paths[0])

    def _check_program(self) -> None:
        script = environment.from_wire(self.program.script)
        self._check(
            preflight.program_problem(self.program, self.python, script, self.workdir, self.path)
        )
        if self.task.debug and not self._problems:
            from ..debug import check

            self._check(check.problem(self))

    def _find_devices(self) -> int:
        """Check that the requested slots and cores exist; return how many workers run here.

        The number is 0 if that is the problem.
        """
        task, slots = self.task, 0
        try:
            self.devices = Devices(self.base, task.env)
        except ValueError as error:
            self._check(str(error))
            self.devices = Devices({"DSRUN_ACCELERATOR": "cpu"}, {})
        try:
            slots = len(task.slots) if task.slots is not None else self.devices.count()
            equipment = self.equip(task.slots or tuple(range(slots)))
            if self.policy.bind_to != "none":
                environ = {**self.base, **task.env}
                self._warn(apply.check(environ, self.policy, equipment.numa_nodes))
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
        """Make --log_dir itself, so that it is known before the start whether this is possible."""
        if not (self.task.log_dir or self.task.log_private):
            return
        from .logs import job_folder

        self.folder = job_folder(self.task, self.workdir)
        if self.folder is None or self._problems:
            return
        path = self.folder.path
        where = text(os.fsencode(os.path.dirname(path) if self.task.log_dir else path))
        try:
            self.folder.check()
        except FileExistsError:
            self._check(f"--log_dir {where}: is a file; name a folder")
        except OSError as error:
            self._check(f"--log_dir {where}: {reason(error)}")


def _program(task: messages.Task) -> Program:
    program = Program(*task.program)
    if not task.payload:
        return program
    from . import calls

    return calls.program(program)


def text(data: bytes) -> str:
    """Return bytes as wire text."""
    return data.decode("utf-8", "surrogateescape")


def _environment(task: messages.Task) -> dict[str, str]:
    """Return the environment that the workers begin with."""
    own = {text(name): text(value) for name, value in os.environb.items()}
    return own if task.base is None else environment.rebased(own, task.base)
