"""What is known about a backend before its module is imported: one frozen record each."""

from __future__ import annotations

from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..specs.host import Host


class TaskIdentity(NamedTuple):
    """The variables by which an engine identifies its tasks.

    Attributes:
        numbers: variables with this task's number in the job; all that are set must agree.
        names: variables with the engine's own name for this host.
    """

    numbers: tuple[str, ...]
    names: tuple[str, ...] = ()


class Candidates(NamedTuple):
    """The hosts of a job for which the user has named no backend.

    Attributes:
        hosts: all of them.
        remote: those that are not this machine.
        port: sshd's port on every host (`--ssh_port`).
        args: `--launcher_args`.
    """

    hosts: Sequence[Host]
    remote: Sequence[Host]
    port: int | None
    args: str


class Automatic(NamedTuple):
    """How `--launcher auto` chooses a backend.

    Attributes:
        place: backends are tried in the order of these numbers.
        words: why it was chosen; "{why_not}" is the reason against the one tried before it.
        program: what must be on PATH, if anything.
        against: returns the reason against it, "" if there is none.
        install: what to install if no backend can be used.
        noted: whether the user is told that it was chosen.
    """

    place: int
    words: str
    program: str = ""
    against: Callable[[Candidates], str] = lambda _candidates: ""
    install: str = ""
    noted: bool = False


class BackendSpec(NamedTuple):
    """One backend.

    Attributes:
        path: "module:Class" as in entry points; a module of this package begins with a dot.
        engine: the variables that identify its tasks, if one command starts a task on every host of
            the job, this machine included: one per node, or one per rank.
        this_machine: it starts node launchers only on this machine.
        joins: the nodes join by themselves and share a secret; this machine is node 0.
        adds_hosts: it can start node launchers on hosts that are added after the start.
        allocates: outside a job of its scheduler, dsrun requests an allocation.
        automatic: how `--launcher auto` chooses it; None: never.
    """

    path: str
    engine: TaskIdentity | None = None
    this_machine: bool = False
    joins: bool = False
    adds_hosts: bool = False
    allocates: bool = False
    automatic: Automatic | None = None

    @property
    def by_engine(self) -> bool:
        """Whether an engine starts all node launchers, and chooses which runs on which host."""
        return self.engine is not None

    @property
    def runs_here(self) -> bool:
        """Whether this machine is a node whatever the names of the hosts are."""
        return self.this_machine or self.joins
