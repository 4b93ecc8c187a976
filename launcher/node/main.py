"""The node launcher: one per node, started by a backend; the parent of the node's workers.

--stdio                                      control line on standard input and output
--dial=A,B:PORT --pin=SHA256 --node=NAME     dials the runner over TLS
--dial=A,B:PORT --pin=SHA256 --engine=NAME   dials; the engine determines which node this is
--dial=A,B:PORT --pin=SHA256 --rank=NAME     dials; one node launcher for each rank
--program=NAME arguments ...                 a program of `programs`
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress

from ..common import system
from ..common.entry import GC_THRESHOLD
from ..common.errors import (
    INTERNAL,
    LOST,
    NODE_UNUSABLE,
    USAGE,
    DsrunError,
    UsageError,
    exhausted,
)
from ..common.stderr import tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from ..control.auth import Credentials
    from ..control.stream import FrameStream
    from ..control.tls import TlsStream
    from .guard import Guard

DIAL_TIMEOUT = 10.0
"""Seconds for each of the runner's addresses to answer."""

DIAL_AGAIN = 300.0
"""Seconds to keep dialling a runner that drops connections: the default of --start_timeout."""


def main(argv: Sequence[str] | None = None, early: bytes = b"") -> int:
    """Run one node launcher; return its exit code.

    Args:
        argv: the arguments; None for `sys.argv`.
        early: frames that have already been read from standard input.
    """
    try:
        return _run(list(sys.argv[1:] if argv is None else argv), early)
    except DsrunError as error:
        tell(str(error))
        return error.exit_code


def _run(argv: list[str], early: bytes) -> int:
    if argv == ["--stdio"]:
        return serve_stdio(early)
    if argv and argv[0].startswith("--program="):
        from . import programs

        return programs.run(argv[0].removeprefix(programs.OPTION), argv[1:])
    options = dict(word.partition("=")[::2] for word in argv)
    if {"--dial", "--pin"} <= set(options) and len(options) == len(argv) == 3:
        return _run_dialled(**{name[2:]: value for name, value in options.items()})
    raise UsageError("node launcher: expected --stdio, --dial=... with --pin=..., or --program=...")


def _run_dialled(dial: str, pin: str, node: str = "", engine: str = "", rank: str = "") -> int:
    if node:
        return serve_dialled(dial, pin, node)
    from .engine_task import task_identity

    identity = task_identity(engine or rank, os.environ, system.uname().nodename)
    return serve_dialled(dial, pin, identity, keep=_pmi_fds() if rank else ())


def _pmi_fds() -> tuple[int, ...]:
    """Return the descriptors on which MPI_Init talks to the engine (PMI-1 of MPICH and Slurm)."""
    fd = os.environ.get("PMI_FD", "")
    return (int(fd),) if fd.isdigit() else ()


def serve_stdio(early: bytes = b"") -> NoReturn:
    """Serve the runner at the other end of standard input and output; see `main`."""

    def serve(guard: Guard) -> int:
        from ..control.frames import MAGIC
        from ..control.stream import FrameStream

        if not _announced(MAGIC):
            return LOST
        line = FrameStream(*_own_streams())
        line.put_back(early)
        return _serve(line, guard)

    _under_guard(serve)


def serve_dialled(target: str, pin: str, node: str, keep: Sequence[int] = ()) -> NoReturn:
    """Dial the runner, and serve it.

    Args:
        target: the runner's addresses and port, "address,address:port".
        pin: SHA-256 of the runner's certificate.
        node: the name by which the runner knows this node.
        keep: descriptors that the worker inherits.
    """

    def serve(guard: Guard) -> int:
        from ..control import auth, tls

        token = auth.new_token()
        # A start-up file of the shell may have printed a line without a newline.
        if not _announced(f"\n{auth.announcement(node, token)}\n".encode()):
            return LOST
        try:
            line = dial(target, pin, auth.Credentials(node, token))
        except tls.CannotDial as error:
            tell(str(error))
            return LOST
        return _serve(line, guard)

    # Start the guard first, so that it does not inherit resources of the node launcher.
    _under_guard(serve, keep)


