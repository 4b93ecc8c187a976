"""Hosts that a test plays to an execution, and an `ssh` that runs everything on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.exec.runner_events import (
    HostCommand,
    HostEnded,
    HostFailed,
    HostOutput,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dsrun.launcher.features.exec.runner_events import HostEvent


class FakeHosts:
    """A transport; the test says what each host does.

    Attributes:
        sent: the pieces of input so far.
        waiting: what `backlog` returns.
        said: what it was told beside the input, in order.
    """

    def __init__(self, *hosts: str) -> None:
        self.hosts: Sequence[str] = hosts
        self.on_event: Callable[[HostEvent], None] = lambda _: None
        self.on_room: Callable[[], None] = lambda: None
        self.sent: list[bytes] = []
        self.waiting = 0
        self.said: list[str] = []
        self.command = HostCommand(())

    def start(self, command: HostCommand) -> None:
        self.command = command
        self.said.append("start")

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def backlog(self) -> int:
        return self.waiting

    def pause(self, paused: bool) -> None:
        self.said.append("pause" if paused else "continue")

    def stop(self) -> None:
        self.said.append("stop")

    def close(self) -> None:
        self.said.append("close")

    def output(self, host: str, data: bytes, stream: int = 1) -> None:
        """Let a host write."""
        self.on_event(HostOutput(host, stream, data))

    def end(self, host: str, code: int = 0) -> None:
        """Let the command end on a host."""
        self.on_event(HostEnded(host, code))

    def fail(self, host: str, cause: str, *, began: bool = False) -> None:
        """Let a host be unreachable or, once the command has begun, lost."""
        self.on_event(HostFailed(host, cause, began))


SSH = """#!/bin/sh
[ "$1" = -V ] && exit
for word; do [ "$last" = -- ] && host=$word; last=$word; done
printf '%%s\\n' "$*" >> %(log)s
case $host in
    down) echo "ssh: connect to host down port 22: Connection refused" >&2; exit 255;;
    busy) [ -e %(log)s.busy ] || { >%(log)s.busy
        echo "kex_exchange_identification: Connection closed by remote host" >&2; exit 255; };;
    old) case $* in *Kex*) echo "command-line line 0: Bad SSH2 KexAlgorithms '^c'." >&2; exit 255;;
        esac;;
    cut) sh -c "$last"; echo "client_loop: send disconnect: Broken pipe" >&2; exit 255;;
    noisy) echo Welcome; echo "motd" >&2;;
    new) echo "Warning: Permanently added 'new' (ED25519) to the list of known hosts." >&2;;
esac
exec sh -c "$last"
"""


def fake_ssh(folder: Path) -> Path:
    """Make an `ssh` in a folder; return the file to which it writes its arguments.

    It does what the host's name says: `down` refuses, `busy` refuses once, `old` does not know
    our key exchange, `cut` is lost at the end, `noisy` prints first, `new` has a new key.
    """
    log = folder / "ssh.log"
    script = folder / "ssh"
    script.write_text(SSH % {"log": log})
    script.chmod(0o755)
    return log
