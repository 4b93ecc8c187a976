"""The interface of a backend: a way to start one node launcher on every node.

A backend starts the node launchers everywhere with a command of constant size; everything else
travels over the control line. A "stdio" backend opens one session per node, whose standard input
and output are the line. The node launchers of a "dial" backend connect to the runner.
"""

from __future__ import annotations

import os
import sys

from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal, Protocol

    from ..common.loop import Loop
    from ..specs.backend import BackendSettings
    from ..specs.plan import Node
    from .events import Emit

# The code passes through shells of every kind: the only quotes are double quotes, and there is no
# backslash, dollar, percent or exclamation mark. The current folder is dropped before any import.
BOOT = (
    "import sys;sys.path[:]=[p for p in sys.path if p];r=sys.argv.pop(1);"
    'sys.version_info<(3,10) and sys.exit("python 3.10 or newer is needed, this is "+sys.version);'
    'm=type(sys)("dsrun");m.__path__=[r];sys.modules.update(dsrun=m);'
    "from dsrun.launcher.node.main import start;start()"
)
"""Starts a node launcher on this machine, from the dsrun folder that this process uses.

`-E -S` ignores the node's Python variables and site files, and starts faster.
"""


class Part(NamedTuple):
    """A backend with the nodes that it starts."""

    backend: Backend
    nodes: Sequence[Node]


class StartCommand(NamedTuple):
    """A command that starts node launchers.

    Attributes:
        argv: the command and its arguments.
        hosts: the hosts on which it starts node launchers, in the order of their ranks.
        host_at: None if the command runs once and starts all of them. Otherwise the command runs
            once per host, and the argument of `argv` at this index, from 0, is the host's name;
            `argv` itself has the name of the first host.
    """

    argv: list[str]
    hosts: list[str]
    host_at: int | None = None


def _never_again(rank: int) -> None:
    """Do nothing: a node launcher may announce itself only once."""


class DialBack(NamedTuple):
    """The values that node launchers need to dial back.

    Attributes:
        target: "address,address:port".
        pin: the certificate's SHA-256.
        again: permits another announcement of a node launcher, given the rank of its node.
    """

    target: str
    pin: str
    again: Callable[[int], None] = _never_again


if TYPE_CHECKING:

    class Backend(Protocol):
        """A way to start node launchers."""

        @property
        def transport(self) -> Literal["stdio", "dial"]:
            """The form of control lines: sessions ("stdio") or connections ("dial")."""
            ...

        def problem(self, nodes: Sequence[Node]) -> str:
            """Return why the backend cannot start these nodes, or ""."""
            ...

        def commands(self, nodes: Sequence[Node], dial: DialBack | None) -> list[StartCommand]:
            """Return every command that this machine would run, for a dry run."""
            ...

        def prepare(self, nodes: Sequence[Node]) -> None:
            """Start early, before the rest of dsrun is imported, if that saves time.

            Raises:
                UsageError: a program cannot be started.
            """
            ...

        def start(
            self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: DialBack | None
        ) -> None:
            """Begin to start every node; emit events, always from the loop."""
            ...

        def close(self) -> None:
            """End all sessions that are still open."""
            ...


def package_root() -> str:
    """Return the folder that holds the `launcher` package."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def entry(settings: BackendSettings) -> tuple[str, ...]:
    """Return the words with which the command of a node launcher enters a container first."""
    return settings.container.entry if settings.container else ()


def node_argv(settings: BackendSettings, *args: str) -> list[str]:
    """Return the command of a node launcher on this machine."""
    root = settings.root or package_root()
    start = [settings.python or sys.executable, "-E", "-S", "-c", BOOT, root]
    return [*start, *entry(settings), *args]


def shell_line(argv: Sequence[str]) -> str:
    """Return the command as text for a login shell of any kind."""
    import shlex

    return "exec " + shlex.join(argv)
