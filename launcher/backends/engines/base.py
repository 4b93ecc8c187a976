"""What the engines have in common: one command starts every node launcher, and these dial back.

An engine's pipes serve for a node launcher's token, and for what it says when it cannot start one.
It is trusted with nothing else: not with exit codes, output, signals or the order of hosts. Adding
an engine is one class with its command, and one line in the table of backends.
"""

from __future__ import annotations

import os
import shlex
import shutil

from ...common.errors import LOST, reason
from ...common.values import NamedTuple
from .. import base, name_of
from ..events import EngineEnded, SessionEnded
from ..ssh import config_reader
from .run import EngineRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from ...common.loop import Loop
    from ...specs.backend import BackendSettings
    from ...specs.host import Host
    from ...specs.plan import Node
    from ..events import BackendEvent, Emit

    Argument: TypeAlias = tuple[str, ...]

NAMED = {"mca", "prtemca", "pmixmca", "gmca", "genv", "env", "x"}
"""Options that come once for every parameter that they name."""


class Placement(NamedTuple):
    """A host and how many tasks the engine is to start there."""

    host: str
    tasks: int


class Engine:
    """Runs one command of an engine for the whole job; each engine's own file says which.

    Attributes:
        mark: what its `--version` text contains and that of others does not; "": it is not asked.
        tools: programs that may be it, the first that is found and of its family counts.
        aliases: (another name, the name that `arguments` uses) of its options, without dashes.
        loss_pattern: of what it prints when it has lost a host and is about to end all others.
    """

    transport = "dial"
    mark = ""
    tools: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    loss_pattern = ""

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._name = name_of(self)
        self._tool = ""
        self._version = ""
        self._hosts: list[Host] = []
        self._runs: list[EngineRun] = []

    # -- what an engine's own file says -------------------------------------------------------

    def arguments(self, places: Sequence[Placement]) -> list[Argument]:
        """Return the engine's arguments, without its own name and the command to start."""
        raise NotImplementedError

    def fault_tolerance(self) -> list[Argument]:
        """Return the arguments with which it goes on when a task has ended badly, if it can."""
        return []

    def folders(self) -> list[str]:
        """Return folders in which its program may be, before those on PATH."""
        return []

    def environ(self) -> dict[str, str]:
        """Return the engine's environment."""
        return dict(os.environ)

    def clean_up(self, pid: int) -> None:
        """Remove what this process of the engine's has left behind, if it was killed."""

    def with_ssh_options(self, name: str) -> dict[str, str]:
        """Return this environment, with options for ssh behind the user's own in that variable.

        Raises:
            UsageError: the user's ssh configuration cannot be read.
        """
        ours = shlex.join(base.ssh_options(self._settings))
        theirs = os.environ.get(name, "")
        port, args = self._settings.port, shlex.split(theirs)
        config_reader.check(self._hosts, port, args)
        first = shlex.join(config_reader.overrides(self._hosts, port, args))
        return {**os.environ, name: f"{first} {theirs} {ours}".strip()}

    # -- what all of them do ------------------------------------------------------------------

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why it cannot start these nodes, or ""."""
        self._hosts = [node.host for node in nodes]
        odd = next((n.host for n in nodes if n.host.port or n.host.user), None)
        if odd is not None:
            return (
                f"{odd.where or '--host'}: {self._name} has no user or port for one host"
                f" ({odd.name}); put it into ~/.ssh/config, or use --launcher ssh"
            )
        if base.lacks_tls():
            return f"--launcher {self._name}: {base.lacks_tls()}, or use --launcher ssh"
        return self._find_tool()

    def commands(
        self, nodes: Sequence[Node], dial: base.Dial | None
    ) -> list[tuple[str, list[str]]]:
        """Return (host, argv): one command, which stands for every host."""
        argv = self.argv(nodes, dial)
        return [(host, argv) for host in dict.fromkeys(node.host.name for node in nodes)]

    def argv(self, nodes: Sequence[Node], dial: base.Dial | None) -> list[str]:
        """Return the whole command; an option that the user gives as well is the user's alone.

        Most engines refuse an option that comes twice, and some take both.
        """
        tolerance = self.fault_tolerance() if self._settings.elastic else []
        arguments = [*self.arguments(placements(nodes)), *tolerance]
        return [*self.command_line(arguments), *self.task_argv(dial)]

    def restart_argv(self, node: Node, dial: base.Dial | None) -> list[str]:
        """Return the command that starts the node launcher of one node once more."""
        arguments = [*self.arguments(placements([node])), *self.fault_tolerance()]
        return [*self.command_line(arguments), *self.task_argv(dial, node.host.name)]

    def command_line(self, arguments: Sequence[Argument]) -> list[str]:
        """Return the engine's name, those of our arguments that the user does not give, and his."""
        theirs = self._settings.args
        given = {self._key(theirs[at:]) for at in range(len(theirs))}
        ours = [word for one in arguments if self._key(one) not in given for word in one]
        return [self._tool or self.tools[0], *ours, *theirs]

    def _key(self, words: Sequence[str]) -> str:
        """Return what an option is called, without dashes, value and alias; a parameter's name."""
        if not words or not words[0].startswith("-"):
            return ""
        name = words[0].lstrip("-").partition("=")[0]
        name = dict(self.aliases).get(name, name)
        return " ".join([name, *words[1:2]]) if name in NAMED else name

    def task_argv(self, dial: base.Dial | None, node: str = "") -> list[str]:
        """Return the command of every task, or of the one on that node."""
        set_ = self._settings
        there = dial or base.Dial("ADDRESS:PORT", "SHA256")
        part = f"--{'rank' if set_.rank_per_task else 'engine'}={self._name}"
        part = f"--node={node}" if node else part
        return base.node_argv(set_, f"--dial={there.target}", f"--pin={there.pin}", part)

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Nothing is to be gained by an early start."""

    def start(self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.Dial | None) -> None:
        """Run the engine; its node launchers announce themselves on its output.

        Called again it is for one node whose node launcher was lost, and that run is its alone.
        """
        argv = self.argv(nodes, dial)
        if self._runs:
            argv, emit = self.restart_argv(nodes[0], dial), _of_one_node(nodes[0].rank, emit)
        try:
            self._runs.append(EngineRun(self, argv, nodes, loop, emit))
        except OSError as error:
            emit(EngineEnded(f"{self._tool}: {reason(error)}", LOST, False))

    def exit_code(self, code: int) -> int:
        """Return the exit code of a job that its engine has ended with `code`.

        With a task a rank it is the one that a rank gave to MPI_Abort.
        """
        return code if self._settings.rank_per_task and code > 0 else LOST

    def close(self) -> None:
        """Wait for the engine's own end; hurry it when it does not come."""
        for run in self._runs:
            run.close()

    def _candidates(self) -> list[str]:
        """Return the programs that may be meant, as full paths: engines find their own by that."""
        path = self._settings.path
        if path and not os.path.isdir(path):
            found = [shutil.which(path)]
        else:
            own = [os.path.join(path, "bin"), path] if path else self.folders()
            usual = [] if path else os.environ.get("PATH", os.defpath).split(os.pathsep)
            folders = os.pathsep.join([*own, *usual])
            found = [shutil.which(tool, path=folders) for tool in self.tools]
        return [os.path.abspath(one) for one in found if one]

    def _find_tool(self) -> str:
        """Find this engine's program; returns why there is none, or ""."""
        wrong = ""
        for path in self._candidates():
            version = base.output_of([path, "--version"]) if self.mark else ""
            if self.mark in version:
                self._tool, self._version = path, version
                return ""
            wrong = wrong or f"{path} is {vendor(version)}"
        where = self._settings.path or "PATH"
        found = wrong or f"no {' or '.join(self.tools)} in {where}"
        return f"--launcher {self._name}: {found}; --launcher_path names its program or folder"


VENDORS = {
    "open-mpi.org": "Open MPI's",
    "Intel(R) MPI": "Intel MPI's",
    "HYDRA build details": "MPICH's",
}
"""What a program's version text says of whose it is."""


def placements(nodes: Sequence[Node]) -> list[Placement]:
    """Return the hosts in order, each with its tasks: one a node, or one a rank."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.host.name] = counts.get(node.host.name, 0) + 1
    return [Placement(host, tasks) for host, tasks in counts.items()]


def _of_one_node(rank: int, emit: Emit) -> Emit:
    """Return what emits the events of a run for one node alone: the engine's end is that node's."""

    def emit_one(event: BackendEvent) -> None:
        emit(SessionEnded(rank, event.cause) if isinstance(event, EngineEnded) else event)

    return emit_one


def vendor(version: str) -> str:
    """Return whose program it is that prints this for its version, in words."""
    for mark, whose in VENDORS.items():
        if mark in version:
            return whose
    return "no MPI launcher that is known here"
