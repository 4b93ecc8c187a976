"""dsrun: options -> hosts -> plan -> job -> report -> exit code.

The one place that catches our own errors, and turns each into one line and an exit code.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from . import __version__
from .common.errors import INTERNAL, DsrunError, OutputError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .cli.options import Options
    from .cli.parser import Command

    Act = Callable[[list[str]], int]


def main(argv: Sequence[str] | None = None, act: Act | None = None) -> int:
    """Run dsrun with these arguments (the process's own by default); returns the exit code.

    `act` does what another command of ours does with its words.
    """
    _own_modules_first()
    import signal

    # Until there is something to clean up, an interrupt ends this like any other program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _open_streams()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        return (act or _run)(list(sys.argv[1:] if argv is None else argv))
    except DsrunError as error:
        return _refuse(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + int(signal.SIGPIPE)
    except Exception:
        return _bug()


def _own_modules_first() -> None:
    """Look for modules in the user's PYTHONPATH last: it is for the workers, not for dsrun."""
    theirs = {os.path.abspath(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    sys.path.sort(key=lambda folder: not folder or os.path.abspath(folder) in theirs)


def _open_streams() -> None:
    """Open on nothing what a daemon's start has left closed, before a file of ours lands there."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _run(words: list[str]) -> int:
    from .cli.parser import name_variables

    try:
        return _follow(words)
    except DsrunError as error:
        error.args = (name_variables(str(error), words, os.environ),)
        raise


def _follow(words: list[str]) -> int:
    from .cli.parser import parse

    command = parse(words, os.environ)
    if command.help:
        from .cli.help import text

        write(text())
        return 0
    if command.version:
        write(f"dsrun {__version__}\n")
        return 0
    if command.options.launcher.lower() == "slurm":
        from .commands import salloc

        if salloc.is_needed(command.options, os.environ):
            return _in_an_allocation(salloc.argv(words, command, os.environ), command.options)
    return run(command)


def _in_an_allocation(argv: list[str], options: Options) -> int:
    """Run the same command once more by salloc; returns only from a dry run."""
    from .commands import salloc

    if options.dry_run:
        write(salloc.shown(argv, options))
        return 0
    return salloc.run(argv, options)


def run(command: Command) -> int:
    """Do what a command line asks for; returns the exit code.

    Raises:
        DsrunError: it cannot be done; nothing is left running.
    """
    from .planning import cluster_environment
    from .planning.planner import arrange, by_rank
    from .specs import rendezvous

    command = rendezvous.completed(command.with_torchruns_logs())
    command = cluster_environment.completed(command, os.environ)
    arrangement = arrange(command)
    options = command.options
    if options.json and not options.dry_run:
        raise UsageError(
            "--json: only with --dry_run; --report_file writes the end of a job as JSON"
        )
    requeued = _requeued(options)
    if options.dry_run:
        from .head.run.start import show

        write(f"{show(arrangement, options)}\n")
        return 0
    if by_rank(options) and options.node_rank:
        from .node.join import join

        return join(arrangement.plan, options)
    from .head.run.start import launch

    try:
        code = launch(arrangement, options)
    except DsrunError as error:
        _requeue(error.exit_code, requeued)
        raise
    _requeue(code, requeued)
    return code


def _requeued(options: Options) -> frozenset[int]:
    """Return the exit codes with which the job goes back to the queue."""
    if not options.requeue_on:
        return frozenset()
    from .head.run.requeue import codes

    return codes(options, os.environ)


def _requeue(code: int, requeued: frozenset[int]) -> None:
    if code in requeued:
        from .head.run.requeue import requeue

        requeue(code, os.environ)


def write(text: str) -> None:
    """Write to standard output; bytes that are no text are spelled out.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise OutputError(f"standard output: {(error.strerror or str(error)).lower()}") from None


def _refuse(error: DsrunError) -> int:
    from .common.text import plain

    for line in plain(str(error)).split("\n"):
        sys.stderr.write(f"dsrun: {line}\n")
    return error.exit_code


def _bug() -> int:
    import traceback

    from .common.text import plain

    sys.stderr.write(
        f"{plain(traceback.format_exc())}"
        "dsrun: this is a bug in dsrun, not in your job; please report the lines above\n"
    )
    return INTERNAL


def start(act: Act | None = None) -> None:
    """Run as a process of its own: what the command `dsrun` calls; see `main`.

    Leaves without the interpreter's own clean-up: everything is written and closed by then.
    """
    code = main(act=act)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    start()
