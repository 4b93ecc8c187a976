"""What the engines have in common: one command starts every node launcher, and these dial back.

An engine's pipes serve for a node launcher's token, and for what it says when it cannot start one.
It is trusted with nothing else: not with exit codes, output, signals or the order of hosts. Adding
an engine is one class with its command, and one line in `node.engine_task.ENGINES`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal

from ...common import loop as loops
from ...common.errors import LOST
from ...common.values import NamedTuple
from ...control import auth
from .. import base, causes
from ..child import Child
from ..ssh import config_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from ...common.loop import Loop
    from ...specs.host import Host
    from ...specs.plan import Node

    Words: TypeAlias = tuple[str, ...]

NAMED = {"mca", "prtemca", "pmixmca", "gmca", "genv", "env", "x"}
"""Options that come once for every parameter that they name."""

LEAVES = 2.0
"""Seconds for an engine to end by itself once its node launchers have left."""

STOPS = 2.0
"""Seconds between the last SIGTERM and SIGKILL for an engine that does not."""

AGAIN = 0.5
"""Seconds between one SIGTERM and the next."""

TOLD = 4
"""Lines of an engine's own words that a message repeats."""


UNREACHED = re.compile(
    r"^ssh: |Permission denied \(|[Hh]ost key|HOST IDENTIFICATION|exchange_identification"
    r"|execvp error|Unable to run bstrap_proxy on"
)
"""What an engine's ssh, or its agent on a host, says of the one host that its line names.

MPICH 4 says no more than that, and waits for ever.
"""


class Placement(NamedTuple):
    """A host and how many tasks the engine is to start there."""

    host: str
    tasks: int


class Engine:
    """Runs one command of an engine for the whole job; each engine's own file says which.

    Attributes:
        name: its `--launcher` name, a key of `node.engine_task.ENGINES`.
        mark: what its `--version` text contains and that of others does not; "": it is not asked.
        tools: programs that may be it, the first that is found and of its family counts.
        aliases: (another name, the name that `words` uses) of its options, without dashes.
        breaks: a pattern of what it says when it has lost a host and is about to end all others.
    """

    transport = "dial"
    name = ""
    mark = ""
    tools: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    breaks = ""

    def __init__(self, settings: base.Settings) -> None:
        self._settings = settings
        self._tool = ""
        self._version = ""
        self._hosts: list[Host] = []
        self._runs: list[_Run] = []

    # -- what an engine's own file says -------------------------------------------------------

    def words(self, places: Sequence[Placement]) -> list[Words]:
        """Return the engine's arguments, without its own name and the command to start."""
        raise NotImplementedError

    def lasting(self) -> list[Words]:
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
        """Return why these nodes cannot be started this way, or ""."""
        self._hosts = [node.host for node in nodes]
        odd = next((n.host for n in nodes if n.host.port or n.host.user), None)
        if odd is not None:
            return (
                f"{odd.where or '--host'}: {self.name} has no user or port for one host"
                f" ({odd.name}); put it into ~/.ssh/config, or use --launcher ssh"
            )
        if base.lacks_tls():
            return f"--launcher {self.name}: {base.lacks_tls()}, or use --launcher ssh"
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
        lasting = self.lasting() if self._settings.elastic else []
        return [*self.start_of([*self.words(placements(nodes)), *lasting]), *self.task(dial)]

    def argv_again(self, node: Node, dial: base.Dial | None) -> list[str]:
        """Return the command that starts the node launcher of one node once more."""
        words = self.words(placements([node]))
        return [*self.start_of([*words, *self.lasting()]), *self.task(dial, node.host.name)]

    def start_of(self, words: Sequence[Words]) -> list[str]:
        """Return the engine's name, those of our arguments that the user does not give, and his."""
        theirs = self._settings.args
        taken = {self._key(theirs[at:]) for at in range(len(theirs))}
        ours = [word for one in words if self._key(one) not in taken for word in one]
        return [self._tool or self.tools[0], *ours, *theirs]

    def _key(self, words: Sequence[str]) -> str:
        """Return what an option is called, without dashes, value and alias; a parameter's name."""
        if not words or not words[0].startswith("-"):
            return ""
        name = words[0].lstrip("-").partition("=")[0]
        name = dict(self.aliases).get(name, name)
        return " ".join([name, *words[1:2]]) if name in NAMED else name

    def task(self, dial: base.Dial | None, node: str = "") -> list[str]:
        """Return the command of every task, or of the one on that node."""
        set_ = self._settings
        there = dial or base.Dial("ADDRESS:PORT", "SHA256")
        part = f"--{'rank' if set_.rank_per_task else 'engine'}={self.name}"
        part = f"--node={node}" if node else part
        return base.node_argv(set_, f"--dial={there.target}", f"--pin={there.pin}", part)

    def start(
        self, nodes: Sequence[Node], loop: Loop, reports: base.Reports, dial: base.Dial | None
    ) -> None:
        """Run the engine; its node launchers announce themselves on its output.

        Called again it is for one node whose node launcher was lost, and that run is its alone.
        """
        again = bool(self._runs)
        argv = self.argv_again(nodes[0], dial) if again else self.argv(nodes, dial)

        if again:
            alone = reports.ended
            reports = reports._replace(broken=lambda cause, *_: alone(nodes[0].rank, cause))
        try:
            self._runs.append(_Run(self, argv, nodes, loop, reports))
        except OSError as error:
            reports.broken(f"{self._tool}: {error.strerror}", LOST, False)

    def code(self, code: int) -> int:
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
            wrong = wrong or f"{path} is {owner(version)}"
        where = self._settings.path or "PATH"
        found = wrong or f"no {' or '.join(self.tools)} in {where}"
        return f"--launcher {self.name}: {found}; --launcher_path names its program or folder"


