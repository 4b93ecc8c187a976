"""The user's own `ssh`: everything their configuration can do, one client a node."""

from __future__ import annotations

import math
import os
import shutil
import signal
from contextlib import suppress

from ...common.errors import UsageError
from .. import base, causes
from ..child import Child
from ..stdio import SessionLine
from . import config_reader, retries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...common.loop import Loop
    from ...specs.host import Host
    from ...specs.plan import Node


class OpenSSH:
    """Starts one `ssh` client a node; its standard input and output are the line."""

    transport = "stdio"

    def __init__(self, settings: base.Settings) -> None:
        self._settings = settings
        self._first: dict[str, tuple[str, ...]] = {}
        self._children: dict[int, Child] = {}
        self._remote = base.shell_line(base.node_argv(settings, "--stdio"))
        self._options = _options(settings)

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why these nodes cannot be started this way, or ""."""
        if shutil.which("ssh") is None:
            return "--launcher openssh: no `ssh` on PATH; install OpenSSH's client, or use ssh"
        config_reader.check([node.host for node in nodes], self._settings.port, self._settings.args)
        return ""

    def commands(
        self, nodes: Sequence[Node], dial: base.Dial | None
    ) -> list[tuple[str, list[str]]]:
        """Return (host, argv) of every command this machine would run."""
        self._look(nodes)
        return [(node.host.name, self.argv(node.host)) for node in nodes]

    def argv(self, host: Host) -> list[str]:
        """Return the client's command; OpenSSH takes the first value of an option: the user's."""
        return [*self.client(host), "--", host.name, self._remote]

    def client(self, host: Host) -> list[str]:
        """Return the client and its options for one host."""
        port = host.port or self._settings.port
        return [
            "ssh",
            *self._first.get(host.name, ()),
            *self._settings.args,
            "-T",
            *self._options,
            *(["-p", str(port)] if port else []),
            *(["-l", host.user] if host.user else []),
        ]

    def start(
        self, nodes: Sequence[Node], loop: Loop, reports: base.Reports, dial: base.Dial | None
    ) -> None:
        """Start one client a node."""
        with suppress(UsageError):  # ssh will say so itself
            self._look(nodes)
        for node in nodes:
            self._start(node, loop, reports, 0, loop.clock())

    def close(self) -> None:
        """End the clients that are still there."""
        for child in self._children.values():
            child.send_signal(signal.SIGTERM)

    def _look(self, nodes: Sequence[Node]) -> None:
        """Find out which options have to stand before the user's own for each host."""
        port, args = self._settings.port, self._settings.args
        hosts = [node.host for node in nodes]
        if config_reader.overrides(hosts, port, args):
            self._first |= {h.name: config_reader.overrides([h], port, args) for h in hosts}

    def _start(
        self, node: Node, loop: Loop, reports: base.Reports, attempt: int, began: float
    ) -> None:
        def ended(code: int, errors: str) -> None:
            again = causes.worth_another_try(errors) and loop.clock() - began < retries.LIMIT
            if code == 255 and again:
                wait = retries.pause(attempt)
                loop.after(wait, lambda: self._start(node, loop, reports, attempt + 1, began))
                return
            if line.answered:
                reports.ended(node.rank, causes.explain_end(code, errors))
                return
            text = errors or line.noise.decode("utf-8", "replace")
            reports.ended(node.rank, causes.explain(code, text, node.host.name) if code else "")

        def heard(data: bytes) -> None:
            taken = causes.new_key(data.decode("utf-8", "replace"))
            if taken:
                reports.warned(taken)

        try:
            child = Child(self.argv(node.host), loop, ended, os.environ, heard)
        except OSError as error:
            reports.ended(node.rank, f"ssh: {error.strerror}")
            return
        self._children[node.rank] = child
        line = SessionLine(child.stdout, child.stdin)
        reports.line(node.rank, line)


def _options(settings: base.Settings) -> list[str]:
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
