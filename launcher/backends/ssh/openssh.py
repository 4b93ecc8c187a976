"""The user's own `ssh` program, with all that its configuration supports; one client per node."""

from __future__ import annotations

import math
import os
import signal
from contextlib import suppress
from functools import cached_property, partial

from ...common import executable
from ...common.errors import UsageError, reason
from ...common.loop import Turns
from .. import base, causes
from ..child import KEPT, Child, spawn
from ..events import BackendWarning, SessionEnded, SessionStarted
from ..package.command import remote_argv
from ..retries import Retries
from ..stdio import SessionStream
from . import config_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...common.loop import Loop
    from ...specs.backend import BackendSettings
    from ...specs.host import Host
    from ...specs.plan import Node
    from ..events import Emit


class OpenSSH:
    """Starts one `ssh` client per node; its standard input and output are the line."""

    transport = "stdio"

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._overrides: dict[str, tuple[str, ...]] = {}
        self._children: dict[int, Child] = {}
        self._turns: Turns | None = None
        self._closed = False
        self._options = _options(settings)

    @cached_property
    def _remote(self) -> str:
        """The node launcher's command; subclasses run other commands."""
        return base.shell_line(remote_argv(self._settings, "--stdio"))

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why it cannot start these nodes, or ""."""
        if not executable.find("ssh"):
            return "--launcher openssh: no `ssh` on PATH; install it, or use --launcher ssh"
        config_reader.check(_hosts(nodes), self._settings.port, self._settings.args)
        with suppress(UsageError):  # of one host alone: ssh reports it itself
            self.read_config(_hosts(nodes))  # now, as a signal ends this process at once
        return ""

    def commands(
        self, nodes: Sequence[Node], dial: base.DialBack | None
    ) -> list[base.StartCommand]:
        """Return one command for each group of hosts with equal options."""
        self.read_config(_hosts(nodes))
        return self.shown(nodes)

    def shown(self, nodes: Sequence[Node]) -> list[base.StartCommand]:
        """Return the commands, from the known configuration."""
        alike: dict[tuple[object, ...], list[Host]] = {}
        for host in _hosts(nodes):
            options = (self._overrides.get(host.name), self._port(host), host.user)
            alike.setdefault(options, []).append(host)
        return [self._shown(hosts) for hosts in alike.values()]

    def _shown(self, hosts: Sequence[Host]) -> base.StartCommand:
        argv = self.argv(hosts[0])
        return base.StartCommand(argv, [host.name for host in hosts], len(argv) - 2)

    def argv(self, host: Host) -> list[str]:
        """Return the client's command; OpenSSH uses the first value of an option: the user's."""
        return [*self.client(host), "--", host.name, self._remote]

    def client(self, host: Host) -> list[str]:
        """Return the client and its options for one host."""
        port = self._port(host)
        return [
            "ssh",
            *self._overrides.get(host.name, ()),
            *self._settings.args,
            "-T",
            *self._options,
            *(["-p", str(port)] if port else []),
            *(["-l", host.user] if host.user else []),
        ]

    def _port(self, host: Host) -> int | None:
        return host.port or self._settings.port

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Do nothing: an early start saves no time."""

    def start(
        self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.DialBack | None
    ) -> None:
        """Start one client per node, each in a turn of the loop, so that signals are handled."""
        with suppress(UsageError):  # ssh reports it itself
            self.read_config(_hosts(nodes))
        self._turns = self._turns or Turns(loop)
        self._turns.add(partial(self._start_again, node, loop, emit) for node in nodes)

    def _start_again(self, node: Node, loop: Loop, emit: Emit) -> None:
        self._stop_former(node.rank)
        self._start(node, loop, emit, Retries(loop.clock))

    def close(self) -> None:
        """Stop the clients that still run, and start no more."""
        self._closed = True
        if self._turns is not None:
            self._turns.cancel()
        for child in self._children.values():
            _stop(child)

    def read_config(self, hosts: Sequence[Host]) -> None:
        """Read which options must come before the user's own for each host.

        Raises:
            UsageError: the configuration cannot be read.
        """
        port, args = self._settings.port, self._settings.args
        if config_reader.overrides(hosts, port, args):
            self._overrides |= {h.name: config_reader.overrides([h], port, args) for h in hosts}

    def _stop_former(self, rank: int) -> None:
        """Stop the client of a lost session: its host may never end it."""
        former = self._children.pop(rank, None)
        if former is not None:
            _stop(former)

    def _cause(self, code: int, errors: str, stream: SessionStream, node: Node) -> str:
        tried = causes.attempt(node.host, self._settings.python)
        noise, answered = stream.noise, stream.answered
        return causes.explain_session(code, errors, noise, tried, answered=answered)

    def _start(self, node: Node, loop: Loop, emit: Emit, tries: Retries) -> None:
        def on_end(code: int, errors: str) -> None:
            if self._children.get(node.rank) is not child:
                return  # the node is reached by another one now
            if code == 255 and causes.is_transient(errors) and tries.left():
                loop.call_later(tries.pause(), lambda: self._start(node, loop, emit, tries))
            else:
                emit(SessionEnded(node.rank, self._cause(code, errors, stream, node)))

        def on_errors(data: bytes) -> None:
            stream.errors = (stream.errors + data)[-KEPT:]
            key = causes.accepted_key(data.decode("utf-8", "replace"))
            if key:
                emit(BackendWarning(key))

        if self._closed:
            return
        try:
            child = Child(spawn(self.argv(node.host), os.environ), loop, on_end, on_errors)
        except OSError as error:
            emit(SessionEnded(node.rank, f"ssh: {reason(error)}"))
            return
        self._children[node.rank] = child
        stream = SessionStream(child.stdout, child.stdin, held=bool(self._settings.container))
        emit(SessionStarted(node.rank, stream))


def _stop(child: Child) -> None:
    """Stop a client, also one that SIGSTOP has suspended."""
    for number in (signal.SIGTERM, signal.SIGCONT):
        child.send_signal(number)


def _hosts(nodes: Sequence[Node]) -> list[Host]:
    return [node.host for node in nodes]


def _options(settings: BackendSettings) -> list[str]:
    values = {
        "BatchMode": "yes",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ConnectTimeout": str(max(1, math.ceil(settings.connect_timeout))),
        "ServerAliveInterval": str(max(1, math.ceil(settings.keepalive))),
        "ServerAliveCountMax": "3",
    }
    if settings.accept_new_host_keys:
        values["StrictHostKeyChecking"] = "accept-new"
    return [word for name, value in values.items() for word in ("-o", f"{name}={value}")]
