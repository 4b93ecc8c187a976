"""pdsh: one command for all hosts; the node launchers dial back.

pdsh does not pass on exit codes of signals, long lines or the end of input. Its pipes carry only
two things: a node launcher's token, and ssh's output about a host that cannot be reached. Its
labels (`n1: `) show which host printed a line.
"""

from __future__ import annotations

import os
import shlex
import signal

from ...common import executable
from ...common.errors import reason
from ...common.packages import lacks_tls
from ...common.records import NamedTuple
from .. import base, causes, retries
from ..child import signal_all
from ..dial_command import DialCommand, unlabelled
from ..events import (
    BackendWarning,
    SessionEnded,
    SessionOutput,
    SessionsBegun,
    TokenAnnounced,
)
from ..package.command import remote_argv
from . import config_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ...common.loop import Loop
    from ...specs.backend import BackendSettings
    from ...specs.plan import Node
    from ..events import Emit

FAN_OUT = 1024

LABEL = r"([^\s:]+):(?: |$)"
"""A pattern for pdsh's text before each line of a host, and before its own: `pdsh@login: `."""


class Pdsh:
    """Runs one `pdsh` for the whole job."""

    transport = "dial"

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._first: tuple[str, ...] = ()
        self._runs: list[_Run] = []
        self._closed = False

    @property
    def python(self) -> str:
        """The interpreter of the node launchers."""
        return self._settings.python

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why it cannot start these nodes, or ""."""
        if not executable.find("pdsh"):
            return (
                "--launcher pdsh: no `pdsh` on PATH; install it, or use --launcher ssh or openssh"
            )
        if lacks_tls():
            return f"--launcher pdsh: {lacks_tls()}, or use --launcher openssh"
        odd = [n.host for n in nodes if n.host.port not in {None, self._settings.port}]
        if odd:
            return (
                f"{odd[0].where or '--host'}: pdsh cannot use a separate port for {odd[0].name};"
                " set it in ~/.ssh/config, or use --launcher ssh or openssh"
            )
        ipv6 = next((node.host.name for node in nodes if ":" in node.host.name), "")
        if ipv6:
            return f"--launcher pdsh: IPv6 address {ipv6}; use a host name, or --launcher ssh"
        args = shlex.split(os.environ.get("PDSH_SSH_ARGS_APPEND", ""))
        hosts = [node.host for node in nodes]
        config_reader.check(hosts, self._settings.port, args)
        self._first = config_reader.overrides(hosts, self._settings.port, args)
        return ""

    def commands(
        self, nodes: Sequence[Node], dial: base.DialBack | None
    ) -> list[base.StartCommand]:
        """Return one command for all hosts, or several if two hosts have equal labels."""
        groups = _told_apart(nodes)
        return [
            base.StartCommand(self.argv(one, dial), [n.host.name for n in one]) for one in groups
        ]

    def argv(self, nodes: Sequence[Node], dial: base.DialBack | None) -> list[str]:
        """Return pdsh's command; pdsh replaces %h with the name of each host."""
        settings = self._settings
        logins = [f"{n.host.user}@{n.host.name}" if n.host.user else n.host.name for n in nodes]
        remote = base.shell_line(remote_argv(settings, *_dial_args(dial, "%h")))
        return [
            "pdsh",
            *("-R", "ssh"),
            *("-f", str(min(len(nodes), FAN_OUT))),
            *("-t", str(max(1, round(settings.connect_timeout)))),
            *("-w", ",".join(logins)),
            *settings.args,
            remote,
        ]

    def environ(self) -> dict[str, str]:
        """Return pdsh's environment; the user's options for its ssh are kept, and come first."""
        settings = self._settings
        ours = [
            *("-o", "BatchMode=yes"),
            *(("-o", "StrictHostKeyChecking=accept-new") if settings.accept_new_host_keys else ()),
            *(("-p", str(settings.port)) if settings.port else ()),
        ]
        theirs = os.environ.get("PDSH_SSH_ARGS_APPEND", "")
        first = shlex.join(self._first)
        appended = f"{first} {theirs} {shlex.join(ours)}".strip()
        ssh = {"PDSH_RCMD_TYPE": "ssh", "PDSH_SSH_ARGS_APPEND": appended}
        return {**os.environ, **executable.own_path(), **ssh}

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Do nothing: an early start saves no time."""

    def start(
        self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.DialBack | None
    ) -> None:
        """Run pdsh for all hosts, and again for those whose sshd refused for the moment."""
        for run in self._runs:
            run.release([node.rank for node in nodes])
        begun = _Start(loop, emit, dial, retries.Retries(loop.clock))
        for group in _told_apart(nodes):
            self.run(group, begun)

    def run(self, nodes: Sequence[Node], start: _Start) -> None:
        """Run pdsh once, unless this is closed."""
        if self._closed:
            return
        try:
            self._runs.append(_Run(self, nodes, start))
        except OSError as error:
            for node in nodes:
                start.emit(SessionEnded(node.rank, f"pdsh: {reason(error)}"))

    def close(self) -> None:
        """Stop every pdsh and its ssh clients, which would otherwise run on; start no more."""
        self._closed = True
        for run in self._runs:
            run.close()


def _dial_args(dial: base.DialBack | None, node: str) -> list[str]:
    """Return the node launcher's arguments for dialling back as `node`."""
    target, pin = (dial.target, dial.pin) if dial else ("ADDRESS:PORT", "SHA256")
    return [f"--dial={target}", f"--pin={pin}", f"--node={node}"]


