"""What a backend is: a way to start one node launcher on every node.

A backend starts the same node launcher everywhere with a command of constant size; everything else
travels over the control line. Either it opens one session per node, whose standard input and output
are the line ("stdio"), or its node launchers dial back ("dial").
"""

from __future__ import annotations

import os
import sys

from ..common import executable, system
from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal, Protocol

    from ..common.loop import Loop
    from ..specs.backend import BackendSettings
    from ..specs.plan import Node
    from .events import Emit

# This passes through shells of every kind: the only quote is the double one, and there is no
# backslash, dollar, percent or exclamation mark. The current folder is dropped before any import.
BOOT = (
    "import sys;sys.path[:]=[p for p in sys.path if p];r=sys.argv.pop(1);"
    'sys.version_info<(3,10) and sys.exit("python 3.10 or newer is needed, this is "+sys.version);'
    'm=type(sys)("dsrun");m.__path__=[r];sys.modules.update(dsrun=m);'
    "from dsrun.launcher.node.main import start;start()"
)
"""Starts a node launcher from the folder of dsrun that this process uses, on the same machine.

`-E -S` ignores the node's Python variables and site files, and starts faster.
"""


class Part(NamedTuple):
    """A backend, and the nodes it starts."""

    backend: Backend
    nodes: Sequence[Node]


class StartCommand(NamedTuple):
    """A command that starts node launchers.

    Attributes:
        argv: the command and its arguments.
        hosts: the hosts on which it starts node launchers, in the order of their ranks.
        host_at: None: it is run once and starts all of them. Otherwise it is run once for each
            host: the name of the host is the argument of `argv` with this index, from 0, where
            `argv` has the name of the first host.
    """

    argv: list[str]
    hosts: list[str]
    host_at: int | None = None


def _never_again(rank: int) -> None:
    """Reject a second announcement of a node launcher."""


class DialBack(NamedTuple):
    """What node launchers need to dial back.

    Attributes:
        target: "address,address:port".
        pin: the certificate's SHA-256.
        again: allows another announcement of a node launcher, given the rank of its node.
    """

    target: str
    pin: str
    again: Callable[[int], None] = _never_again


if TYPE_CHECKING:

    class Backend(Protocol):
        """A way to start node launchers."""

        @property
        def transport(self) -> Literal["stdio", "dial"]:
            """Whether a session is the control line of its node, or node launchers dial back."""
            ...

        def problem(self, nodes: Sequence[Node]) -> str:
            """Return why it cannot start these nodes, or ""."""
            ...

        def commands(self, nodes: Sequence[Node], dial: DialBack | None) -> list[StartCommand]:
            """Return every command this machine would run, as for a dry run."""
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


def lacks_tls() -> str:
    """Return what is missing for node launchers to dial back over TLS, or ""."""
    from importlib.util import find_spec

    if find_spec("cryptography") is not None:
        return ""
    from ..common.packages import lacks

    return lacks("cryptography")


def node_argv(settings: BackendSettings, *args: str) -> list[str]:
    """Return the command of a node launcher on this machine."""
    root = settings.root or package_root()
    return [settings.python or sys.executable, "-E", "-S", "-c", BOOT, root, *args]


def remote_argv(settings: BackendSettings, *args: str) -> list[str]:
    """Return the command of a node launcher on a machine where dsrun may be missing."""
    from .package.command import node_command
    from .package.contents import digest

    root = package_root()
    python = settings.python or sys.executable
    return [*node_command(python, settings.root or root, digest(root)), *args]


def dial_args(dial: DialBack | None, node: str) -> list[str]:
    """Return the node launcher's arguments for dialling back as `node`."""
    target, pin = (dial.target, dial.pin) if dial else ("ADDRESS:PORT", "SHA256")
    return [f"--dial={target}", f"--pin={pin}", f"--node={node}"]


def shell_line(argv: Sequence[str]) -> str:
    """Return the command as text for a login shell of any kind."""
    import shlex

    return "exec " + shlex.join(argv)


def output_of(argv: Sequence[str]) -> str:
    """Return what a short program prints on either stream; "" if it cannot be run."""
    read, write = system.pipe2(os.O_CLOEXEC)
    streams = [(os.POSIX_SPAWN_DUP2, write, fd) for fd in (1, 2)]
    try:
        pid = os.posix_spawn(
            executable.located(argv[0]), list(argv), os.environ, file_actions=streams
        )
    except OSError:
        system.close(read)
        return ""
    finally:
        system.close(write)
    with system.open_file(read, "rb") as pipe:
        printed = pipe.read()
    system.waitpid(pid, 0)
    return printed.decode("utf-8", "replace")


def ssh_options(settings: BackendSettings) -> list[str]:
    """Return options for an `ssh` that an engine runs: no prompts, and a timeout."""
    timeout = max(1, round(settings.connect_timeout))
    return [
        *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={timeout}"),
        *(("-o", "StrictHostKeyChecking=accept-new") if settings.accept_new_host_keys else ()),
        *(("-p", str(settings.port)) if settings.port else ()),
    ]
