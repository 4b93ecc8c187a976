"""The common part of all engines: one command starts every node launcher, and these dial back.

An engine's pipes carry the tokens of node launchers, and its messages when it cannot start one.
Nothing else relies on the engine: not exit codes, output, signals or the order of hosts. To add an
engine, write one class with its command, and one line in the table of backends.
"""

from __future__ import annotations

import os
import re
import shlex

from ...common import executable
from ...common.errors import LOST, reason
from ...common.packages import lacks_tls
from ...common.program_output import output_of
from ...common.records import NamedTuple
from ...resources.slurm import in_a_step, stale_requests
from ...resources.slurm_job import ids
from ...specs.environment import of_mpi
from .. import base, name_of
from ..events import EngineEnded, SessionEnded
from ..package.command import remote_argv
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

IN_TOTAL = ("SLURM_GPUS", "SLURM_GPUS_PER_TASK")
"""Variables of a job whose GPUs were requested as a number for all nodes together.

Slurm 22.05 gives a step that overlaps with others only some of these GPUs.
"""

_ENDED = re.compile(r"Expired or invalid job|Unable to confirm allocation|SLURM resource allocator")
"""Messages of srun, and of Open MPI's reader of Slurm's variables, if there is no such job."""

NAMED = {"mca", "prtemca", "pmixmca", "gmca", "genv", "env", "x"}
"""Options that may be repeated, once for each parameter."""


class Placement(NamedTuple):
    """A host, and how many tasks the engine starts there."""

    host: str
    tasks: int


