"""The secret that the nodes of a `--no_ssh` job share."""

from __future__ import annotations

import os
from functools import cache

from . import files
from .errors import UsageError, reason

LIMIT = 4096
"""Bytes of a secret."""

WARNING = (
    "no DSRUN_TOKEN and no --token_file: whoever reaches the control port first may take part in"
    " this job, or run it; set the same secret on every node"
)


def shared_secret(token_file: str | None) -> str:
    """Return the secret from a file or else DSRUN_TOKEN, "" when there is none.

    Raises:
        UsageError: the file cannot be read, or others can read it.
    """
    return os.environ.get("DSRUN_TOKEN", "") if token_file is None else _kept(token_file)


@cache
def _kept(path: str) -> str:
    """Return the secret in a file, which is read once: it may be a pipe."""
    where = f"--token_file {path}"

    def check(status: os.stat_result) -> None:
        if status.st_mode & 0o077:
            raise UsageError(f"{where}: others can read it; chmod 600")

    try:
        secret = files.read(path, LIMIT, check=check).decode().strip()
    except OSError as error:
        raise UsageError(f"{where}: {reason(error)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{where}: no UTF-8; make one with: openssl rand -hex 32") from None
    if not secret:
        raise UsageError(f"{where}: is empty")
    return secret
