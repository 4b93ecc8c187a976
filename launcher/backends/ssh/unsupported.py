"""What paramiko cannot do of what the user has set up for ssh: `--launcher openssh` is for that."""

from __future__ import annotations

import os

from . import config as ssh_config
from . import config_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...specs.host import Host
    from .config import HostConfig

LOOKED_AT = 256
"""Hosts that are looked at beforehand; of the others it is told when they are reached."""


def beyond_paramiko(hosts: Sequence[Host], port: int | None) -> str:
    """Return what paramiko cannot do of what is set for the first such host, or "".

    Raises:
        UsageError: the configuration cannot be read, in ssh's own words.
    """
    config_reader.check(hosts, port)
    if config_reader.reader().keywords.isdisjoint(ssh_config.ASKED):
        return ""
    some = hosts[:LOOKED_AT]
    agent = config_reader.agent()
    for host, config in zip(some, config_reader.plan(some, port), strict=True):
        told = ssh_config.beyond_paramiko(config, agent)
        if told:
            return f"{host.name}: {told}"
    return ""


def better_by_openssh(hosts: Sequence[Host], port: int | None) -> str:
    """Return why OpenSSH is the one to reach these hosts, or "".

    Raises:
        UsageError: the configuration cannot be read, in ssh's own words.
    """
    told = beyond_paramiko(hosts, port)
    if told or not hosts:
        return told
    (config,) = config_reader.plan(hosts[:1], port)
    return against_paramiko(config, os.environ)


def against_paramiko(config: HostConfig, environ: Mapping[str, str]) -> str:
    """Return a sign, in words, that paramiko would not get in, or ""; it may be wrong."""
    return _authority(config.known_hosts) or _no_key(config, environ)


def _authority(files: Sequence[str]) -> str:
    """Tell of a file of known keys that trusts an authority: paramiko knows no certified keys."""
    for path in files:
        if any(line.startswith(b"@cert-authority") for line in _lines(path)):
            return f"{path} has @cert-authority, which paramiko cannot do"
    return ""


def _no_key(config: HostConfig, environ: Mapping[str, str]) -> str:
    """Tell of keys in hardware, or of a Kerberos ticket, where there is no other key."""
    keys = [path for path in config.keys if os.path.exists(path)]
    if config.agent or any(not _in_hardware(path) for path in keys):
        return ""
    if keys:
        return f"{keys[0]} is a security key, which paramiko cannot use"
    if "KRB5CCNAME" in environ or _has_ticket():
        return "there is a Kerberos ticket and no key, and paramiko needs one"
    return ""


def _has_ticket() -> bool:
    """Tell whether a ticket of this user's lies where MIT Kerberos has it: anybody may lay one."""
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
