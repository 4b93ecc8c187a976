"""One ssh session through paramiko, and the reason in words when there is none."""

from __future__ import annotations

import base64
import getpass
import hashlib
import logging
import os
import socket
import threading
import time

import paramiko
from paramiko import Channel

from . import retries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..resources.host import Host
    from .base import Settings

__all__ = ["Channel", "Dialer", "Refused"]

AUTH_TIMEOUT = 60.0
"""Seconds for a login to be accepted: slow, not lost, where PAM or a home directory is slow."""


class Refused(Exception):
    """No session; the text is the cause."""


class Dialer:
    """Opens sessions; one for all threads, so that configuration and keys are read once."""

    def __init__(self, settings: Settings) -> None:
        # What is worth telling is told as a cause; paramiko would print tracebacks.
        logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
        self._settings = settings
        self._config = _read_config()
        self._known = _KnownHosts()
        self._clients: dict[Channel, list[paramiko.SSHClient]] = {}

    def open(self, host: Host, command: str) -> Channel:
        """Return the channel of a session that runs `command`.

        Raises:
            Refused: with the cause in words.
        """
        began = time.monotonic()
        attempt = 0
        while True:
            try:
                return self._open(host, command)
            except _Dropped as error:
                if time.monotonic() - began > retries.LIMIT:
                    raise Refused(f"its sshd dropped the connection ({error})") from None
            time.sleep(retries.pause(attempt))
            attempt += 1

    def close(self, channel: Channel) -> int:
        """Close a session that has ended; returns its exit code, 255 when none was told."""
        channel.status_event.wait(1.0)
        code = channel.exit_status if channel.exit_status >= 0 else 255
        for client in self._clients.pop(channel, []):
            client.close()
        return code

    def _open(self, host: Host, command: str) -> Channel:
        clients: list[paramiko.SSHClient] = []
        try:
            client = self._connect(host.name, host.user, host.port or self._settings.port, clients)
            transport = client.get_transport()
            assert transport is not None
            transport.set_keepalive(max(1, round(self._settings.keepalive)))
            channel = transport.open_session(timeout=AUTH_TIMEOUT)
            channel.exec_command(command)
        except BaseException:
            for one in clients:
                one.close()
            raise
        self._clients[channel] = clients
        return channel

    def _connect(
        self, name: str, user: str | None, port: int | None, clients: list[paramiko.SSHClient]
    ) -> paramiko.SSHClient:
        """Return a client logged in to `name`, through its jump hosts; adds all to `clients`."""
        found = self._config.lookup(name)
        address = found.get("hostname", name)
        number = port or int(found.get("port", 22))
        login = user or found.get("user") or getpass.getuser()
        sock = self._way(found, address, number, clients)
        client = paramiko.SSHClient()
        clients.append(client)
        alias = found.get("hostkeyalias", address)
        # With an alias or a jump, paramiko must look keys up under the name, not the socket.
        shown = alias if number == 22 or "hostkeyalias" in found else f"[{alias}]:{number}"
        policy = _Policy(self._known, shown, found, self._settings.accept_new_host_keys)
        client.set_missing_host_key_policy(policy)
        target = f"[{address}]:{number}" if number != 22 else address
        known = self._known.keys(shown, found)
        # OpenSSH, too, takes a key that is known without the port (sshconnect.c).
        for kind, key in (known or self._known.keys(alias, found)).items():
            client.get_host_keys().add(target, kind, key)
        keys: Any = [os.path.expanduser(one) for one in found.get("identityfile", [])]
        try:
            client.connect(
                address,
                number,
                login,
                sock=sock,
                key_filename=keys,
                allow_agent=found.get("identitiesonly", "no") != "yes",
                look_for_keys="identityfile" not in found,
                timeout=self._settings.connect_timeout,
                banner_timeout=self._settings.connect_timeout,
                auth_timeout=AUTH_TIMEOUT,
            )
        except paramiko.BadHostKeyException as error:
            raise (
                _changed(error, address, number) if known else policy.refusal(error.key)
            ) from None
        except Exception as error:
            raise _in_words(error, address, number, login) from None
        return client

    def _way(
        self,
        found: paramiko.SSHConfigDict,
        address: str,
        port: int,
        clients: list[paramiko.SSHClient],
    ) -> paramiko.ProxyCommand | Channel | socket.socket:
        """Return what leads to a host: ProxyCommand's pipes, a channel of the jump host, or TCP."""
        command = found.get("proxycommand", "none")
        if command != "none":
            return paramiko.ProxyCommand(command)
        jumps = found.get("proxyjump", "none")
        if jumps != "none":
            return self._jump(jumps, address, port, clients)
        try:
            return socket.create_connection((address, port), self._settings.connect_timeout)
        except OSError as error:
            raise _in_words(error, address, port, "") from None

    def _jump(
        self, jumps: str, address: str, port: int, clients: list[paramiko.SSHClient]
    ) -> Channel:
        """Log in to the last of the jump hosts, and have it connect on.

        More than one jump is written as `a,b`: the way to b leads over a, as b's own ProxyJump.
        """
        last = jumps.rpartition(",")[2].strip()
        user, _, rest = last.rpartition("@")
        name, _, number = rest.partition(":")
        jump = self._connect(name, user or None, int(number) if number else None, clients)
        transport = jump.get_transport()
        assert transport is not None
        try:
            return transport.open_channel(
                "direct-tcpip", (address, port), ("", 0), timeout=self._settings.connect_timeout
            )
        except paramiko.SSHException as error:
            raise Refused(f"jump host {name} cannot reach it: {error}") from None


