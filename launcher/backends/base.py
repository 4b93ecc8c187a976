"""What a backend is: a few answers, and a way to start one node launcher on every node.

A backend starts the same node launcher everywhere with a command of constant size; all else travels
over the control line. It is either of the kind that opens one session a node, whose standard input
and output are the line ("stdio"), or runs one command of an engine that starts all of them, which
then dial back ("dial").
"""

from __future__ import annotations

import os
import sys

from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal, Protocol

    from ..common.loop import Loop
    from ..control.line import Line
    from ..specs.plan import Node

# No quote but the double one, no backslash, dollar, per cent or exclamation mark: this travels
# through shells of every kind. The current folder is dropped before anything is imported.
BOOT = (
    "import sys;sys.path[:]=[p for p in sys.path if p];import os;r=sys.argv.pop(1);"
    'sys.version_info<(3,10) and sys.exit("python 3.10 or newer is needed, this is "+sys.version);'
    'm=type(sys)("dsrun");m.__path__=[r];'
    'os.path.isdir(r+"/launcher/node") and [sys.modules.update(dsrun=m)]'
    ' or __import__("site").main();'
    "from dsrun.launcher.launch import start;start()"
)
"""Starts the node launcher from the runner's own folder where that exists, else as installed.

With `-E -S` no variable and no site file of the node's has a say in it, and it starts faster.
"""


class Settings(NamedTuple):
    """What a backend needs to know of the options.

    Attributes:
        python: the interpreter on the nodes.
        root: folder that holds the `launcher` package on this machine.
        args: the user's own arguments for the backend's tool.
        connect_timeout: seconds for a host to answer.
        keepalive: seconds between signs of life of the session itself.
        path: the engine's program, or the folder it is in; "" to look on PATH.
        bind: dsrun binds cores, so that the engine must not.
        rank_per_task: the engine starts one task a rank, not one a node.
        elastic: the job may go on without a node.
    """

    python: str
    root: str
    args: tuple[str, ...] = ()
    port: int | None = None
    connect_timeout: float = 10.0
    keepalive: float = 5.0
    accept_new_host_keys: bool = False
    path: str = ""
    bind: bool = False
    rank_per_task: bool = False
    elastic: bool = False


class Part(NamedTuple):
    """A backend, and the nodes it starts."""

    backend: Backend
    nodes: Sequence[Node]


def _once(rank: int) -> None:
    """Have no node launcher announce itself a second time."""


class Dial(NamedTuple):
    """What node launchers need to dial back.

    Attributes:
        target: "address,address:port".
        pin: the certificate's SHA-256.
        again: lets the node launcher of a node, by rank, announce itself once more.
    """

    target: str
    pin: str
    again: Callable[[int], None] = _once


class Reports(NamedTuple):
    """What a backend tells the job, always from the loop; nodes are named by rank.

    Attributes:
        line: a session stands; its line may still carry a login shell's noise first.
        token: a node launcher announced the token it will dial with (node name, token).
        ended: a session is over, or never stood: the cause in words, "" for an ordinary end.
        broken: the engine that started all nodes is over: the cause in words, the exit code
            that a job has which ends by it, and whether somebody has killed it.
        said: a line of the engine's own.
        warned: what the user has to know, such as a new host key that was taken.
    """

    line: Callable[[int, Line], None]
    token: Callable[[str, str], None]
    ended: Callable[[int, str], None]
    broken: Callable[[str, int, bool], None]
    said: Callable[[str], None]
    warned: Callable[[str], None]


if TYPE_CHECKING:

    class Backend(Protocol):
        """A way to start node launchers."""

        @property
        def transport(self) -> Literal["stdio", "dial"]:
            """Whether its sessions are the lines, or node launchers dial back."""
            ...

        def problem(self, nodes: Sequence[Node]) -> str:
            """Return why these nodes cannot be started this way, or ""."""
            ...

        def commands(self, nodes: Sequence[Node], dial: Dial | None) -> list[tuple[str, list[str]]]:
            """Return (host, argv) of every command this machine would run, as for a dry run."""
            ...

        def start(
            self, nodes: Sequence[Node], loop: Loop, reports: Reports, dial: Dial | None
        ) -> None:
            """Begin to start every node; outcomes come through `reports`."""
            ...

        def close(self) -> None:
            """End whatever sessions are still there."""
            ...


def package_root() -> str:
    """Return the folder that holds the `launcher` package."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def lacks_tls() -> str:
    """Return what is missing for node launchers to dial back over TLS, or ""."""
    from importlib.util import find_spec

    if find_spec("cryptography") is not None:
        return ""
    return "python's `cryptography` is not installed (it comes with paramiko); pip install it"


def node_argv(settings: Settings, *args: str) -> list[str]:
    """Return the node launcher's command."""
    return [settings.python or sys.executable, "-E", "-S", "-c", BOOT, settings.root, *args]


def dial_args(dial: Dial | None, node: str) -> list[str]:
    """Return the node launcher's arguments for dialling back as `node`."""
    target, pin = (dial.target, dial.pin) if dial else ("ADDRESS:PORT", "SHA256")
    return [f"--dial={target}", f"--pin={pin}", f"--node={node}"]


def shell_line(argv: Sequence[str]) -> str:
    """Return the command as text for a login shell of any kind."""
    import shlex

    return "exec " + shlex.join(argv)


def output_of(argv: Sequence[str]) -> str:
    """Return what a short program prints, on either stream; "" where it cannot be run."""
    read, write = os.pipe2(os.O_CLOEXEC)
    streams = [(os.POSIX_SPAWN_DUP2, write, fd) for fd in (1, 2)]
    try:
        pid = os.posix_spawn(argv[0], list(argv), os.environ, file_actions=streams)
    except OSError:
        os.close(read)
        return ""
    finally:
        os.close(write)
    with open(read, "rb") as pipe:
        printed = pipe.read()
    os.waitpid(pid, 0)
    return printed.decode("utf-8", "replace")


def ssh_options(settings: Settings) -> list[str]:
    """Return options for an `ssh` that an engine runs: it never asks, and gives up in time."""
    patience = max(1, round(settings.connect_timeout))
    return [
        *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={patience}"),
        *(("-o", "StrictHostKeyChecking=accept-new") if settings.accept_new_host_keys else ()),
        *(("-p", str(settings.port)) if settings.port else ()),
    ]
