"""The messages in frames: one immutable value per message, converted to and from JSON.

They are not dataclasses: the node launcher starts on every node of every job, and importing
`dataclasses` would take a third of its start-up time.
"""

from __future__ import annotations

from ..common.values import NamedTuple
from ..specs.policies import BindingPolicy
from ..specs.rendezvous import Rendezvous
from . import field_types, frames
from .field_types import Code, Count, Name, Pid, Port, Rank, Signal, Size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    M = TypeVar("M", bound=tuple[object, ...])

    from ..specs.host import Slot
    from ..specs.program import Program
    from .facts import Facts
    from .reach_messages import Network

BEATS = 16
"""Heartbeats that each end sends per heartbeat timeout: after an interruption of the network, few
of them may arrive in time."""


class Task(NamedTuple):
    """JOB: the program that a node prepares.

    Attributes:
        dsrun: version of the runner; the node launcher's must be the same.
        host: the node's name in the hostfile, for the log prefix and messages.
        program: fields of a Program, texts as `environment.to_wire` makes them.
        workdir: folder the workers run in.
        env: variables that are sent to the node, texts as `environment.to_wire` makes them.
        slots: the node's slots, None if the node reports how many it has.
        port: None: reserve no port here; 0: reserve a free one for the master; else check that one.
        venv_script: a shell file sourced for the workers' environment, or "".
        binding: how workers are bound to cores, memory and NICs.
        log_dir: folder for log files of the ranks, "" for none.
        log_private: whether log files go to a new folder among the node's temporary files.
        log_layout: how log files are named: `dsrun` or `torchrun`.
        lease: seconds without a heartbeat of the runner after which the job is stopped.
        grace: seconds between stop signal and SIGKILL.
        last_grace: the same if the runner is lost.
        one_device: whether each worker sees only its own device, as LOCAL_RANK 0.
        by_engine: whether an engine chose the host, so that the node has to check it.
        elastic: whether the job has rounds: an agent decides when the workers here start and stop.
        torch_agent: whether that agent is torch's, not dsrun's own.
        notice: how workers learn of a coming change: a signal's name, a file's path, or "".
        shard_queue: whether each worker gets a connection to the runner's shard queues.
        settle: seconds to wait before a signal is passed on, as it may reach the workers anyway.
        rendezvous: torch's rendezvous, if its agents form the rounds; else None.
        logs_specs: for torchrun's --logs_specs: the entry point, the folder, redirects, tee and
            the local ranks that are shown; () for dsrun's own log files.
        run_id: TORCHELASTIC_RUN_ID of the workers, "" for the job's id.
        preload: modules that one process here imports, from which the workers are forked; or ().
        warm: whether such a fork waits for each worker of an elastic job's next round.
        held: whether other runs are expected on this control line: what has been preloaded is kept
            for them, heartbeats begin with this JOB, and its START may take any length of time.
        base: the environment with which the workers begin, texts as `environment.to_wire` makes
            them; None for the node launcher's own.
        synced: the lock of the synced folder, and the digest of what was placed there; or ().
        payload: a function that the workers call, pickled, as base64; "" for a program.
        facts: whether HELLO is to have the facts by which nodes are compared.
        reach: whether this node is to listen for others, so that they can try its addresses.
        debug: the secret in the names of the sockets by which workers can be debugged; "" for none.
        debug_ranks: the workers that are; () for all.
        debug_wait: whether they wait for an editor.
        sample: seconds from one ACTIVITY to the next; 0.0 for none.
        links: whether ACTIVITY has what goes over the network.
        hook: whether workers that run Python get ready to say where they are in their code.
    """

    dsrun: str
    job_id: str
    host: str
    program: Program
    workdir: str
    env: dict[str, str]
    slots: tuple[Slot, ...] | None
    port: Port | None
    venv_script: str = ""
    binding: BindingPolicy = BindingPolicy()
    log_dir: str = ""
    log_private: bool = False
    log_layout: str = "dsrun"
    lease: float = 15.0
    grace: float = 30.0
    last_grace: float = 30.0
    one_device: bool = False
    allow_background: bool = False
    keep_stdin: bool = False
    role: str = "default"
    by_engine: bool = False
    settle: float = 0.0
    elastic: bool = False
    torch_agent: bool = False
    notice: str = ""
    rendezvous: Rendezvous | None = None
    logs_specs: tuple[str, ...] = ()
    run_id: str = ""
    shard_queue: bool = False
    preload: tuple[str, ...] = ()
    warm: bool = False
    held: bool = False
    synced: tuple[str, ...] = ()
    payload: str = ""
    base: dict[str, str] | None = None
    facts: bool = False
    reach: bool = False
    debug: str = ""
    debug_ranks: tuple[int, ...] = ()
    debug_wait: bool = False
    sample: float = 0.0
    links: bool = False
    hook: bool = False

    @property
    def stillness(self) -> float:
        """Seconds that the node launcher may be frozen before its guard ends it.

        If the runner forms rounds, the workers must be gone by the end of the lease.
        """
        return self.lease * (0.8 if self.elastic else 1.0)


