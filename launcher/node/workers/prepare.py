"""A task on this node before the start: what it needs, and its problems."""

from __future__ import annotations

import os

from ...common import system
from ...common.errors import DsrunError, reason
from ...control import messages
from ...specs import environment
from .. import hello, ports
from ..binding import apply
from ..devices import Devices
from .devices import WorkerDevices
from .file_checks import check, program_of, text
from .logs import job_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...control.facts import Facts
    from ...control.reach_messages import Network
    from ...specs.host import Slot
    from .file_checks import Found


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

    def __init__(
        self, task: messages.Task, note: Callable[[str], None], found: Found | None = None
    ) -> None:
        """Make every check that touches no file of the user.

        `note` is called with messages for the user. `found` is what the others have found; without
        it, they are made here, and may block for good.
        """
        self.task = task
        self.policy = task.binding
        self.program = program_of(task)
        self._note = note
        self._reservation: ports.Reservation | None = None
        self._folder_in_use = -1
        self._found = found = found or check(task)
        self._problems = list(found.problems)
        self.base = found.base
        self.workdir = environment.from_wire(task.workdir)
        self.python = environment.from_wire(found.python)
        self.path = environment.from_wire(self.base.get("PATH", os.defpath))
        self.folder = job_folder(task, self.workdir)
        self._use_synced_folder()
        self.slots = self._find_devices()
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
        facts = self._found.facts if self.usable else None
        return facts._replace(wall=system.time()) if facts else None

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
        if not self.task.synced or self._problems:
            return
        from ..sync import in_use

        try:
            self._folder_in_use = in_use.hold(*self.task.synced)
        except OSError as error:
            self._check(f"--sync: {self.task.workdir}: {reason(error)}")

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