class Engine:
    """Runs one command of an engine for the whole job; each engine's module defines the command.

    Attributes:
        mark: a text that only its `--version` output contains; "": `--version` is not run.
        tools: names of its program; the first one found that has the mark is used.
        aliases: (other name, name used by `arguments`) of its options, without dashes.
        label: a pattern for the text before each line of a task; its group is the task's number. By
            default it matches nothing, so that no token counts.
        loss_pattern: a pattern for its message when it has lost a host and is about to end the
            others.
        queues: whether its tasks may wait for their turn on the hosts, however long.
        harmless: a pattern for its own messages in healthy jobs, which are not shown.
    """

    transport = "dial"
    mark = ""
    tools: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    label = "(?!)"
    loss_pattern = ""
    harmless = "(?!)"
    queues = False

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._name = name_of(self)
        self._tool = ""
        self._version = ""
        self._hosts: list[Host] = []
        self._runs: list[EngineRun] = []

    # -- defined by each engine ---------------------------------------------------------------

    def arguments(self, places: Sequence[Placement]) -> list[Argument]:
        """Return the engine's arguments, without its program and the command to start."""
        raise NotImplementedError

    def tasks(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return these nodes in the order of the engine's task numbers."""
        return nodes

    def fault_tolerance(self) -> list[Argument]:
        """Return the arguments with which the engine survives a failed task, if it can."""
        return []

    def folders(self) -> list[str]:
        """Return folders to search for its program before those on PATH."""
        return []

    def environ(self) -> dict[str, str]:
        """Return the engine's environment, without variables of another engine's task."""
        gone = of_mpi(os.environ)
        return {name: value for name, value in os.environ.items() if name not in gone}

    def advice(self, lines: Sequence[str]) -> str:
        """Return advice on an end that these lines of the engine explain, or ""."""
        job = os.environ.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOBID")
        if not job or not _ENDED.search(" ".join(lines)):
            return ""
        unset = f"`unset {ids(os.environ)}`"
        return f"if Slurm job {job} has ended, remove its leftover variables: {unset}"

    def start_failure(self, lines: Sequence[str]) -> str:
        """Return why it could not start all node launchers, "" if its lines do not say so."""
        return ""

    def refusal(self, hosts: Sequence[str]) -> str:
        """Return why the engine's program, once found, cannot start on these hosts, or "".

        MPI launchers read the colons of an IPv6 address as their own, or wait without a word.
        """
        address = next((host for host in hosts if ":" in host), "")
        return f"IPv6 address {address}; use a host name, or --launcher ssh" if address else ""

    def clean_up(self, pid: int) -> None:
        """Remove the remains of a killed engine process."""

    def with_ssh_options(self, name: str) -> dict[str, str]:
        """Return this environment, with our ssh options after the user's own in that variable.

        Raises:
            UsageError: the user's ssh configuration cannot be read.
        """
        ours = shlex.join(ssh_options(self._settings))
        theirs = os.environ.get(name, "")
        port, args = self._settings.port, shlex.split(theirs)
        config_reader.check(self._hosts, port, args)
        first = shlex.join(config_reader.overrides(self._hosts, port, args))
        options = f"{first} {theirs} {ours}".strip()
        step = {"SLURM_OVERLAP": "1"} if self._has_agents_in_a_job() and self.shares() else {}
        return {**step, **Engine.environ(self), **executable.own_path(), name: options}

    def _has_agents_in_a_job(self) -> bool:
        """Return whether its agents are a step of a Slurm job that need not be exclusive."""
        return "SLURM_JOB_ID" in os.environ and "SLURM_EXCLUSIVE" not in os.environ

    def shares(self) -> bool:
        """Return whether its step shares the nodes with all other steps of the Slurm job.

        Otherwise the step waits for the end of the others. The shell of `srun --pty` would wait for
        itself.
        """
        stale = stale_requests(os.environ)
        in_total = any(os.environ.get(name) for name in IN_TOTAL if name not in stale)
        return not in_total or in_a_step(os.environ) or bool(self._runs)

    # -- shared by all engines ----------------------------------------------------------------

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why it cannot start these nodes, or ""."""
        self._hosts = [node.host for node in nodes]
        odd = next((n.host for n in nodes if n.host.port or n.host.user), None)
        if odd is not None:
            return (
                f"{odd.where or '--host'}: {self._name} cannot use a separate user or port for"
                f" {odd.name}; set it in ~/.ssh/config, or use --launcher ssh"
            )
        if lacks_tls():
            return f"--launcher {self._name}: {lacks_tls()}, or use --launcher ssh"
        refusal = self._find_tool() or self.refusal([host.name for host in self._hosts])
        return f"--launcher {self._name}: {refusal}" if refusal else ""

    def commands(
        self, nodes: Sequence[Node], dial: base.DialBack | None
    ) -> list[base.StartCommand]:
        """Return the one command for all hosts."""
        hosts = [*dict.fromkeys(node.host.name for node in nodes)]
        return [base.StartCommand(self.argv(nodes, dial), hosts)]

    def argv(self, nodes: Sequence[Node], dial: base.DialBack | None) -> list[str]:
        """Return the whole command; an option that the user gives replaces ours.

        Most engines refuse a repeated option, and some use both.
        """
        tolerance = self.fault_tolerance() if self._settings.elastic else []
        arguments = [*self.arguments(placements(nodes)), *tolerance]
        return [*self.command_line(arguments), *self.task_argv(dial)]

    def restart_argv(self, node: Node, dial: base.DialBack | None) -> list[str]:
        """Return the command that starts the node launcher of one node again."""
        arguments = [*self.arguments(placements([node])), *self.fault_tolerance()]
        return [*self.command_line(arguments), *self.task_argv(dial, node.host.name)]

    def command_line(self, arguments: Sequence[Argument]) -> list[str]:
        """Return the program, our arguments that the user does not override, and the user's."""
        theirs = self._settings.args
        given = {self._key(theirs[at:]) for at in range(len(theirs))}
        ours = [word for one in arguments if self._key(one) not in given for word in one]
        return [self._tool or self.tools[0], *ours, *theirs]

    def _key(self, words: Sequence[str]) -> str:
        """Return an option's name without dashes, value and alias, with its parameter if any."""
        if not words or not words[0].startswith("-"):
            return ""
        name = words[0].lstrip("-").partition("=")[0]
        name = dict(self.aliases).get(name, name)
        return " ".join([name, *words[1:2]]) if name in NAMED else name

    def task_argv(self, dial: base.DialBack | None, node: str = "") -> list[str]:
        """Return the command of every task, or of the one on that node."""
        settings = self._settings
        dial = dial or base.DialBack("ADDRESS:PORT", "SHA256")
        part = f"--{'rank' if settings.rank_per_task else 'engine'}={self._name}"
        part = f"--node={node}" if node else part
        return remote_argv(settings, f"--dial={dial.target}", f"--pin={dial.pin}", part)

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Do nothing: an early start saves no time."""

    def start(
        self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.DialBack | None
    ) -> None:
        """Run the engine; its node launchers announce themselves on its output.

        Every later call restarts the node launcher of one lost node, in a separate run.
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

        With one task per rank, `code` is what a rank passed to MPI_Abort.
        """
        return code if self._settings.rank_per_task and code > 0 else LOST

    def close(self) -> None:
        """Wait for the engine to end on its own, then stop it."""
        for run in self._runs:
            run.close()

    def _candidates(self) -> list[str]:
        """Return the possible programs as full paths, from which engines find their own files."""
        path = self._settings.path
        if path and not os.path.isdir(path):
            return [*filter(None, [executable.find(path)])]
        whole = os.path.abspath(path)
        own = [os.path.join(whole, "bin"), whole] if path else self.folders()
        folders = own if path else [*own, *executable.own_folders()]
        return [*filter(None, (executable.find(tool, folders) for tool in self.tools))]

    def _find_tool(self) -> str:
        """Find this engine's program; return the reason if it is missing, else ""."""
        wrong = ""
        for path in self._candidates():
            version = output_of([path, "--version"]) if self.mark else ""
            if self.mark in version:
                self._tool, self._version = path, version
                return ""
            wrong = wrong or f"{path} is {vendor(version)}"
        where = self._settings.path or "PATH"
        problem = wrong or self._denied() or f"no {' or '.join(self.tools)} in {where}"
        return f"{problem}; --launcher_path names its program or folder"

    def _denied(self) -> str:
        """Return why this user may not use the file of --launcher_path, else ""."""
        from ...common.access import denied

        return denied(self._settings.path, os.X_OK) if self._settings.path else ""


VENDORS = {
    "open-mpi.org": "Open MPI's",
    "Intel(R) MPI": "Intel MPI's",
    "HYDRA build details": "MPICH's",
}
"""Marks in the version text of a program, and the vendor that each stands for."""


def placements(nodes: Sequence[Node]) -> list[Placement]:
    """Return the hosts in order, each with its number of tasks: one per node, or one per rank."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.host.name] = counts.get(node.host.name, 0) + 1
    return [Placement(host, tasks) for host, tasks in counts.items()]


def _of_one_node(rank: int, emit: Emit) -> Emit:
    """Return an `emit` for a run that serves one node: its engine's end is the node's end."""

    def emit_one(event: BackendEvent) -> None:
        emit(SessionEnded(rank, event.cause) if isinstance(event, EngineEnded) else event)

    return emit_one


def vendor(version: str) -> str:
    """Return whose program prints this version text."""
    for mark, whose in VENDORS.items():
        if mark in version:
            return whose
    return "not a known MPI launcher"


def ssh_options(settings: BackendSettings) -> list[str]:
    """Return options for an `ssh` that an engine runs: no prompts, and a timeout."""
    timeout = max(1, round(settings.connect_timeout))
    return [
        *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={timeout}"),
        *(("-o", "StrictHostKeyChecking=accept-new") if settings.accept_new_host_keys else ()),
        *(("-p", str(settings.port)) if settings.port else ()),
    ]
