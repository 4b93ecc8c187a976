"""The preparation of a task on this node: its needs, and its problems."""

from __future__ import annotations

from ... import __version__
from ...common import system
from ...common.errors import DsrunError
from ...common.network import own_addresses
from ...common.records import NamedTuple
from ...control import messages
from ...specs import environment
from ...specs.environment import to_wire
from ..machine import capacity, ports
from ..machine.devices import NodeDevices
from .devices import WorkerDevices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...control.facts import Facts
    from ...specs.host import Slot
    from ...specs.program import Program
    from ...specs.role_words import Peers
    from .logs import LogFolder
    from .peers import PeerPlaceholders


class FileFindings(NamedTuple):
    """The findings of the file checks (`file_checks`).

    Attributes:
        problems: the reasons why the task cannot run here, in words.
        base: the initial environment of the workers, as wire text.
        python: the interpreter of the workers, as wire text.
        facts: the facts for comparing nodes, if wanted and the checks passed.
        devices: the devices of this node, if already detected.
        release: allows others to change the synced folder again.
    """

    problems: tuple[str, ...]
    base: dict[str, str]
    python: str
    facts: Facts | None = None
    devices: NodeDevices | None = None
    release: Callable[[], None] | None = None


def _log_folder(task: messages.NodeJob, workdir: bytes) -> LogFolder | None:
    if not task.writes_logs:
        return None
    from .logs import job_folder

    return job_folder(task, workdir)


def program_of(task: messages.NodeJob) -> Program:
    """Return the program of the workers."""
    if not task.payload:
        return task.program
    from . import calls

    return calls.program(task.program)


def _needs_addresses(task: messages.NodeJob) -> bool:
    """Return whether others may connect to this node, or need its addresses to tell links apart."""
    return task.has_rounds or task.port is not None or task.watch.slow or bool(task.part)


def machine() -> str:
    """Return an id of this machine that all its names share: boot and network namespace."""
    try:
        with system.open_file("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            boot = file.read().strip()
        return f"{boot}/{system.stat('/proc/self/ns/net').st_ino}/{system.uname().nodename}"
    except OSError:
        return system.uname().nodename


class NodeSetup:
    """A task on this node. Its creation makes the remaining checks; HELLO reports the problems.

    Attributes:
        base: the initial environment of the workers, as wire text.
        workdir: the working folder of the workers.
        python: the interpreter of the workers.
        slots: the number of workers here; 0 if unknown.
        folder: the place of their log files, or None.
        peers: the facts about other roles for the workers of a role; None until known.
    """

    def __init__(
        self, task: messages.NodeJob, note: Callable[[str], None], found: FileFindings
    ) -> None:
        """Make all checks that touch no file of the user.

        `note` is called with messages for the user. `found` has the findings of the file checks.
        """
        self.task = task
        self.policy = task.binding
        self.program = program_of(task)
        self._note = note
        self._reservation: ports.Reservation | None = None
        self._role_ports: dict[str, ports.Reservation] = {}
        self.peers: PeerPlaceholders | None = None
        self._found = found
        self._problems = list(found.problems)
        self.base = found.base
        self.workdir = environment.from_wire(task.workdir)
        self.python = environment.from_wire(found.python)
        self.folder = _log_folder(task, self.workdir)
        self.slots = self._find_devices()
        self._reserve()

    @property
    def usable(self) -> bool:
        """True if all checks have passed."""
        return not self._problems

    @property
    def cpus(self) -> float:
        """The number of CPUs that the workers may use at a time, by affinity and quotas."""
        facts = self._found.facts
        return facts.cpus if facts else capacity.cpus()

    def hello(self) -> messages.Hello:
        """Return this node's HELLO, without the fields of services."""
        runs_python = not self.program.no_python or self.task.rendezvous is not None
        port = self._reservation.port if self._reservation else None
        return messages.Hello(
            dsrun=__version__,
            hostname=system.uname().nodename,
            machine=machine(),
            python=to_wire(self.python) if runs_python else "",
            accelerator=self.devices.kind,
            devices=self.devices.visible,
            slots=self.slots,
            port=port,
            addresses=own_addresses() if _needs_addresses(self.task) else (),
            problems=tuple(problem for problem in self._problems if problem),
            clock=system.monotonic(),
            log_dir=self.log_folder,
            pids=(system.getppid(), system.getpid()),
            facts=self._facts(),
            ports=tuple(self.role_ports.values()),
        )

    @property
    def log_folder(self) -> str:
        """The folder of the workers' log files, as wire text, or ""."""
        return to_wire(self.folder.path) if self.folder else ""

    @property
    def role_ports(self) -> dict[str, int]:
        """The port numbers of a role, by name."""
        return {name: one.port for name, one in self._role_ports.items()}

    def _facts(self) -> Facts | None:
        """Return the facts for comparing nodes, if wanted and all checks have passed."""
        facts = self._found.facts if self.usable else None
        return facts._replace(wall=system.time()) if facts else None

    def equip(self, slots: Sequence[Slot]) -> WorkerDevices:
        """Return the workers' devices.

        Raises:
            ValueError: a slot is not one of the visible devices.
        """
        return WorkerDevices(self.devices, slots, self.policy)

    def open_to_store(self) -> None:
        """Stop listening on the master port, for rank 0's store; release the ports of a role."""
        if self._reservation is not None:
            self._reservation.open_to_store()
        for one in self._role_ports.values():
            one.close()  # fully: a server need not set SO_REUSEADDR

    def tell_peers(self, peers: Mapping[str, Peers]) -> None:
        """Pass the places of other roles to the workers of a role; running ones read the file."""
        if self.peers is None:
            from .peers import PeerPlaceholders

            self.peers = PeerPlaceholders(self.role_ports)
        self.peers.update(peers)

    def close(self) -> None:
        """Release the ports and the synced folder, for the next job."""
        for one in (self._reservation, self.peers, *self._role_ports.values()):
            if one is not None:
                one.close()
        if self._found.release is not None:
            self._found.release()

    # -- checks -----------------------------------------------------------------------------

    def _check(self, problem: str) -> None:
        if problem:
            self._problems.append(problem)

    def _find_devices(self) -> int:
        """Check that the requested slots and cores exist; return the number of workers here.

        The number is 0 if it cannot be found.
        """
        task, slots = self.task, 0
        try:
            self.devices = self._found.devices or NodeDevices(self.base, task.env)
        except ValueError as error:
            self._check(str(error))
            self.devices = NodeDevices({"DSRUN_ACCELERATOR": "cpu"}, {})
        try:
            slots = len(task.slots) if task.slots is not None else self.devices.count()
            equipment = self.equip(task.slots or tuple(range(slots)))
            if self.policy.bind_to != "none":
                from ...features.binding import node_apply as apply

                environ = {**self.base, **task.env}
                self._warn(apply.check(environ, self.policy, equipment.numa_nodes))
        except (ValueError, DsrunError) as error:
            self._check(str(error))
        return slots

    def _warn(self, text: str) -> None:
        if text:
            self._note(text)

    def _reserve(self) -> None:
        self._reserve_for_role()
        if self.task.port is None:
            return
        try:
            self._reservation = ports.Reservation(self.task.port)
        except OSError as error:
            self._check(ports.problem(self.task.port, error))

    def _reserve_for_role(self) -> None:
        """Reserve the ports of a role; prefer the former ports."""
        for name, wanted in self.task.ports.items():
            try:
                self._role_ports[name] = ports.reserved(wanted)
            except OSError as error:
                self._check(ports.problem(0, error))
