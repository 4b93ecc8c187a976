"""Runs a command on hosts through the `ssh` program, and on this machine directly."""

from __future__ import annotations

import re
import resource
from collections import deque
from contextlib import suppress

from ...backends import causes
from ...backends.retries import Retries
from ...backends.ssh import config_reader
from ...backends.ssh.openssh import OpenSSH
from ...common import executable, files
from ...common.errors import UsageError, is_full, reason
from ...common.exit_codes import as_shell
from ...resources.source import is_here
from .runner_events import HostCommand, HostEnded, HostFailed, HostNote, HostOutput
from .runner_remote_shell import BOOT, pieces, remote_line
from .runner_shell_session import ShellSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop
    from ...specs.backend import BackendSettings
    from ...specs.host import Host
    from .runner_events import HostCommand, OnEvent

FAN_OUT = 256
"""Sessions at a time."""

SSH_FAILED = 255
"""The exit code of `ssh` itself (ssh(1)); a command may end with this code, too."""

LOST = re.compile(
    r"^(Connection (to|reset|closed)|client_loop:|Timeout, server|packet_write_wait:"
    r"|Received disconnect|.*Broken pipe)"
)
"""The beginning of `ssh`'s last line when an established connection ends."""

STOPPED = "stopped before the command began"
"""The cause for hosts that were not reached when the command was ended."""

NOT_READY = 1 << 62
"""The backlog while a host that reads input is not connected."""


class SshHosts:
    """The transport for hosts with an sshd; see `runner_events.Transport`."""

    def __init__(self, loop: Loop, hosts: Sequence[Host], settings: BackendSettings) -> None:
        """Prepare for these hosts.

        Raises:
            UsageError: there is no `ssh` program, or its configuration cannot be read.
        """
        self.hosts: Sequence[str] = [host.name for host in hosts]
        self.on_event: OnEvent = _nothing
        self.on_room: Callable[[], None] = _nothing
        self._loop = loop
        self._waiting = deque(hosts)
        self._sessions: dict[str, ShellSession] = {}
        self._clients = Clients(hosts, settings)
        self._command = HostCommand(())
        self._most = FAN_OUT
        self._paused = self._stopping = False

    def start(self, command: HostCommand) -> None:
        """Start the command on the first `FAN_OUT` hosts; the others follow as these end."""
        self._command = command
        if command.readers:
            self._most = len(self.hosts)  # input is sent to all at once
        allow_files()
        self._start_more()

    def send(self, data: bytes) -> None:
        """Send input to the hosts that read input."""
        made = pieces(data)  # once: all hosts share the memory
        for host in self._command.readers & self._sessions.keys():
            self._sessions[host].send(made)

    def backlog(self) -> int:
        """Return the number of bytes of input that the slowest host has not read."""
        waiting = {host.name for host in self._waiting} & self._command.readers
        reading = [self._sessions[host] for host in self._command.readers & self._sessions.keys()]
        if waiting or not all(session.began for session in reading):
            return NOT_READY
        return max((session.backlog for session in reading), default=0)

    def pause(self, paused: bool) -> None:
        """Stop reading the hosts' output, or continue."""
        self._paused = paused
        for session in self._sessions.values():
            session.pause(paused)

    def stop(self) -> None:
        """Stop all commands, and start no more."""
        self._stopping = True
        for session in self._sessions.values():
            session.close_input()
            if not session.began:
                session.kill()
        while self._waiting:
            self.on_event(HostFailed(self._waiting.popleft().name, STOPPED, began=False))

    def close(self) -> None:
        """End the open sessions; a shell then ends its command by itself."""
        for session in self._sessions.values():
            session.close_input()
            session.kill()

    def _start_more(self) -> None:
        while self._waiting and len(self._sessions) < self._most:
            self._start(self._waiting.popleft(), Retries(self._loop.clock))

    def _start(self, host: Host, tries: Retries) -> None:
        def on_data(stream: int, data: bytes) -> None:
            self.on_event(HostOutput(host.name, stream, data))

        def on_end(code: int) -> None:
            self._on_end(host, code, tries)

        command, argv = self._clients.placed(host, self._command), self._clients.argv(host)
        try:
            session = ShellSession(self._loop, argv, on_data, on_end, self._on_room)
        except OSError as error:
            if is_full(error) and self._sessions:
                self._most = len(self._sessions)
                self._waiting.appendleft(host)
            else:
                self.on_event(HostFailed(host.name, f"{argv[0]}: {reason(error)}", began=False))
            return
        self._sessions[host.name] = session
        session.pause(self._paused)
        session.start(command, reads=host.name in command.readers)

    def _on_room(self) -> None:
        self.on_room()

    def _on_end(self, host: Host, code: int, tries: Retries) -> None:
        """Report the end of a session, or try again after one that sshd has refused."""
        session = self._sessions[host.name]
        again = not (session.began or self._stopping) and self._clients.try_again(session.noise)
        if again and tries.left():
            self._loop.call_later(tries.pause(), lambda: self._retry(host, tries))
            return
        del self._sessions[host.name]
        if key := causes.accepted_key(session.noise):
            self.on_event(HostNote(host.name, key))
        self.on_event(self._outcome(host, session, code))
        self._start_more()
        self.on_room()

    def _retry(self, host: Host, tries: Retries) -> None:
        if self._stopping:
            self.on_event(HostFailed(host.name, STOPPED, began=False))
        else:
            self._start(host, tries)

    def _outcome(self, host: Host, session: ShellSession, code: int) -> HostEnded | HostFailed:
        if not session.began:
            cause = causes.explain(code, session.noise, causes.Attempt(host.name, "the command"))
            return HostFailed(host.name, STOPPED if self._stopping else cause, began=False)
        last = session.tail.decode("utf-8", "replace").strip().rpartition("\n")[2]
        if code == SSH_FAILED and LOST.match(last) and not self._clients.is_local(host):
            return HostFailed(host.name, f"the connection was lost: {last}", began=True)
        return HostEnded(host.name, as_shell(code))


