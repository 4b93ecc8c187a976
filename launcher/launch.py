"""The node launcher: one on every node, started by a backend, the parent of the node's workers.

    launch --stdio                          the control line is standard input and output
    launch --dial=A,B:PORT --pin=SHA256 --node=NAME       it is dialled, over TLS
    launch --dial=A,B:PORT --pin=SHA256 --engine=NAME     likewise; the engine tells which node
    launch --dial=A,B:PORT --pin=SHA256 --rank=NAME       likewise; one node launcher a rank
    launch --world_info=... --node_rank=N --master_addr=A --master_port=P script ...     by hand

By hand there is no control line and no other node is spoken to, as with DeepSpeed's `launch`.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from contextlib import suppress

from .common.entry import GARBAGE
from .common.errors import INTERNAL, LOST, USAGE, DsrunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .control.auth import Credentials
    from .control.stream import FrameStream
    from .control.tls import TlsStream
    from .node.guard import Guard

DIAL_TIMEOUT = 10.0
"""Seconds for each of the runner's addresses to answer."""

DIAL_AGAIN = 300.0
"""Seconds for which a runner that drops calls is dialled: as long as it waits by default."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one node launcher; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except DsrunError as error:
        sys.stderr.write(f"dsrun: {error}\n")
        return error.exit_code


def _run(words: list[str]) -> int:
    if words == ["--stdio"]:
        return serve_stdio()
    options = dict(word.partition("=")[::2] for word in words)
    if {"--dial", "--pin"} <= set(options) and len(options) == len(words) == 3:
        return _run_dialled(**{name[2:]: value for name, value in options.items()})
    from .commands.node import run

    return run(words)


def _run_dialled(dial: str, pin: str, node: str = "", engine: str = "", rank: str = "") -> int:
    if node:
        return serve_dialled(dial, pin, node)
    from .node.engine_task import left_out, who

    found = who(engine or rank, os.environ, os.uname().nodename)
    if rank:
        return serve_dialled(dial, pin, found, keep=_own_lines())
    for name in left_out(os.environ):
        del os.environ[name]
    return serve_dialled(dial, pin, found)


def _own_lines() -> tuple[int, ...]:
    """Return the descriptors on which MPI_Init speaks to the engine (PMI-1 of MPICH and Slurm)."""
    fd = os.environ.get("PMI_FD", "")
    return (int(fd),) if fd.isdigit() else ()


def serve_stdio() -> int:
    """Serve the job whose runner is at the other end of standard input and output."""
    guard = _begin()
    from .control.frames import MAGIC
    from .control.stream import FrameStream

    os.write(1, MAGIC)
    return _serve(FrameStream(*_own_streams()), guard)


def serve_dialled(target: str, pin: str, node: str, keep: Sequence[int] = ()) -> int:
    """Serve the job of the runner at `target` ("address,address:port"), whom `pin` identifies.

    Args:
        target: where to dial.
        pin: SHA-256 of the runner's certificate.
        node: who this is, as the runner will know it.
        keep: descriptors that the worker is to have as well.
    """
    # The guard first: it shall not carry what only the node launcher needs.
    guard = _begin(keep)
    from .control import auth, tls

    token = auth.new_token()
    # On a line of its own, whatever a start-up file has printed without an end.
    os.write(1, f"\n{auth.announcement(node, token)}\n".encode())
    try:
        line = dial(target, pin, auth.Credentials(node, token))
    except tls.CannotDial as error:
        sys.stderr.write(f"dsrun: {error}\n")
        return LOST
    return _serve(line, guard)


def dial(target: str, pin: str, credentials: Credentials) -> TlsStream:
    """Dial until the runner serves this node: it drops callers while its port is crowded.

    Raises:
        CannotDial: it is not there, or has dropped this node for too long.
    """
    from .control import tls

    addresses, _, port = target.rpartition(":")
    began, attempt = time.monotonic(), 0
    while True:
        try:
            line, _ = tls.dial(addresses.split(","), int(port), pin, DIAL_TIMEOUT)
            if _is_served(line, credentials):
                return line
            line.close()
            error = tls.CannotDial(f"the runner at {target} hung up", dropped=True)
        except tls.CannotDial as failed:
            error = failed
        if not error.dropped or time.monotonic() - began > DIAL_AGAIN:
            raise error
        from .backends.ssh.retries import pause

        time.sleep(pause(attempt))
        attempt += 1


def _is_served(line: TlsStream, credentials: Credentials) -> bool:
    from .control import frames, messages
    from .control.stream import StreamClosed

    with suppress(StreamClosed):
        line.send(messages.pack(frames.AUTH, credentials))
    return line.wait(DIAL_TIMEOUT)


def serve_line(line: FrameStream) -> int:
    """Serve the job at the other end of a line that stands already; ends with its exit code."""
    os.set_inheritable(line.read_fd, False)
    return _serve(line, _begin(), joined=True)


def _begin(keep: Sequence[int] = ()) -> Guard:
    """Split off the guard; returns in the node launcher."""
    from .node.guard import start_guard

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            _close_on_exec(int(name))
    return start_guard()


def _close_on_exec(fd: int) -> None:
    """Keep what this process inherited by accident from its workers."""
    try:
        os.set_inheritable(fd, False)
    except OSError:
        return


def _own_streams() -> tuple[int, int]:
    """Move the line off 0 and 1, so that nothing printed by accident can end up in it."""
    line_in, line_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return line_in, line_out


def _serve(line: FrameStream, guard: Guard, *, joined: bool = False) -> int:
    from .common.loop import Loop
    from .node.session import Session

    return Session(line, Loop(), guard, joined=joined).run()


def start() -> None:
    """Run as a process of its own: what a backend's command calls.

    Leaves without the interpreter's own clean-up, which would cost more than the rest of the end.
    """
    gc.set_threshold(GARBAGE)
    try:
        code = main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else USAGE
    except BaseException:
        import traceback

        traceback.print_exc()
        code = INTERNAL
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    start()