class Hello(NamedTuple):
    """HELLO: the facts of a node, in answer to JOB.

    Attributes:
        machine: identifies this machine and network namespace, whatever its name.
        devices: the devices that a worker can see, in order; () without accelerators.
        slots: the default number of workers on this node.
        port: the reserved or checked master port, or None.
        addresses: of this machine, without loopback, the most useful first.
        problems: why the job cannot run here, in words; nothing is started if there is one.
        clock: this machine's monotonic clock in seconds, when this was sent.
        log_dir: the folder of this job's log files here, "" for none.
        pids: the guard, and the node launcher.
        facts: by which nodes are compared, None if JOB has not asked for them.
        network: its interfaces, and where others can try them; None if JOB has not asked.
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


class Probe(NamedTuple):
    """PROBE: report which of these addresses of node 0 can be reached at this port."""

    candidates: tuple[Name, ...]
    port: Port


class Probed(NamedTuple):
    """PROBED: for each candidate, "" or why it cannot be reached, in words."""

    verdicts: tuple[str, ...]


class Start(NamedTuple):
    """START: everything that was not known before all nodes had sent HELLO.

    Attributes:
        only: the one local rank that is started by this node launcher, None for all.
        generation: which round of an elastic job this is, from 1 on; 0 where there are none.
        restarts: how often the job's workers were restarted after a failure.
        max_restarts: how often they may be.
        agent_variables: what torch's agent has put into the environment of each worker here
            (`node.elastic`).
        world: DSRUN_WORLD_INFO of the workers, "" for none.
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
    """What one worker is bound to, in a row of BOUND.

    Attributes:
        device: its device, as in the variable that masks devices; "" for none.
        address: the PCI address of the device, "" if not known.
        node: the NUMA node of the device, None if not known.
        cpus: the CPUs it may run on, as a list of the kernel's form.
        memory: its memory policy and the NUMA nodes it may use, as a list of the kernel's form.
        nic: the network card nearest to the device, "" for none.
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
    """BOUND: what the workers of a node are bound to, in the order of ranks."""

    accelerator: str
    workers: tuple[WorkerBinding, ...]


class Started(NamedTuple):
    """STARTED: the workers on this node are running; `pids` are in the order of `ranks`."""

    ranks: tuple[Rank, ...]
    pids: tuple[Pid, ...]


class Stop(NamedTuple):
    """STOP: the signal for the workers, and the seconds until SIGKILL."""

    number: Signal
    grace: float


class Exit(NamedTuple):
    """EXIT: one worker has ended.

    Attributes:
        code: its exit code, or minus the number of the signal that ended it.
        signalled: whether it was being stopped.
        clock: the node's monotonic clock at that time, in seconds.
        hint: what the node knows about the cause, in words, or "".
        evidence: what it has found, a line for each, with its kind: `memory: ...`.
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
        """Whether it failed by itself."""
        return self.code != 0 and not self.signalled


class Note(NamedTuple):
    """NOTE: a line for the user; `signal` is what the node launcher itself received, if any."""

    text: str
    signal: Signal = 0


class Done(NamedTuple):
    """DONE: nothing of the job is left on this node, except what `left` names.

    Attributes:
        tails: the last output of each worker that failed by itself: {rank: [stdout, stderr]}.
        reason: why the node ended the job by itself, or "".
        recorded: their exceptions, if torch's `record` kept them: {rank: [message, traceback]}.
        logs: where the log files of their standard error are: {rank: path}.
        evidence: what was found after their last output: {rank: lines as in EXIT}.
    """

    left: tuple[str, ...]
    tails: dict[str, list[str]]
    reason: str = ""
    recorded: dict[str, list[str]] = {}  # noqa: RUF012
    logs: dict[str, str] = {}  # noqa: RUF012
    evidence: dict[str, str] = {}  # noqa: RUF012


class End(NamedTuple):
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
    """Return the message that has these fields, as JSON has them; the dictionary is changed.

    Raises:
        BadFrame: fields are missing, unknown or not valid.
    """
    names, checks = _checks(shape)
    for name, value in fields.items():
        if isinstance(value, list):
            fields[name] = tuple(value)
    try:
        # As `pack` orders them, which is the rule, no field has to be looked up.
        in_order = tuple(fields) == names
        message = tuple.__new__(shape, fields.values()) if in_order else shape(**fields)
    except TypeError as error:
        raise frames.BadFrame(f"{error}") from None
    for at, value in enumerate(message):
        if not checks[at](value):
            raise frames.BadFrame(f"{names[at]}: expected {shape.__annotations__[names[at]]}")
    return message


def _checks(shape: type[M]) -> tuple[tuple[str, ...], list[field_types.Check]]:
    """Return the names of a message's fields, and the check for each."""
    known = _CHECKS_OF.get(shape)
    if known is None:
        types = shape.__annotations__
        known = tuple(types), [_CHECKS[field_type] for field_type in types.values()]
        _CHECKS_OF[shape] = known
    return known


def allow_rows(shape: type[M]) -> None:
    """Let messages have a field with a row for each of some values of this shape."""
    _CHECKS[f"tuple[{shape.__name__}, ...]"] = field_types.rows(shape)


_CHECKS_OF: dict[type, tuple[tuple[str, ...], list[field_types.Check]]] = {}
_CHECKS = dict(field_types.CHECKS)
allow_rows(WorkerBinding)
