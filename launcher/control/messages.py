"""The messages in frames: one immutable value per message, converted to and from JSON.

They are not dataclasses: the node launcher starts on every node of every job, and importing
`dataclasses` would take a third of its start-up time.
"""

from __future__ import annotations

from ..common.records import NamedTuple
from ..specs import field_types
from ..specs.field_types import Code, Count, Name, Pid, Port, Rank, Signal, Size
from ..specs.policies import (
    POLICIES,
    BindingPolicy,
    DebugPolicy,
    ElasticPolicy,
    OutputPolicy,
    SupervisionPolicy,
    WatchPolicy,
    WorkerPolicy,
)
from ..specs.program import Program
from ..specs.rendezvous import Rendezvous
from . import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    M = TypeVar("M", bound=tuple[object, ...])

    from ..specs.host import Slot
    from .facts import Facts
    from .reach_messages import Network

BEATS = 16
"""Heartbeats that each end sends per heartbeat timeout. After an interruption of the network, only
a few of them may arrive in time."""


class NodeJob(NamedTuple):
    """JOB: the program that a node prepares. All texts are encoded by `environment.to_wire`.

    Attributes:
        dsrun: version of the runner; the node launcher's version must match.
        host: the node's name in the hostfile, for the log prefix and messages.
        workdir: folder that the workers run in.
        env: variables that are sent to the node.
        slots: the node's slots, None if the node reports their number.
        port: the master port to check; 0 to reserve a free one; None to reserve none.
        workers, binding, supervision, output, watch, debug, elastic: the policies of the job, with
            the core list of this node.
        rendezvous: torch's rendezvous, if its agents form the rounds; else None.
        lease: seconds without a heartbeat of the runner after which the job is stopped.
        last_grace: seconds between stop signal and SIGKILL if the runner is lost.
        by_engine: whether an engine chose the host, and the node must check the choice.
        rank_per_task: whether the node launcher is the task of one rank, which gets its variables.
        settle: seconds to wait before passing on a signal, which may reach the workers directly.
        held: whether other runs may follow on this control line. If so, preloaded modules are kept
            for them, heartbeats begin with this JOB, and START may take any length of time.
        base: the environment on which the workers' environment is based; None for the node
            launcher's own.
        synced: the lock of the synced folder, and the digest of its content; or ().
        payload: a function that the workers call, pickled, as base64; "" for a program.
        facts: whether HELLO should carry the facts by which nodes are compared.
        reach: whether nodes on several machines are compared, and try each other's addresses.
        debug_secret: a part of the names of the sockets for debugging workers; "" if no worker here
            is debugged.
        sample: seconds from one ACTIVITY to the next; 0.0 for none.
        part: the role, in a job of several roles; "" in other jobs.
        ports: the ports to reserve here for the workers, by name: 0 for any port, else the
            preferred port, replaced by another if it is taken.
    """

    dsrun: str
    job_id: str
    host: str
    program: Program
    workdir: str
    env: dict[str, str]
    slots: tuple[Slot, ...] | None
    port: Port | None
    workers: WorkerPolicy = WorkerPolicy()
    binding: BindingPolicy = BindingPolicy()
    supervision: SupervisionPolicy = SupervisionPolicy()
    output: OutputPolicy = OutputPolicy()
    watch: WatchPolicy = WatchPolicy()
    debug: DebugPolicy | None = None
    elastic: ElasticPolicy | None = None
    rendezvous: Rendezvous | None = None
    lease: float = 15.0
    last_grace: float = 30.0
    by_engine: bool = False
    rank_per_task: bool = False
    settle: float = 0.0
    held: bool = False
    synced: tuple[str, ...] = ()
    payload: str = ""
    base: dict[str, str] | None = None
    facts: bool = False
    reach: bool = False
    debug_secret: str = ""
    sample: float = 0.0
    part: str = ""
    ports: dict[str, Port] = {}  # noqa: RUF012

    @property
    def has_rounds(self) -> bool:
        """True if an agent decides when the workers here start and stop."""
        return self.elastic is not None or self.rendezvous is not None

    @property
    def hooked(self) -> bool:
        """True if the workers run Python and prepare to report where they are in their code."""
        return self.watch.hook and not self.program.no_python

    @property
    def torch_agent(self) -> bool:
        """True if that agent is torch's rather than dsrun's."""
        by_torch = self.elastic is not None and self.elastic.agent == "torch"
        return by_torch or self.rendezvous is not None

    @property
    def writes_logs(self) -> bool:
        """True if dsrun writes log files on this node."""
        return bool(self.output.log_dir or self.output.log_private)

    @property
    def stillness(self) -> float:
        """Seconds that the node launcher may be frozen before its guard ends it.

        If the runner forms rounds, the workers must be gone by the end of the lease.
        """
        return self.lease * (0.8 if self.has_rounds else 1.0)


