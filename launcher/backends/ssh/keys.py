"""Logs in with the keys of the configuration and of the agent; never prompts for a password."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from ...common.access import absence
from ...common.errors import reason
from ..causes import SessionFailed
from .config import named_keys
from .library import AuthStrategy, InMemoryPrivateKey, paramiko

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from paramiko.auth_strategy import SourceResult

    from .config import HostConfig

KINDS = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)

NO_KEY = "no key to offer (IdentityFile, ~/.ssh/id_*, or an agent); run ssh-keygen, then"


class KeyFiles:
    """The user's private keys; each file is read once for all threads.

    Attributes:
        used_agent: whether a host has accepted a key of the user's agent.
    """

    def __init__(self) -> None:
        self.used_agent = False
        self._lock = threading.Lock()
        self._read: dict[str, paramiko.PKey | str] = {}

    def load(self, path: str) -> paramiko.PKey | str:
        """Return the key in a file, or why it cannot be used, in words that follow its name."""
        with self._lock:
            if path not in self._read:
                self._read[path] = _load(path)
            return self._read[path]


def _load(path: str) -> paramiko.PKey | str:
    if not os.path.exists(path):
        return absence(path, "is missing")
    for kind in KINDS:
        try:
            key = kind.from_private_key_file(path)
            if os.path.exists(f"{path}-cert.pub"):
                key.load_certificate(f"{path}-cert.pub")
        except paramiko.PasswordRequiredException:
            return "has a passphrase; add it to your agent with ssh-add"
        except OSError as error:
            return f"cannot be read ({reason(error)})"
        except (paramiko.SSHException, ValueError, TypeError, IndexError):
            continue
        return key
    return "is not a key that paramiko supports; try --launcher openssh"


class Login(AuthStrategy):
    """Tries one key after another, files first, as the configuration allows."""

    def __init__(self, files: KeyFiles, config: HostConfig) -> None:
        super().__init__(paramiko.SSHConfig())
        self._files = files
        self._config = config

    def get_sources(self) -> Iterator[InMemoryPrivateKey]:
        """Yield the keys to try, in order."""
        for key in self._keys():
            yield InMemoryPrivateKey(self._config.user, key)

    def authenticate(self, transport: paramiko.Transport) -> list[SourceResult]:
        """Log in.

        Raises:
            SessionFailed: no key is accepted.
        """
        refused = ""
        for source in self.get_sources():
            try:
                more = source.authenticate(transport)
            except paramiko.SSHException as error:
                refused = f"no key was accepted ({error}); run {self._copy()}"
                continue
            if not more:
                self._files.used_agent |= isinstance(source.pkey, paramiko.AgentKey)
                return []
            refused = f"the server requires more than a key ({', '.join(more)})"
        unused = self._unused()
        missing = "no key to offer" if unused else f"{NO_KEY} {self._copy()}"
        causes = [refused or missing, *unused]
        raise SessionFailed(f"authentication failed for {self._config.user}: {'; '.join(causes)}")

    def _keys(self) -> Iterator[paramiko.PKey]:
        loaded = [self._files.load(path) for path in self._config.keys]
        yield from (key for key in loaded if isinstance(key, paramiko.PKey))
        if not self._config.agent:
            return
        agent = paramiko.Agent()
        try:
            yield from (key for key in agent.get_keys() if self._allows(key))
        finally:
            agent.close()

    def _copy(self) -> str:
        """Return the command that makes the host accept the user's key."""
        config = self._config
        port = f"-p {config.port} " if config.port != 22 else ""
        (name,) = config.values.get("host", [config.address])[:1]
        return f"ssh-copy-id {port}{config.user}@{name}"

    def _allows(self, key: paramiko.PKey) -> bool:
        """Return whether the agent may offer a key (ssh_config(5), IdentitiesOnly)."""
        return not self._config.only_these_keys or key.get_base64() in map(
            _public_half, self._config.keys
        )

    def _unused(self) -> list[str]:
        """Return the problem of each key file that exists, or that the user has named."""
        named = named_keys(self._config)
        found = [path for path in self._config.keys if path in named or os.path.exists(path)]
        wrong = [(path, self._files.load(path)) for path in found]
        return [f"{path} {why}" for path, why in wrong if isinstance(why, str)]


def _public_half(path: str) -> str:
    """Return the public key next to a private one, in base64, or ""."""
    public = path if path.endswith(".pub") else f"{path}.pub"
    with suppress(OSError, IndexError), open(public, encoding="utf-8", errors="replace") as file:
        return file.readline().split()[1]
    return ""
