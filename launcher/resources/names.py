"""Check host names, from whatever source, before they are used in commands."""

from __future__ import annotations

import re

from ..common.errors import UsageError
from .ranges import quoted

# ssh takes a number alone as an IPv4 address; in a list of hosts it is a mistake.
_NAME = re.compile(r"(?![0-9-]*$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_ZONE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


def check_name(name: str) -> None:
    """Check that `name` is a host name, or an address without brackets.

    Raises:
        UsageError: it is neither.
    """
    if ":" in name and not _is_ipv6(name):
        raise UsageError(f"{quoted(name)} is not an IPv6 address")
    if ":" not in name and not _NAME.fullmatch(name):
        raise UsageError(
            f"{quoted(name)} is not a host name (letters, digits, '.', '_', '-'; not only digits)"
        )


def _is_ipv6(name: str) -> bool:
    import socket

    address, percent, zone = name.partition("%")
    if percent and not _ZONE.fullmatch(zone):
        return False
    try:
        return bool(socket.inet_pton(socket.AF_INET6, address))
    except (OSError, ValueError):
        return False
