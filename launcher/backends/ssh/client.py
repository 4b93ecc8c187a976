"""Opens ssh sessions with paramiko, and explains why one fails."""

from __future__ import annotations

import errno
import logging
import socket
import time

from ...common.errors import reason
from .. import causes
from ..causes import SessionFailed
from ..retries import Retries
from . import config_reader
from .config import ProxyJump, Unreadable, parse_jump, unsupported
from .keys import KeyFiles, Login
from .known_hosts import KnownHosts, Policy, changed
from .library import Channel, paramiko
from .proxy_command import ProxyCommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from ...specs.backend import BackendSettings
    from ...specs.host import Host
    from .config import HostConfig

    class Closable(Protocol):
        """A resource that a session opened besides its channel."""

        def close(self) -> None:
            """Release the object."""


__all__ = ["Channel", "SessionFailed", "SshSessions"]

AUTH_TIMEOUT = 60.0
"""Seconds for a login to be accepted: PAM or a home directory may be slow."""

BANNERS = (b"SSH-", b"Exceeded MaxStartups", b"Not allowed at this time")
"""The first bytes from sshd; the last two mean that it refuses temporarily (sshd.c)."""

FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
"""Values of AddressFamily; any other value allows both."""


class SshSessions:
    """Opens sessions; shared by all threads: configuration and keys are read once.

    Args:
        settings: the settings for reaching hosts.
        warn: called with the warning about a new host key that is accepted, in any thread.
    """

    def __init__(self, settings: BackendSettings, warn: Callable[[str], None]) -> None:
        # Failures are reported as causes; paramiko would also print tracebacks.
        logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
        self._settings = settings
        self._warn = warn
        self._reader = config_reader.reader()
        self._known = KnownHosts()
        self._keys = KeyFiles()
        self._opened: dict[Channel, list[Closable]] = {}

    def open(self, host: Host, command: str) -> Channel:
        """Return the channel of a session that runs `command`.

        Raises:
            SessionFailed: the session failed; the text is the cause.
        """
        tries = Retries(time.monotonic)
        while True:
            try:
                return self._open(host, command)
            except _Dropped as error:
                if not tries.left():
                    raise SessionFailed(f"its sshd dropped the connection ({error})") from None
            time.sleep(tries.pause())

    @property
    def used_agent(self) -> bool:
        """True if a host has accepted a key of the user's agent."""
        return self._keys.used_agent

    def close(self, channel: Channel) -> int:
        """Close a session that has ended; return its exit code, 255 without one."""
        channel.status_event.wait(1.0)
        code = channel.exit_status if channel.exit_status >= 0 else 255
        for resource in self._opened.pop(channel, []):
            resource.close()
        return code

    def _open(self, host: Host, command: str) -> Channel:
        opened: list[Closable] = []
        try:
            login = ProxyJump(host.name, host.user, host.port or self._settings.port)
            transport = self._connect(login, opened, ())
            transport.set_keepalive(max(1, round(self._settings.keepalive)))
            channel = transport.open_session(timeout=AUTH_TIMEOUT)
            channel.exec_command(command)
        except BaseException:
            for resource in opened:
                resource.close()
            raise
        self._opened[channel] = opened
        return channel

    def _connect(
        self, login: ProxyJump, opened: list[Closable], via: tuple[str, ...], over: str = ""
    ) -> paramiko.Transport:
        """Log in, through jump hosts, if any, and return the transport.

        Args:
            login: the host, and its user and port if given.
            opened: receives everything that must be closed at the end.
            via: the hosts that are reached through this one.
            over: jump hosts to use instead of the host's ProxyJump.
        """
        if login.name in via:
            loop = " -> ".join([*via[via.index(login.name) :], login.name])
            raise SessionFailed(
                f"ProxyJump forms a loop: {loop}; set 'ProxyJump none' for one of these hosts"
            )
        config = self._config(login)
        if over:
            config = config._replace(jumps=over, command="")
        sock = self._socket(config, opened, (*via, login.name))
        client = paramiko.SSHClient()
        opened += [client, sock]
        try:
            self._log_in(client, config, sock)
        except _Dropped as error:
            raise _proxy_failure(opened, error) from None
        transport = client.get_transport()
        assert transport is not None
        return transport

    def _config(self, login: ProxyJump) -> HostConfig:
        try:
            config = self._reader.lookup(*login)
        except Unreadable as error:
            raise SessionFailed(f"ssh configuration: {error}") from None
        problem = unsupported(config, config_reader.agent())
        if problem:
            raise SessionFailed(f"{problem}; use --launcher openssh")
        return config

    def _log_in(
        self, client: paramiko.SSHClient, config: HostConfig, sock: Channel | socket.socket
    ) -> None:
        address, port = config.address, config.port
        # With an alias or a jump host, paramiko must look up keys by name, not by socket.
        named = config.known_as or address
        shown = named if port == 22 or config.known_as else f"[{named}]:{port}"
        accept = self._settings.accept_new_host_keys
        policy = Policy(self._known, shown, config, accept, self._warn)
        client.set_missing_host_key_policy(policy)
        target = f"[{address}]:{port}" if port != 22 else address
        known = self._known.keys(shown, config.known_hosts)
        # OpenSSH also accepts a key that is known without the port (sshconnect.c).
        for kind, key in (known or self._known.keys(named, config.known_hosts)).items():
            client.get_host_keys().add(target, kind, key)
        began, banner = time.monotonic(), b""
        try:
            banner = self._banner(sock)
            client.connect(
                address,
                port,
                config.user,
                sock=sock,
                timeout=AUTH_TIMEOUT,
                banner_timeout=self._settings.connect_timeout,
                auth_timeout=AUTH_TIMEOUT,
                auth_strategy=Login(self._keys, config),
            )
        except paramiko.BadHostKeyException as error:
            raise (
                changed(error.key, address, port) if known else policy.refusal(error.key)
            ) from None
        except (EOFError, OSError, paramiko.SSHException) as error:
            if time.monotonic() - began >= self._settings.connect_timeout:
                raise SessionFailed(f"its sshd did not answer ({address}:{port})") from None
            if not banner.startswith(BANNERS):
                raise SessionFailed(
                    f"no sshd at {address}:{port}: it answers {_printable(banner)}"
                ) from None
            raise _failure(error, address, port) from None

    def _banner(self, sock: Channel | socket.socket) -> bytes:
        """Return the first bytes that sshd sends, without consuming them.

        Raises:
            OSError: sshd sends nothing in time, or resets the connection.
            _Dropped: it closes the connection without sending anything.
        """
        if not isinstance(sock, socket.socket):
            return BANNERS[0]
        sock.settimeout(self._settings.connect_timeout)
        first = sock.recv(64, socket.MSG_PEEK)
        if not first:
            raise _Dropped("connection closed")
        return first

    def _socket(
        self, config: HostConfig, opened: list[Closable], via: tuple[str, ...]
    ) -> Channel | socket.socket:
        """Return the way to a host: ProxyCommand's socket, a channel of the jump host, or TCP."""
        if config.command:
            command = ProxyCommand(config.command)
            opened.append(command)
            return command.socket
        if config.jumps:
            return self._jump(config, opened, via)
        try:
            return self._connect_tcp(config)
        except OSError as error:
            raise _failure(error, config.address, config.port) from None

    def _connect_tcp(self, config: HostConfig) -> socket.socket:
        """Connect to the first address of a host that answers.

        Raises:
            OSError: no address answers; the error of the last one.
        """
        family = FAMILIES.get(config.family, socket.AF_UNSPEC)
        infos = socket.getaddrinfo(config.address, config.port, family, socket.SOCK_STREAM)
        for last, (*kind, _, place) in enumerate(infos, 1 - len(infos)):
            sock = socket.socket(*kind)
            sock.settimeout(self._settings.connect_timeout)
            try:
                sock.connect(place)
            except OSError:
                sock.close()
                if not last:
                    raise
            else:
                return sock
        raise AssertionError("getaddrinfo returns at least one address")

    def _jump(self, config: HostConfig, opened: list[Closable], via: tuple[str, ...]) -> Channel:
        """Log in to the last jump host, and open a connection from it.

        Several jump hosts are written as `a,b`: b is reached through a, its own ProxyJump.
        """
        over, _, last = config.jumps.rpartition(",")
        try:
            jump = parse_jump(last)
        except Unreadable as error:
            raise SessionFailed(f"ssh configuration: {error}") from None
        try:
            transport = self._connect(jump, opened, via, over)
        except SessionFailed as error:
            raise SessionFailed(f"jump host {jump.name}: {error}") from None
        place = (config.address, config.port)
        timeout = self._settings.connect_timeout
        try:
            return transport.open_channel("direct-tcpip", place, ("", 0), timeout=timeout)
        except paramiko.SSHException as error:
            raise SessionFailed(f"jump host {jump.name} cannot reach it: {error}") from None


