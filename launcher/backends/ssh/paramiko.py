"""ssh without a client program: paramiko, with one thread per host.

The user's ssh configuration is read by OpenSSH's own client if it is installed (`config_reader`);
known_hosts may have hashed names and revoked keys, and the agent is used. A host whose key is
unknown is refused, unless the user accepts new keys.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial

from ...common.errors import reason
from ...common.loop import Turns
from .. import base
from ..events import BackendWarning, EngineOutput, SessionEnded, SessionStarted
from ..package.command import remote_argv
from .bridge import Bridge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop
    from ...specs.backend import BackendSettings
    from ...specs.plan import Node
    from ..events import Emit
    from .client import SshSessions

STACK = 512 * 1024
"""Bytes of stack for a host's thread; the default is eight times what the thread uses."""

FAN_OUT = 1024
"""Maximum sessions being opened at a time: each has a thread, which most systems limit."""


class Ssh:
    """Opens one ssh session per node from this process."""

    transport = "stdio"

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._bridges: dict[int, Bridge] = {}
        self._turns: Turns | None = None
        self._opening: set[Bridge] = set()
        self._sessions: SshSessions | None = None

    @property
    def used_agent(self) -> bool:
        """True if a host has accepted a key of the user's agent."""
        return self._sessions is not None and self._sessions.used_agent

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why it cannot start these nodes, or ""."""
        from importlib.util import find_spec

        if self._settings.args:
            return "--launcher_args: --launcher ssh runs no program; use --launcher openssh"
        if find_spec("paramiko") is None:
            from ...common.packages import lacks

            return f"--launcher ssh: {lacks('paramiko', instead=['use --launcher openssh'])}"
        from .unsupported import unsupported_host

        problem = unsupported_host([node.host for node in nodes], self._settings.port)
        return f"--launcher ssh: {problem}; use --launcher openssh" if problem else ""

    def commands(
        self, nodes: Sequence[Node], dial: base.DialBack | None
    ) -> list[base.StartCommand]:
        """Return the `ssh` commands that would open equivalent sessions."""
        from .openssh import OpenSSH

        return OpenSSH(self._settings).shown(nodes)

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Do nothing: an early start saves no time."""

    def start(
        self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.DialBack | None
    ) -> None:
        """Open each session in its own thread; its line exists from then on, and has data later.

        Each turn of the loop opens one session: signals are handled even among thousands.
        """
        from . import client

        _allow_files(len(nodes))
        loop.open_to_threads()

        def warn(text: str) -> None:
            _post(loop, lambda: emit(BackendWarning(text)))

        def explain(text: str) -> None:
            _post(loop, lambda: emit(EngineOutput(text)))

        self._sessions = sessions = client.SshSessions(self._settings, warn)
        command = base.shell_line(remote_argv(self._settings, "--stdio"))
        threading.stack_size(STACK)
        self._turns = turns = self._turns or Turns(loop, lambda: len(self._opening) < FAN_OUT)

        def opened(bridge: Bridge) -> None:
            bridge.stream.begun = loop.awake()
            self._opening.discard(bridge)
            if turns.waiting:
                _post(loop, turns.resume)

        def start_next(node: Node) -> None:
            try:
                bridge = Bridge(
                    *(sessions, node.host, command, explain, opened),
                    python=self._settings.python,
                    held=bool(self._settings.container),
                )
            except OSError as error:
                emit(SessionEnded(node.rank, f"the ssh session failed: {reason(error)}"))
            else:
                self._start_session(bridge, node.rank, loop, emit)

        turns.add(partial(start_next, node) for node in nodes)

    def _start_session(self, bridge: Bridge, rank: int, loop: Loop, emit: Emit) -> None:
        self._close_former(rank)
        self._bridges[rank] = bridge
        self._opening.add(bridge)
        bridge.stream.begun = float("inf")
        emit(SessionStarted(rank, bridge.stream))
        try:
            self._run(bridge, rank, loop, emit)
        except RuntimeError as error:  # there are too many threads
            self._opening.discard(bridge)
            del self._bridges[rank]
            bridge.discard()
            emit(SessionEnded(rank, f"the ssh session failed: {error}"))

    def close(self) -> None:
        """Close all sessions, and open no more."""
        if self._turns is not None:
            self._turns.cancel()
        for bridge in self._bridges.values():
            bridge.close()

    def _close_former(self, rank: int) -> None:
        """Close a lost session, in a thread: that may wait for a host that does not answer."""
        former = self._bridges.pop(rank, None)
        if former is not None:
            threading.Thread(target=former.close, name=f"ssh-{rank}-end", daemon=True).start()

    def _run(self, bridge: Bridge, rank: int, loop: Loop, emit: Emit) -> None:
        def work() -> None:
            cause = bridge.run()
            _post(loop, lambda: over(cause))

        def over(cause: str) -> None:
            if self._bridges.get(rank) is bridge:  # else the node is reached by another one now
                del self._bridges[rank]
                emit(SessionEnded(rank, cause))

        threading.Thread(target=work, name=f"ssh-{rank}", daemon=True).start()


def _post(loop: Loop, call: Callable[[], None]) -> None:
    """Call a function on the loop, unless the loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def _allow_files(nodes: int) -> None:
    """Raise the soft limit of open files to the needs of this many sessions (six each)."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 256 + 6 * nodes) if hard != resource.RLIM_INFINITY else 256 + 6 * nodes
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
