"""ssh without a client program: paramiko, all hosts at once, one thread a host.

The user's ssh configuration is read by OpenSSH's own client where there is one (`config_reader`);
known_hosts may have hashed names and revoked keys, and the agent is asked. A host whose key is not
known is refused, unless the user says otherwise.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from .. import base
from ..events import BackendWarning, EngineOutput, SessionEnded, SessionStarted
from ..stdio import SessionStream
from .bridge import Bridge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop
    from ...specs.backend import BackendSettings
    from ...specs.plan import Node
    from ..events import Emit

STACK = 512 * 1024
"""Bytes of stack for a host's thread; the default is eight times what it uses."""


class Ssh:
    """Opens one ssh session a node from this process."""

    transport = "stdio"

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._bridges: list[Bridge] = []

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why it cannot start these nodes, or ""."""
        from importlib.util import find_spec

        if self._settings.args:
            return "--launcher_args: --launcher ssh runs no program; openssh runs `ssh` with them"
        if find_spec("paramiko") is None:
            return "--launcher ssh: paramiko is not installed; pip install paramiko, or use openssh"
        from .unsupported import unsupported_host

        beyond = unsupported_host([node.host for node in nodes], self._settings.port)
        return f"--launcher ssh: {beyond}; --launcher openssh can" if beyond else ""

    def commands(
        self, nodes: Sequence[Node], dial: base.Dial | None
    ) -> list[tuple[str, list[str]]]:
        """Return (host, argv) as OpenSSH's client would be run for the same session."""
        from .openssh import OpenSSH

        shown = OpenSSH(self._settings)
        return [(node.host.name, shown.argv(node.host)) for node in nodes]

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Nothing is to be gained by an early start."""

    def start(self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.Dial | None) -> None:
        """Open every session in a thread of its own; a line is there at once, and fills later."""
        from . import client

        _allow_files(len(nodes))
        loop.open_to_threads()

        def warn(text: str) -> None:
            _post(loop, lambda: emit(BackendWarning(text)))

        def explain(text: str) -> None:
            _post(loop, lambda: emit(EngineOutput(text)))

        sessions = client.SshSessions(self._settings, warn)
        command = base.shell_line(base.node_argv(self._settings, "--stdio"))
        threading.stack_size(STACK)
        for node in nodes:
            bridge = Bridge(sessions, node.host, command, explain)
            self._bridges.append(bridge)
            emit(SessionStarted(node.rank, SessionStream(bridge.fd, bridge.write_fd)))
            self._run(bridge, node.rank, loop, emit)

    def close(self) -> None:
        """Close every session."""
        for bridge in self._bridges:
            bridge.close()

    def _run(self, bridge: Bridge, rank: int, loop: Loop, emit: Emit) -> None:
        def work() -> None:
            cause = bridge.run()
            _post(loop, lambda: over(cause))

        def over(cause: str) -> None:
            self._bridges.remove(bridge)
            emit(SessionEnded(rank, cause))

        threading.Thread(target=work, name=f"ssh-{rank}", daemon=True).start()


def _post(loop: Loop, call: Callable[[], None]) -> None:
    """Have the loop make a call, unless all is over by now."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def _allow_files(nodes: int) -> None:
    """Raise the soft limit of open files to what so many sessions need (six each)."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 256 + 6 * nodes) if hard != resource.RLIM_INFINITY else 256 + 6 * nodes
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