def allow_files() -> None:
    """Let this process open as many files as it may: each session takes four descriptors."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _nothing(*_: object) -> None:
    """Do nothing."""


QUICK = {
    "KexAlgorithms": "^curve25519-sha256",
    "Ciphers": "^aes128-gcm@openssh.com",
    "PreferredAuthentications": "publickey,gssapi-with-mic,hostbased",
    "UpdateHostKeys": "no",
    "ControlMaster": "no",
}
"""Options that save time; all other algorithms, and logins without a prompt, stay possible."""

REFUSED = "Bad SSH2 "
"""The message of an `ssh` that is older than OpenSSH 8, or allows only certain algorithms."""


class Clients:
    """Makes the command line for each host."""

    def __init__(self, hosts: Sequence[Host], settings: BackendSettings) -> None:
        """Read the user's ssh configuration, if a host needs ssh.

        Raises:
            UsageError: there is no `ssh` program, or its configuration cannot be read.
        """
        self._everywhere = settings.force_multi
        self._openssh = OpenSSH(settings)
        self._quick: list[str] = []
        remote = [host for host in hosts if not self.is_local(host)]
        if remote:
            self._read_config(remote, settings)

    def _read_config(self, remote: Sequence[Host], settings: BackendSettings) -> None:
        if not executable.find("ssh"):
            raise UsageError("no `ssh` on PATH, but dsrun-exec needs it; install OpenSSH's client")
        config_reader.check(remote, settings.port, settings.args)
        self._openssh.read_config(remote)
        if any(word.startswith("-F") for word in settings.args):
            return  # a configuration file of the user's that is not read here
        chosen = config_reader.reader().keywords
        quick = {name: QUICK[name] for name in QUICK if name.lower() not in chosen}
        self._quick = [word for name in quick for word in ("-o", f"{name}={quick[name]}")]

    def is_local(self, host: Host) -> bool:
        """Return whether a host is this machine, and needs no ssh."""
        return is_here(host) and not self._everywhere

    def argv(self, host: Host) -> list[str]:
        """Return the process for a host."""
        if self.is_local(host):
            return ["sh", "-c", BOOT]
        return [*self._openssh.client(host), *self._quick, "--", host.name, remote_line()]

    def placed(self, host: Host, command: HostCommand) -> HostCommand:
        """Return the command for a host: as after a login, it runs in the home folder."""
        if command.workdir or not self.is_local(host):
            return command
        return command._replace(workdir=files.login_folder())

    def try_again(self, printed: str) -> bool:
        """Return whether another attempt may help, given what the client printed."""
        if self._quick and REFUSED in printed:
            self._quick = []
            return True
        return causes.is_transient(printed)
