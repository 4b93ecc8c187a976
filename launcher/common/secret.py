"""The secret that the nodes of a `--no_ssh` job share."""

from __future__ import annotations

import os
from functools import cache

from . import files
from .errors import UsageError, reason

LIMIT = 4096
"""Bytes of a secret."""

WARNING = (
    "no DSRUN_TOKEN and no --token_file: anyone who can reach the control port can join this job"
    " or take it over; set the same secret on every node"
)


def shared_secret(token_file: str | None) -> str:
    """Return the secret in the file or, without a file, in DSRUN_TOKEN, or "".

    Raises:
        UsageError: the file cannot be read, or other users can read it.
    """
    return os.environ.get("DSRUN_TOKEN", "") if token_file is None else _read(token_file)


@cache
def _read(path: str) -> str:
    """Return the secret in a file, which is read only once as it may be a pipe."""
    where = f"--token_file {path}"

    def check(status: os.stat_result) -> None:
        if status.st_mode & 0o077:
            raise UsageError(f"{where}: other users can read it; run chmod 600")

    try:
        secret = files.read(path, LIMIT, check=check).decode().strip()
    except OSError as error:
        raise UsageError(f"{where}: {reason(error)}") from None
    except UnicodeDecodeError:
        hint = "create a secret with: openssl rand -hex 32"
        raise UsageError(f"{where}: is not UTF-8; {hint}") from None
    if not secret:
        raise UsageError(f"{where}: is empty")
    return secret