class _Dropped(Exception):
    """sshd closed the connection before the login: worth another try (MaxStartups)."""


def _in_words(error: Exception, address: str, port: int, login: str) -> Exception:
    """Return what to raise for an exception of a connection attempt."""
    if isinstance(error, (Refused, _Dropped)):
        return error
    if isinstance(error, (EOFError, ConnectionResetError)) or "banner" in str(error):
        return _Dropped(str(error) or "connection closed")
    if isinstance(error, paramiko.SSHException) and "No existing session" in str(error):
        return _Dropped(str(error))
    if "No authentication methods" in str(error):
        return Refused(
            f"authentication failed for {login}: no key to offer"
            " (IdentityFile, ~/.ssh/id_*, or an agent)"
        )
    words = next((say for kind, say in _WORDS if isinstance(error, kind)), "{error} ({where})")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return Refused(words.format(error=reason, where=f"{address}:{port}", login=login))


def _changed(error: paramiko.BadHostKeyException, address: str, port: int) -> Refused:
    return Refused(
        f"its host key has CHANGED (now {_print(error.key)}): not the host it was, or"
        f" reinstalled; ssh-keygen -R {_target(address, port)} forgets the old one"
    )


_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (socket.gaierror, "its name does not resolve ({where}: {error})"),
    (TimeoutError, "no answer: connecting timed out ({where})"),
    (ConnectionRefusedError, "connection refused: no sshd on that port ({where})"),
    (
        paramiko.PasswordRequiredException,
        "authentication failed for {login}: its key has a passphrase; ssh-add it",
    ),
    (
        paramiko.AuthenticationException,
        "authentication failed for {login}: no key it accepts ({error})",
    ),
)
"""What an exception means, in words, in the order in which they decide."""


def _target(address: str, port: int) -> str:
    return address if port == 22 else f"'[{address}]:{port}'"


