"""The entry points of all commands, for an installation and for `bin/`: dsrun's first code to run.

Importing this module lets SIGINT end the process, as it ends a program in C: until there is
something to clean up, Ctrl-C during an import needs no traceback. Nothing else imports this module.
"""

from __future__ import annotations

# Importing `signal` takes milliseconds; this is its part in C.
import _signal  # type: ignore[import-not-found]
import sys

_signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def dsrun() -> None:
    from .runner import start

    start()


def dsrun_check() -> None:
    from .features.full_check.command import start

    start()


def dsrun_elastic() -> None:
    from .features.elastic.command import start

    start()


def dsrun_exec() -> None:
    from .features.exec.command import start

    start()


def dsrun_hold() -> None:
    from .features.hold.command import start

    start()


def dsrun_job() -> None:
    if sys.argv[1:2] == ["--complete"]:
        from .features.completion.command import start
    else:
        from .features.jobs.command import start

    start()


def dsrun_topo() -> None:
    from .features.binding.command import start

    start()
