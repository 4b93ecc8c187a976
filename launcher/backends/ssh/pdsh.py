"""pdsh: one command for all hosts; the node launchers dial back.

pdsh carries neither exit codes of signals, nor long lines, nor the end of input, so its pipes serve
for two things only: a node launcher's token, and what ssh says of a host that cannot be reached.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal

from ...common import loop as loops
from ...control import auth
from .. import base, causes
from ..child import Child
from . import config_reader, retries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop
    from ...specs.plan import Node

FAN_OUT = 1024


class Pdsh:
    """Runs one `pdsh` for the whole job."""

    transport = "dial"

    def __init__(self, settings: base.Settings) -> None:
        self._settings = settings
        self._first: tuple[str, ...] = ()
        self._runs: list[_Run] = []

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why these nodes cannot be started this way, or ""."""
        if shutil.which("pdsh") is None:
            return "--launcher pdsh: no `pdsh` on PATH; install it, or use ssh or openssh"
        if base.lacks_tls():
            return f"--launcher pdsh: {base.lacks_tls()}, or use openssh"
        odd = [n.host for n in nodes if n.host.port not in {None, self._settings.port}]
        if odd:
            return (
                f"{odd[0].where or '--host'}: pdsh has no port for one host ({odd[0].name});"
                " put it into ~/.ssh/config, or use ssh or openssh"
            )
        if any(":" in node.host.name for node in nodes):
            return "pdsh takes no IPv6 address for a host; use ssh or openssh"
        args = shlex.split(os.environ.get("PDSH_SSH_ARGS_APPEND", ""))
        hosts = [node.host for node in nodes]
        config_reader.check(hosts, self._settings.port, args)
        self._first = config_reader.overrides(hosts, self._settings.port, args)
        return ""

    def commands(
        self, nodes: Sequence[Node], dial: base.Dial | None
    ) -> list[tuple[str, list[str]]]:
        """Return (host, argv): one command, which stands for every host."""
        argv = self.argv(nodes, dial)
        return [(node.host.name, argv) for node in nodes]

    def argv(self, nodes: Sequence[Node], dial: base.Dial | None) -> list[str]:
        """Return pdsh's command; it replaces %h by each host's name."""
        set_ = self._settings
        logins = [f"{n.host.user}@{n.host.name}" if n.host.user else n.host.name for n in nodes]
        remote = base.shell_line(base.node_argv(set_, *base.dial_args(dial, "%h")))
        return [
            "pdsh",
            *("-R", "ssh"),
            *("-f", str(min(len(nodes), FAN_OUT))),
            *("-t", str(max(1, round(set_.connect_timeout)))),
            *("-w", ",".join(logins)),
            *set_.args,
            remote,
        ]

    def environ(self) -> dict[str, str]:
        """Return pdsh's environment: what the user set for its ssh stays, and comes first."""
        set_ = self._settings
        ours = [
            *("-o", "BatchMode=yes"),
            *(("-o", "StrictHostKeyChecking=accept-new") if set_.accept_new_host_keys else ()),
            *(("-p", str(set_.port)) if set_.port else ()),
        ]
        theirs = os.environ.get("PDSH_SSH_ARGS_APPEND", "")
        first = shlex.join(self._first)
        appended = f"{first} {theirs} {shlex.join(ours)}".strip()
        return {**os.environ, "PDSH_RCMD_TYPE": "ssh", "PDSH_SSH_ARGS_APPEND": appended}

    def start(
        self, nodes: Sequence[Node], loop: Loop, reports: base.Reports, dial: base.Dial | None
    ) -> None:
        """Run pdsh for all hosts, and again for those whose sshd refused for the moment."""
        self._run(nodes, loop, reports, dial, _Patience(loop))

    def close(self) -> None:
        """End every pdsh and its clients, which it would leave behind."""
        for run in self._runs:
            run.close()

    def _run(
        self,
        nodes: Sequence[Node],
        loop: Loop,
        reports: base.Reports,
        dial: base.Dial | None,
        patience: _Patience,
    ) -> None:
        def again(dropped: Sequence[Node]) -> None:
            self._run(dropped, loop, reports, dial, patience)

        argv, environ = self.argv(nodes, dial), self.environ()
        try:
            self._runs.append(_Run(nodes, argv, environ, loop, reports, patience, again))
        except OSError as error:
            for node in nodes:
                reports.ended(node.rank, f"pdsh: {error.strerror}")


class _Patience:
    """How long hosts that drop connections are tried again, and how often they were."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._began = loop.clock()
        self._attempts = 0

    def left(self) -> bool:
        return self._loop.clock() - self._began < retries.LIMIT

    def pause(self) -> float:
        self._attempts += 1
        return retries.pause(self._attempts)


class _Run:
    """One pdsh, whose output is read for tokens and causes as it comes."""

    def __init__(
        self,
        nodes: Sequence[Node],
        argv: list[str],
        environ: dict[str, str],
        loop: Loop,
        reports: base.Reports,
        patience: _Patience,
        again: Callable[[Sequence[Node]], None],
    ) -> None:
        self._nodes = {node.host.name: node for node in nodes}
        self._loop = loop
        self._reports = reports
        self._patience = patience
        self._again = again
        self._dropped: list[Node] = []
        self._said: dict[str, str] = {}
        self._rest = {"out": b"", "err": b""}
        self._child = Child(argv, loop, self._ended, environ, self._read_errors)
        os.close(self._child.stdin)
        os.set_blocking(self._child.stdout, False)
        loop.watch(self._child.stdout, loops.READ, self._read_output)

    def close(self) -> None:
        """End pdsh and the clients it has started."""
        self._child.signal_children(signal.SIGTERM)
        self._child.send_signal(signal.SIGTERM)

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
                self._reports.token(*found)
            else:
                self._note(line)

    def _read_errors(self, data: bytes) -> None:
        for line in self._lines("err", data):
            self._note(line)

    def _lines(self, stream: str, data: bytes) -> list[str]:
        *whole, self._rest[stream] = (self._rest[stream] + data).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]

    def _note(self, line: str) -> None:
        """Take in one line of standard error: `host: text`, or pdsh's own word on a host's end."""
        own = line.startswith("pdsh@")
        host, _, text = (line.partition(": ")[2] if own else line).partition(": ")
        if host not in self._nodes:
            return
        if own and "exited with exit code" in text:
            self._host_ended(self._nodes[host], int(text.rpartition(" ")[2]))
        else:
            self._said[host] = f"{self._said.get(host, '')}{text}\n"[-4096:]
            if causes.new_key(text):
                self._reports.warned(causes.new_key(text))

    def _host_ended(self, node: Node, code: int) -> None:
        said = self._said.get(node.host.name, "")
        if causes.worth_another_try(said) and self._patience.left():
            if not self._dropped:
                self._loop.after(self._patience.pause(), self._try_again)
            self._dropped.append(node)
            return
        self._reports.ended(node.rank, causes.explain(code, said, node.host.name))

    def _try_again(self) -> None:
        dropped, self._dropped = self._dropped, []
        for node in dropped:
            del self._nodes[node.host.name]
        self._again(dropped)

    def _ended(self, code: int, errors: str) -> None:
        last = errors.strip().splitlines()[-1:] or [""]
        cause = f"pdsh ended with exit code {code}: {last[0][:200]}" if code else ""
        for node in self._nodes.values():
            if node not in self._dropped:
                self._reports.ended(node.rank, cause)
