"""What may be the name of a host; whatever names hosts asks here, as names end up in commands."""

from __future__ import annotations

import re

from ..common.errors import UsageError
from .ranges import quoted

# ssh takes a number alone for an IPv4 address; in a list of hosts it is a slip.
_NAME = re.compile(r"(?![0-9-]*$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_ZONE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


def check_name(name: str) -> None:
    """See that `name` is a host name or an address without brackets.

    Raises:
        UsageError: It is neither.
    """
    if ":" in name and not _is_ipv6(name):
        raise UsageError(f"{quoted(name)} is not an IPv6 address")
    if ":" not in name and not _NAME.fullmatch(name):
        raise UsageError(
            f"{quoted(name)} is not a host name (letters, digits, '.', '_', '-'; no number alone)"
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