class Hello(NamedTuple):
    """HELLO: the facts of a node, in answer to JOB.

    Attributes:
        machine: an id of this machine and network namespace, independent of names.
        python: the path of the workers' Python here, as wire text; "" if they do not run on Python.
        devices: the devices that a worker can see, in order; () without accelerators.
        slots: the default number of workers on this node.
        port: the reserved or checked master port, or None.
        addresses: the addresses of this machine, without loopback, most useful first.
        problems: why the job cannot run here, in words; nothing is started if there is a problem.
        clock: this machine's monotonic clock in seconds, when this was sent.
        log_dir: the folder of this job's log files here, or "".
        pids: the pids of the guard and of the node launcher.
        facts: the facts by which nodes are compared, None if JOB does not ask for them.
        network: the interfaces, and the addresses where others can try them; None if JOB does not
            ask.
        ports: the ports reserved for workers, in the order of JOB's.
    """

    dsrun: str
    hostname: Name
    machine: str
    python: str
    accelerator: str
    devices: tuple[str, ...]
    slots: Count
    port: Port | None
    addresses: tuple[Name, ...]
    problems: tuple[str, ...]
    clock: float
    log_dir: str = ""
    pids: tuple[int, ...] = ()
    facts: Facts | None = None
    network: Network | None = None
    ports: tuple[Port, ...] = ()


class Probe(NamedTuple):
    """PROBE: report which of these addresses of node 0 can be reached at this port."""

    candidates: tuple[Name, ...]
    port: Port


class Probed(NamedTuple):
    """PROBED: for each candidate, "" or why it cannot be reached, in words."""

    verdicts: tuple[str, ...]


class Start(NamedTuple):
    """START: everything that was unknown before all nodes had sent HELLO.

    Attributes:
        only: the one local rank that this node launcher starts, None for all.
        generation: the round of an elastic job, from 1 on; 0 in other jobs.
        restarts: the number of restarts of the job's workers after failures so far.
        agent_variables: the environment that torch's agent has made for each worker here
            (`features.elastic`).
        world: DSRUN_WORLD_INFO of the workers, or "".
    """

    first_rank: Rank
    slots: tuple[Slot, ...]
    world_size: Rank
    node_rank: Rank
    nodes: Rank
    master_addr: Name
    master_port: Port
    credit: Size
    only: int | None = None
    generation: int = 0
    restarts: int = 0
    max_restarts: int = 0
    agent_variables: tuple[dict[str, str], ...] = ()
    world: str = ""


class WorkerBinding(NamedTuple):
    """The binding of one worker, a row of BINDINGS.

    Attributes:
        device: the worker's devices, as in the variable that masks devices, or "".
        address: the known PCI addresses of the devices.
        node: the NUMA node of the devices, None if unknown or not unique.
        cpus: the CPUs that the worker may run on, as a list in the kernel's format.
        memory: the memory policy and the NUMA nodes that the worker may use, as a list in the
            kernel's format.
        nic: the network card nearest to the device, or "".
    """

    rank: Rank
    pid: Pid
    device: str
    address: str
    node: int | None
    cpus: str = ""
    memory: str = ""
    nic: str = ""


