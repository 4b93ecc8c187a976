"""The dsrun version of a running job or hold: another version may answer in another form."""

from __future__ import annotations

from contextlib import suppress

from .. import __version__
from ..common.errors import DsrunError
from .local_client import connect

PATIENCE = 2.0
"""Seconds for a process to report its version."""


def another(kind: str, name: str) -> str:
    """Return the end of a message about a job or hold of another version; "" for this version."""
    client = connect(kind, name)
    if client is None:
        return ""
    with client, suppress(DsrunError):
        return differs(client.ask({"do": "status"}, seconds=PATIENCE).get("version"))
    return ""


def differs(version: object) -> str:
    """Return a note on a version that differs from this one, or ""."""
    if not isinstance(version, str) or version == __version__:
        return ""
    return f"; it runs dsrun {version[:40]}, but this is dsrun {__version__}"
