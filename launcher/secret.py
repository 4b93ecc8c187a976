"""The secret that the nodes of a `--no_ssh` job share."""

from __future__ import annotations

import os

from .errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .options import Options

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
    try:
        with open(options.token_file, encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise UsageError(
                    f"--token_file {options.token_file}: others can read it; chmod 600"
                )
            secret = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token_file {options.token_file}: {error}") from None
    if not secret:
        raise UsageError(f"--token_file {options.token_file}: is empty")
    return secret


def control_port(options: Options, master_port: int | None) -> int:
    """Return the port that node 0 listens on, which every node must know beforehand."""
    return options.control_port or (master_port or DEFAULT_MASTER_PORT) + 1


DEFAULT_MASTER_PORT = 29500
"""DeepSpeed's and torchrun's default; here only where a port must be known before the start."""