def _announced(first: bytes) -> bool:
    """Write the first bytes to the runner; return whether the runner still reads."""
    try:
        system.write(1, first)
    except BrokenPipeError:
        return False
    return True


def dial(target: str, pin: str, credentials: Credentials) -> TlsStream:
    """Dial until the runner serves this node: it drops connections while there are too many.

    Raises:
        CannotDial: the runner cannot be reached, or has dropped this node for too long.
    """
    from ..control import tls

    addresses, _, port = target.rpartition(":")
    began, attempt = system.monotonic(), 0
    while True:
        try:
            line, _ = tls.dial(addresses.split(","), int(port), pin, DIAL_TIMEOUT)
            if _is_served(line, credentials):
                return line
            line.close()
            error = tls.CannotDial(f"the runner at {target} closed the connection", dropped=True)
        except tls.CannotDial as failure:
            error = failure
        if not error.dropped or system.monotonic() - began > DIAL_AGAIN:
            raise error
        from ..backends.retries import pause

        system.sleep(pause(attempt))
        attempt += 1


def _is_served(line: TlsStream, credentials: Credentials) -> bool:
    from ..control import frames, messages
    from ..control.stream import StreamClosed

    with suppress(StreamClosed):
        line.send(messages.pack(frames.AUTH, credentials))
    return line.wait(DIAL_TIMEOUT)


def serve_line(line: FrameStream) -> NoReturn:
    """Serve the runner at the other end of an open connection; exit with the job's exit code."""
    system.set_inheritable(line.read_fd, False)
    _under_guard(lambda guard: _serve(line, guard, joined=True))


def _under_guard(serve: Callable[[Guard], int], keep: Sequence[int] = ()) -> NoReturn:
    """Start the guard; in the node launcher, call `serve` and exit with the code it returns."""
    from .guard import guarded

    system.set_handler(signal.SIGCHLD, signal.SIG_DFL)
    for name in system.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            _close_on_exec(int(name))
    guarded(lambda guard: system.exit_now(_code_of(lambda: serve(guard))))


def _close_on_exec(fd: int) -> None:
    """Prevent workers from inheriting a descriptor that this process has by accident."""
    try:
        system.set_inheritable(fd, False)
    except OSError:
        return


def _own_streams() -> tuple[int, int]:
    """Move the control line off 0 and 1, so that no accidental output gets into it."""
    line_in, line_out = system.dup(0), system.dup(1)
    null = system.open_fd(os.devnull, os.O_RDONLY)
    system.dup2(null, 0)
    system.dup2(2, 1)
    system.close(null)
    return line_in, line_out


def _serve(line: FrameStream, guard: Guard, *, joined: bool = False) -> int:
    from ..common.loop import Loop
    from .session.session import Session

    return Session(line, Loop(), guard, joined=joined).run()


def start(early: bytes = b"") -> None:
    """Run as the whole process: the entry point of a backend's command; see `main`.

    The process exits without the interpreter's clean-up, which would take longer than the rest of
    the exit.
    """
    gc.set_threshold(GC_THRESHOLD)
    system.exit_now(_code_of(lambda: main(early=early)))


def _code_of(call: Callable[[], int]) -> int:
    """Return the exit code of a call, even if it raises; by then, everything is written."""
    try:
        code = call()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else USAGE
    except BaseException as error:
        code = _fault(error)
    with suppress(OSError, ValueError):  # nobody reads it
        sys.stderr.flush()
    return code


def _fault(error: BaseException) -> int:
    """Write an error that nothing has handled; return the exit code."""
    if why := exhausted(error):
        system.write_error(f"dsrun: {why}\n")  # nothing more can be imported
        return NODE_UNUSABLE
    import traceback

    system.write_error(traceback.format_exc())
    return INTERNAL


if __name__ == "__main__":
    start()
