"""The secret that the nodes of a `--no_ssh` job share."""

from __future__ import annotations

import os
from functools import cache

from . import files
from .errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options

LIMIT = 4096
"""Bytes of a secret."""

WARNING = (
    "no DSRUN_TOKEN and no --token_file: whoever reaches the control port first may take part in"
    " this job, or run it; set the same secret on every node"
)


def shared_secret(options: Options) -> str:
    """Return the secret from --token_file or DSRUN_TOKEN, "" when there is none.

    Raises:
        UsageError: the file cannot be read, or others can read it.
    """
    if options.token_file is None:
        return os.environ.get("DSRUN_TOKEN", "")
    return _kept(options.token_file)


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
        raise UsageError(f"{where}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{where}: no UTF-8; make one with: openssl rand -hex 32") from None
    if not secret:
        raise UsageError(f"{where}: is empty")
    return secret


def control_port(options: Options, master_port: int | None) -> int:
    """Return the port that node 0 listens on, which every node must know beforehand."""
    return options.control_port or (master_port or DEFAULT_MASTER_PORT) + 1


DEFAULT_MASTER_PORT = 29500
"""DeepSpeed's and torchrun's default; here only where a port must be known before the start."""
