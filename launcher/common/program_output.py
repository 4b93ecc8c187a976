"""The output of a short program."""

from __future__ import annotations

import os

from . import executable, system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def output_of(argv: Sequence[str]) -> str:
    """Return the output of a short program, on both streams; "" if it cannot be run."""
    read, write = system.pipe2(os.O_CLOEXEC)
    streams = [(os.POSIX_SPAWN_DUP2, write, fd) for fd in (1, 2)]
    try:
        pid = os.posix_spawn(
            executable.located(argv[0]), list(argv), os.environ, file_actions=streams
        )
    except OSError:
        system.close(read)
        return ""
    finally:
        system.close(write)
    with system.open_file(read, "rb") as pipe:
        printed = pipe.read()
    system.waitpid(pid, 0)
    return printed.decode("utf-8", "replace")
