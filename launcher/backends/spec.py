"""The facts about a backend that are needed before its module is imported, as frozen records."""

from __future__ import annotations

from ..common.records import NamedTuple

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
    """The hosts of a job for which the user has not named a backend.

    Attributes:
        remote: the hosts other than this machine.
        port: sshd's port on every host (`--ssh_port`).
        args: `--launcher_args`.
    """

    hosts: Sequence[Host]
    remote: Sequence[Host]
    port: int | None
    args: str


class Automatic(NamedTuple):
    """The place of a backend in the choice of `--launcher auto`.

    Attributes:
        place: the number by which backends are ordered.
        words: the reason for the choice; "{why_not}" is the reason against the previous backend.
        program: a program that must be on PATH, or "".
        against: returns the reason against the backend, or "".
        install: a package to install if no backend can be used.
        noted: whether a line tells the user the choice.
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
        this_machine: whether it starts node launchers only on this machine.
        joins: whether the nodes join on their own and share a secret; this machine is node 0.
        adds_hosts: whether it can start node launchers on hosts that are added after the start.
        allocates: whether dsrun requests an allocation when it is outside a job of the scheduler.
        automatic: its place in the choice of `--launcher auto`; None if it is never chosen.
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
        """True if an engine starts all node launchers, and decides which runs on which host."""
        return self.engine is not None

    @property
    def runs_here(self) -> bool:
        """True if this machine is a node whatever the names of the hosts are."""
        return self.this_machine or self.joins