class _Start(NamedTuple):
    """The common part of all runs of one start."""

    loop: Loop
    emit: Emit
    dial: base.DialBack | None
    retries: retries.Retries


class _Run:
    """One pdsh, whose output is read for tokens and causes as it arrives."""

    def __init__(self, pdsh: Pdsh, nodes: Sequence[Node], start: _Start) -> None:
        self._pdsh = pdsh
        self._labels = _by_label(nodes)
        self._open = {node.rank: node for node in nodes}
        self._announced: set[int] = set()
        self._start = start
        self._dropped: list[Node] = []
        self._messages: dict[int, str] = {}
        argv = pdsh.argv(nodes, start.dial)
        self._child = DialCommand(argv, pdsh.environ(), start.loop, self, LABEL).child
        start.emit(SessionsBegun(tuple(self._open)))

    def close(self) -> None:
        """End pdsh and the clients it has started, also those that SIGSTOP has suspended."""
        for number in (signal.SIGTERM, signal.SIGCONT):
            signal_all(self._child.open_children(), number)
            self._child.send_signal(number)

    def release(self, ranks: Collection[int]) -> None:
        """Leave these nodes to another run; stop pdsh if it has no others.

        The host of a lost session may never end it.
        """
        self._dropped = [node for node in self._dropped if node.rank not in ranks]
        forgotten = [rank for rank in ranks if self._open.pop(rank, None) is not None]
        if forgotten and not self._open:
            self.close()

    def on_token(self, speaker: str, node: str, token: str) -> None:
        """Emit a token."""
        if speaker in self._labels:
            self._announced.add(self._labels[speaker].rank)
            self._start.emit(TokenAnnounced(self._labels[speaker].rank, node, token))

    def on_unlabelled(self) -> None:
        """Warn of output without labels."""
        self._start.emit(BackendWarning(unlabelled("pdsh")))

    def on_line(self, speaker: str, text: str) -> None:
        """Keep the output of a host; pdsh's own lines name a host, and have its exit code."""
        own = speaker.startswith("pdsh@")
        host, _, text = text.partition(": ") if own else (speaker, "", text)
        node = self._labels.get(host)
        if node is None or node.rank not in self._open:
            return
        if own and "exited with exit code" in text:
            self._on_host_end(node, int(text.rpartition(" ")[2]))
        else:
            self._start.emit(SessionOutput(node.rank, text))
            self._messages[node.rank] = f"{self._messages.get(node.rank, '')}{text}\n"[-4096:]
            if causes.accepted_key(text):
                self._start.emit(BackendWarning(causes.accepted_key(text)))

    def on_end(self, code: int, errors: str) -> None:
        """Report the end of every session that is still open."""
        last = errors.strip().splitlines()[-1:] or [""]
        cause = f"pdsh ended with exit code {code}: {last[0][:200]}" if code else ""
        for node in self._open.values():
            if node not in self._dropped:
                self._start.emit(SessionEnded(node.rank, cause or self._without_token(node)))

    def _without_token(self, node: Node) -> str:
        """Describe a program that ran instead of a node launcher, and exited with 0; or ""."""
        silent = node.rank in self._announced or node.rank not in self._messages
        return "" if silent else self._explain(node, 0)

    def _explain(self, node: Node, code: int) -> str:
        tried = causes.attempt(node.host, self._pdsh.python)
        return causes.explain(code, self._messages.get(node.rank, ""), tried)

    def _on_host_end(self, node: Node, code: int) -> None:
        printed = self._messages.get(node.rank, "")
        if causes.is_transient(printed) and self._start.retries.left():
            if not self._dropped:
                self._start.loop.call_later(self._start.retries.pause(), self._try_again)
            self._dropped.append(node)
            return
        del self._open[node.rank]
        self._start.emit(SessionEnded(node.rank, self._explain(node, code)))

    def _try_again(self) -> None:
        dropped, self._dropped = self._dropped, []
        for node in dropped:
            del self._open[node.rank]
        if dropped:
            self._pdsh.run(dropped, self._start)


def _by_label(nodes: Sequence[Node]) -> dict[str, Node]:
    """Return the nodes by pdsh's labels for them: it cuts domains off, unless they differ."""
    short = {_short(node): node for node in nodes}
    return short | {node.host.name: node for node in nodes}


def _told_apart(nodes: Sequence[Node]) -> list[list[Node]]:
    """Return the nodes in groups, mostly one, within which labels are unique."""
    groups: list[dict[str, Node]] = []
    for node in nodes:
        group = next((one for one in groups if _short(node) not in one), None)
        if group is None:
            groups.append(group := {})
        group[_short(node)] = node
    return [[*group.values()] for group in groups]


def _short(node: Node) -> str:
    name, _, domain = node.host.name.partition(".")
    return f"{name}.{domain}" if name.isdigit() else name
