"""What is known of a backend before its module is imported: one frozen record each."""

from __future__ import annotations

from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..specs.host import Host


class TaskIdentity(NamedTuple):
    """Where an engine says which of its tasks a node launcher is.

    Attributes:
        numbers: variables with this task's number in the job; all that are set must agree.
        names: variables with the engine's own name for this host.
    """

    numbers: tuple[str, ...]
    names: tuple[str, ...] = ()


class Candidates(NamedTuple):
    """The hosts of a job for which nobody has named a backend.

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
    """How `--launcher auto` comes to a backend.

    Attributes:
        place: backends are asked in the order of these numbers.
        words: why it is this one; "{why_not}" is the reason against the one that was asked before.
        program: what has to be on PATH, if anything.
        against: returns the reason against it, "" where there is none.
        install: what there is to install where no backend is left, in words.
        noted: choosing it is worth a line to the user.
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
        path: "module:Class", as entry points have it; a module of this package begins with a dot.
        engine: where it says which task a node launcher is, if one command of its starts a task on
            every host of the job, this machine included: one a node, or one a rank.
        this_machine: it starts node launchers on this machine, and nowhere else.
        joins: the nodes join by themselves and share a secret; this machine is node 0.
        adds_hosts: it can start node launchers on hosts that were not there at the start.
        allocates: outside of a job of its scheduler's, dsrun asks for one.
        automatic: how `--launcher auto` comes to it, if ever.
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
        """Whether this machine is a node whatever the hosts are called."""
        return self.this_machine or self.joins