class NodeBindings(NamedTuple):
    """BINDINGS: the CPU and memory bindings of a node's workers, in the order of ranks."""

    accelerator: str
    workers: tuple[WorkerBinding, ...]


class WorkersStarted(NamedTuple):
    """STARTED: the workers on this node are running; `pids` are in the order of `ranks`."""

    ranks: tuple[Rank, ...]
    pids: tuple[Pid, ...]


class Stop(NamedTuple):
    """STOP: the signal for the workers, and the seconds until SIGKILL."""

    number: Signal
    grace: float


class WorkerExit(NamedTuple):
    """EXIT: one worker has ended.

    Attributes:
        code: the exit code, or minus the number of the signal that ended the worker.
        signalled: whether the worker was being stopped.
        clock: the node's monotonic clock at that time, in seconds.
        hint: the likely cause as the node sees it, in words; "" if unknown.
        evidence: the node's findings, one per line, each with its kind: `memory: ...`.
    """

    rank: Rank
    pid: Pid
    code: Code
    signalled: bool
    clock: float
    hint: str = ""
    evidence: str = ""

    @property
    def failed(self) -> bool:
        """True if the worker failed on its own."""
        return self.code != 0 and not self.signalled


class Note(NamedTuple):
    """NOTE: a line for the user; `signal` is a signal that the node launcher received, if any."""

    text: str
    signal: Signal = 0


class Done(NamedTuple):
    """DONE: no process of the job is left on this node, except those named by `left`.

    Attributes:
        tails: the last output of each worker that failed on its own, and, before the stop, of each
            that had printed a traceback but still ran: {rank: [stdout, stderr]}.
        reason: why the node ended the job on its own initiative, or "".
        recorded: the exceptions of these workers that torch's `record` kept: {rank: [message,
            traceback]}.
        logs: the log files of their standard error: {rank: path}.
        evidence: evidence found after their last output: {rank: lines as in EXIT}.
    """

    left: tuple[str, ...]
    tails: dict[str, list[str]]
    reason: str = ""
    recorded: dict[str, list[str]] = {}  # noqa: RUF012
    logs: dict[str, str] = {}  # noqa: RUF012
    evidence: dict[str, str] = {}  # noqa: RUF012


class SessionEnd(NamedTuple):
    """END: the job is over; its exit code, and its report as text."""

    code: int
    report: str


def pack(kind: int, message: NamedTuple) -> bytes:
    """Return the frame that carries a message."""
    return frames.pack_json(kind, message._asdict())


def unpack(shape: type[M], body: bytes) -> M:
    """Return the message in a frame's body.

    Raises:
        BadFrame: fields are missing, unknown or not valid.
    """
    return from_fields(shape, frames.unpack_json(body))


def from_fields(shape: type[M], fields: dict[str, Any]) -> M:
    """Return the message with these fields, as read from JSON.

    Raises:
        BadFrame: fields are missing, unknown or not valid.
    """
    readers = field_types.fields(shape)
    if fields.keys() != readers.keys():
        fields = _completed(shape, fields)
    try:
        return tuple.__new__(shape, [_read(name, readers[name], fields[name]) for name in readers])
    except field_types.Misfit as misfit:
        raise frames.BadFrame(str(misfit)) from None


def _read(name: str, read: field_types.Reader, value: Any) -> Any:
    try:
        return read(value)
    except field_types.Misfit as misfit:
        raise misfit.within(name) from None


def _completed(shape: type[M], fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields, completed with the defaults of missing ones."""
    try:
        return shape(**fields)._asdict()  # type: ignore[attr-defined, no-any-return]
    except TypeError as error:
        raise frames.BadFrame(f"{error}") from None


def _facts() -> type[Facts]:
    from .facts import Facts

    return Facts


def _network() -> type[Network]:
    from .reach_messages import Network

    return Network


field_types.register(Hello, Program, Rendezvous, WorkerBinding)
field_types.register(*POLICIES)
field_types.register_later("Facts", _facts)
field_types.register_later("Network", _network)