def _print(key: paramiko.PKey) -> str:
    """Return a key's type and fingerprint as `ssh-keygen -l` writes it."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


def _read_config() -> paramiko.SSHConfig:
    config = paramiko.SSHConfig()
    for path in ("~/.ssh/config", "/etc/ssh/ssh_config"):
        try:
            with open(os.path.expanduser(path), encoding="utf-8") as file:
                config.parse(file)
        except OSError:
            continue
        except paramiko.ConfigParseError as error:
            raise Refused(f"{path}: {error}") from None
    return config


class _KnownHosts:
    """The known_hosts files, each read once, whichever thread asks first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[paramiko.HostKeys, frozenset[str]]] = {}

    def keys(self, name: str, found: paramiko.SSHConfigDict) -> dict[str, paramiko.PKey]:
        """Return the keys known for a name, by type, without revoked ones."""
        keys: dict[str, paramiko.PKey] = {}
        for path in self.paths(found):
            known, revoked = self._read(path)
            for kind, key in (known.lookup(name) or {}).items():
                if key.get_base64() not in revoked:
                    keys.setdefault(kind, key)
        return keys

    def revoked(self, key: paramiko.PKey, found: paramiko.SSHConfigDict) -> bool:
        """Tell whether a key is marked @revoked in any of the files."""
        return any(key.get_base64() in self._read(path)[1] for path in self.paths(found))

    def paths(self, found: paramiko.SSHConfigDict) -> list[str]:
        """Return the files in OpenSSH's order, the user's own first."""
        own = found.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
        return [os.path.expanduser(path) for path in [*own.split(), "/etc/ssh/ssh_known_hosts"]]

    def add(self, path: str, name: str, key: paramiko.PKey) -> None:
        """Append a key to a file; nothing that is there is touched."""
        with self._lock:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path, "a", encoding="ascii") as file:
                file.write(f"{name} {key.get_name()} {key.get_base64()}\n")

    def _read(self, path: str) -> tuple[paramiko.HostKeys, frozenset[str]]:
        with self._lock:
            if path not in self._files:
                self._files[path] = _parse(path)
            return self._files[path]


def _parse(path: str) -> tuple[paramiko.HostKeys, frozenset[str]]:
    """Return a file's keys, and its @revoked ones (paramiko knows no markers)."""
    keys = paramiko.HostKeys()
    revoked = set()
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return keys, frozenset()
    for line in lines:
        words = line.split()
        if words[:1] == ["@revoked"] and len(words) > 3:
            revoked.add(words[3])
        elif words and words[0][0] not in "#@":
            _add(keys, line)
    return keys, frozenset(revoked)


def _add(keys: paramiko.HostKeys, line: str) -> None:
    """Add one line's key under every name of it; a line that is no key is passed over."""
    try:
        entry = paramiko.hostkeys.HostKeyEntry.from_line(line)
    except (paramiko.SSHException, paramiko.hostkeys.InvalidHostKey):
        return
    if entry is not None and entry.key is not None:
        for name in entry.hostnames or ():
            keys.add(name, entry.key.get_name(), entry.key)


class _Policy(paramiko.MissingHostKeyPolicy):
    """Refuses a host whose key is not known, with its fingerprint and what would accept it."""

    def __init__(
        self, known: _KnownHosts, name: str, found: paramiko.SSHConfigDict, accept: bool
    ) -> None:
        self._known = known
        self._name = name
        self._found = found
        self._accept = accept

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Decide on a key that no file holds; called by paramiko before any login."""
        if self._known.revoked(key, self._found):
            raise Refused(f"its host key is marked @revoked ({_print(key)}): do not trust it")
        if not self._accept:
            raise self.refusal(key)
        self._known.add(self._known.paths(self._found)[0], self._name, key)

    def refusal(self, key: paramiko.PKey) -> Refused:
        """Return the refusal of a key that is not known, with what would accept it."""
        host, _, port = self._name.strip("[").partition("]:")
        scan = f"ssh-keyscan {f'-p {port} ' if port else ''}{host} >> ~/.ssh/known_hosts"
        return Refused(
            f"unknown host key {_print(key)}; if that is its key: {scan}"
            " (or --accept_new_host_keys)"
        )
