"""The host keys in the user's known_hosts files, and the policy for unknown keys."""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
import threading

from ...common.errors import reason
from ..causes import SessionFailed
from .library import paramiko

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .config import HostConfig


class KnownHosts:
    """The known_hosts files; each is read once for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[paramiko.HostKeys, frozenset[str]]] = {}

    def keys(self, name: str, files: Sequence[str]) -> dict[str, paramiko.PKey]:
        """Return the keys known for a name, by type, without revoked ones."""
        keys: dict[str, paramiko.PKey] = {}
        for path in files:
            known, revoked = self._read(path)
            for kind, key in (known.lookup(name) or {}).items():
                if key.get_base64() not in revoked:
                    keys.setdefault(kind, key)
        return keys

    def revoked(self, key: paramiko.PKey, files: Sequence[str]) -> bool:
        """Return whether a key is marked @revoked in any of the files."""
        return any(key.get_base64() in self._read(path)[1] for path in files)

    def add(self, path: str, name: str, key: paramiko.PKey) -> None:
        """Append a key to a file.

        Raises:
            SessionFailed: it cannot be written.
        """
        try:
            with self._lock:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                with open(path, "a", encoding="ascii") as file:
                    file.write(f"{name} {key.get_name()} {key.get_base64()}\n")
        except OSError as error:
            raise SessionFailed(
                f"its new host key cannot be saved in {path}: {reason(error)}"
            ) from None

    def _read(self, path: str) -> tuple[paramiko.HostKeys, frozenset[str]]:
        with self._lock:
            if path not in self._files:
                self._files[path] = _parse(path)
            return self._files[path]


def _parse(path: str) -> tuple[paramiko.HostKeys, frozenset[str]]:
    """Return a file's keys, and its @revoked ones (paramiko does not support markers)."""
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
    """Add the key of a line under each of its names; skip a line without a key."""
    try:
        entry = paramiko.hostkeys.HostKeyEntry.from_line(line)
    except (paramiko.SSHException, paramiko.hostkeys.InvalidHostKey):
        return
    if entry is not None and entry.key is not None:
        for name in entry.hostnames or ():
            keys.add(name, entry.key.get_name(), entry.key)


class Policy(paramiko.MissingHostKeyPolicy):
    """Handles an unknown host key: refuses it, unless new keys are accepted.

    Args:
        known: the known_hosts files.
        name: the host's name in them.
        config: the host's configuration.
        accept: whether to accept new keys, whatever the configuration (--accept_new_host_keys).
        warn: called with the warning about a key that is accepted.
    """

    def __init__(
        self,
        known: KnownHosts,
        name: str,
        config: HostConfig,
        accept: bool,
        warn: Callable[[str], None],
    ) -> None:
        self._known = known
        self._name = name
        self._config = config
        self._accept = accept
        self._warn = warn

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Accept or refuse a key that is in no file; paramiko calls this before the login."""
        if self._known.revoked(key, self._config.known_hosts):
            raise SessionFailed(
                f"its host key is marked @revoked ({fingerprint(key)}): do not trust it"
            )
        if not (self._accept or self._config.accepts_new_keys):
            raise self.refusal(key)
        self._known.add(self._config.known_hosts[0], self._name, key)
        why = "--accept_new_host_keys" if self._accept else "StrictHostKeyChecking"
        self._warn(f"{self._name}: accepted its new host key {fingerprint(key)} ({why})")

    def refusal(self, key: paramiko.PKey) -> SessionFailed:
        """Return the refusal of an unknown key, with the command that would accept it."""
        host, _, port = self._name.strip("[").partition("]:")
        file = shlex.quote(next(iter(self._config.known_hosts), "known_hosts"))
        scan = f"ssh-keyscan {f'-p {port} ' if port else ''}{host} >> {file}"
        return SessionFailed(
            f"unknown host key {fingerprint(key)}; if you trust it, run {scan}"
            " (or use --accept_new_host_keys)"
        )


def changed(key: paramiko.PKey, address: str, port: int) -> SessionFailed:
    """Return the refusal of a key that differs from the known one."""
    target = address if port == 22 else f"'[{address}]:{port}'"
    return SessionFailed(
        f"its host key has CHANGED (now {fingerprint(key)}): it is another machine, or was"
        f" reinstalled; if you trust it, remove the old key: ssh-keygen -R {target}"
    )


def fingerprint(key: paramiko.PKey) -> str:
    """Return a key's type and fingerprint as `ssh-keygen -l` writes it."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"
