"""The user's ssh settings that paramiko does not support, unlike `--launcher openssh`."""

from __future__ import annotations

import os

from . import config as ssh_config
from . import config_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...specs.host import Host
    from .config import HostConfig

MAX_CHECKED = 256
"""Number of hosts checked before the start; others fail at their connection."""


def unsupported_host(hosts: Sequence[Host], port: int | None) -> str:
    """Return the first host with a setting that paramiko does not support, and which, or "".

    Raises:
        UsageError: the configuration cannot be read; the text is ssh's own.
    """
    config_reader.check(hosts, port, program=False)
    if config_reader.reader().keywords.isdisjoint(ssh_config.UNSUPPORTED_KEYWORDS):
        return ""
    some = hosts[:MAX_CHECKED]
    agent = config_reader.agent()
    for host, config in zip(some, config_reader.plan(some, port), strict=True):
        problem = ssh_config.unsupported(config, agent)
        if problem:
            return f"{host.name}: {problem}"
    return ""


def reason_for_openssh(hosts: Sequence[Host], port: int | None) -> str:
    """Return why OpenSSH is preferable for these hosts, or "".

    Raises:
        UsageError: the configuration cannot be read; the text is ssh's own.
    """
    problem = unsupported_host(hosts, port)
    if problem or not hosts or not config_reader.reader().known:
        return problem
    (config,) = config_reader.plan(hosts[:1], port)
    return likely_failure(config, os.environ)


def likely_failure(config: HostConfig, environ: Mapping[str, str]) -> str:
    """Return why paramiko is likely to fail to log in, or ""."""
    return _authority(config.known_hosts) or _no_key(config, environ)


def _authority(files: Sequence[str]) -> str:
    """Return a known_hosts file that trusts an authority: paramiko has no certified host keys."""
    for path in files:
        if any(line.startswith(b"@cert-authority") for line in _lines(path)):
            return f"{path} has @cert-authority, which paramiko does not support"
    return ""


def _no_key(config: HostConfig, environ: Mapping[str, str]) -> str:
    """Return why there is no key that paramiko can use, if there is another way to log in."""
    keys = [path for path in config.keys if os.path.exists(path)]
    if config.agent or any(not _in_hardware(path) for path in keys):
        return ""
    if keys:
        return f"{keys[0]} is a security key, which paramiko cannot use"
    if "KRB5CCNAME" in environ or _has_ticket():
        return "there is a Kerberos ticket but no key, and paramiko needs a key"
    return ""


def _has_ticket() -> bool:
    """Return whether MIT Kerberos's default file is this user's: anyone could create it."""
    try:
        status = os.lstat(os.path.join("/tmp", f"krb5cc_{os.getuid()}"))
    except OSError:
        return False
    return status.st_uid == os.getuid()


def _in_hardware(path: str) -> bool:
    return any(line.startswith(b"sk-") for line in _lines(f"{path}.pub"))


def _lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            return file.read().splitlines()
    except OSError:
        return []