def _proxy_failure(opened: Sequence[Closable], dropped: _Dropped) -> Exception:
    """Return the exception for a dropped connection: why its ProxyCommand failed, if it did."""
    why = next((one.failure() for one in opened if isinstance(one, ProxyCommand)), "")
    if not why or causes.is_transient(why):
        return dropped
    return SessionFailed(f"its ProxyCommand failed: {why}")


def _printable(data: bytes) -> str:
    """Return the beginning of foreign bytes, printable and in quotes."""
    return repr(data.splitlines()[0].decode("utf-8", "backslashreplace")[:40])


class _Dropped(Exception):
    """sshd closed the connection before the login: worth another try (MaxStartups)."""


def _failure(error: Exception, address: str, port: int) -> Exception:
    if isinstance(error, (EOFError, ConnectionResetError)) or "protocol banner" in str(error):
        return _Dropped(str(error) or "connection closed")
    words = next((text for kind, text in _FAILURES if isinstance(error, kind)), "{error} ({where})")
    if isinstance(error, OSError) and error.errno in {errno.EHOSTUNREACH, errno.ENETUNREACH}:
        words = f"{causes.NO_ROUTE} ({{where}})"
    why = reason(error) if isinstance(error, OSError) else error
    return SessionFailed(words.format(error=why, where=f"{address}:{port}"))


_FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (socket.gaierror, "its name does not resolve ({where}: {error})"),
    (TimeoutError, "no answer: the connection timed out ({where})"),
    (ConnectionRefusedError, "connection refused: no sshd on that port ({where})"),
)
"""Exceptions and their meanings; the first that matches decides."""