OWNERS = {
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


def owner(version: str) -> str:
    """Return whose program it is that prints this for its version, in words."""
    for mark, whose in OWNERS.items():
        if mark in version:
            return whose
    return "no MPI launcher that is known here"


class _Run:
    """One run of an engine, whose output is read for tokens and kept for the message."""

    def __init__(
        self,
        engine: Engine,
        argv: Sequence[str],
        nodes: Sequence[Node],
        loop: Loop,
        reports: base.Reports,
    ) -> None:
        self._engine = engine
        self._nodes = nodes
        self._announced = 0
        self._tool = os.path.basename(argv[0])
        self._loop = loop
        self._reports = reports
        self._over = self._cleared = False
        self._said: list[str] = []
        self._rest = {"out": b"", "err": b""}
        self._child = Child(argv, loop, self._ended, engine.environ(), self._read_errors)
        os.close(self._child.stdin)
        os.set_blocking(self._child.stdout, False)
        loop.watch(self._child.stdout, loops.READ, self._read_output)

    def close(self) -> None:
        """Wait for its end; then SIGTERM, which engines pass on, and SIGKILL.

        An engine that has not started everything will not end by itself. Nor will one that has lost
        a host: its ssh client waits for ever, and Open MPI gives up when it is told for the third
        time (`abort_signal_callback` of its orterun.c).
        """
        child = self._child
        if not child.wait(LEAVES if self._announced >= len(self._nodes) else 0.0):
            child.send_signal(signal.SIGTERM)
        for patience in (AGAIN, AGAIN):
            if not child.wait(patience):
                child.signal_children(signal.SIGTERM)
                child.send_signal(signal.SIGTERM)
        if not child.wait(STOPS):
            child.send_signal(signal.SIGKILL)
            child.wait(STOPS)
        if child.code:
            self._ended(child.code, "")

    def _read_output(self) -> None:
        try:
            data = os.read(self._child.stdout, 65536)
        except BlockingIOError:
            return
        if not data:
            self._loop.unwatch(self._child.stdout)
            os.close(self._child.stdout)
            return
        for line in self._lines("out", data):
            found = auth.announced(line)
            if found:
                self._announced += 1
                self._reports.token(*found)
            else:
                self._note(line)

    def _read_errors(self, data: bytes) -> None:
        for line in self._lines("err", data):
            self._note(line)

    def _lines(self, stream: str, data: bytes) -> list[str]:
        *whole, self._rest[stream] = (self._rest[stream] + data).split(b"\n")
        return [line.decode("utf-8", "replace").strip() for line in whole]

    def _note(self, line: str) -> None:
        """Keep a line of the engine's own; rules and blank lines say nothing."""
        if any(character.isalnum() for character in line):
            self._said = [*self._said, line][-64:]
            self._reports.said(f"{self._tool}: {line}")
            if causes.new_key(line):
                self._reports.warned(causes.new_key(line))
            self._see_break(line)
        if UNREACHED.search(line):
            words = set(re.findall(r"[\w.-]+", line))
            for node in self._nodes:
                if node.host.name in words:
                    cause = causes.explain(255, line, node.host.name)
                    self._reports.ended(node.rank, cause)

    def _see_break(self, line: str) -> None:
        """Tell of a loss before the engine's signals reach the nodes: they would seem the cause."""
        pattern, started = self._engine.breaks, self._announced >= len(self._nodes)
        if pattern and started and not self._over and re.search(pattern, line):
            self._over = True
            self._reports.broken(f"{self._tool}: {line[:200]}", LOST, False)

    def _ended(self, code: int, errors: str) -> None:
        if code and not self._cleared:
            self._cleared = True
            self._engine.clean_up(self._child.pid)
        if self._over:
            return
        self._over = True
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        words = "; ".join(line[:200] for line in self._said[:TOLD])
        cause = f"{self._tool} ended ({how}){f': {words}' if words else ''}"
        self._reports.broken(cause, self._engine.code(code), code == -signal.SIGKILL)
