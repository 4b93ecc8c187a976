"""The node launcher: one on every node, started by a backend, the parent of the node's workers.

    launch --stdio                          the control line is standard input and output
    launch --dial=A,B:PORT --pin=SHA256 --node=NAME       it is dialled, over TLS
    launch --world_info=... --node_rank=N --master_addr=A --master_port=P script ...     by hand

By hand there is no control line and no other node is spoken to, as with DeepSpeed's `launch`.
"""

from __future__ import annotations

import os
import signal
import sys

from .errors import INTERNAL, LOST, USAGE, DsrunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .control.line import Line
    from .node.guard import Guard

DIAL_TIMEOUT = 10.0
"""Seconds for each of the runner's addresses to answer."""


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
    if set(options) == {"--dial", "--pin", "--node"}:
        return serve_dialled(options["--dial"], options["--pin"], options["--node"])
    from .by_hand import run

    return run(words)


def serve_stdio() -> int:
    """Serve the job whose runner is at the other end of standard input and output."""
    guard = _begin()
    from .control.frames import MAGIC
    from .control.line import Line

    os.write(1, MAGIC)
    return _serve(Line(*_own_streams()), guard)


def serve_dialled(target: str, pin: str, node: str) -> int:
    """Serve the job of the runner at `target` ("address,address:port"), whom `pin` identifies."""
    # The guard first: it shall not carry what only the node launcher needs.
    guard = _begin()
    from .control import auth, frames, messages, tls

    addresses, _, port = target.rpartition(":")
    token = auth.new_token()
    # On a line of its own, whatever a start-up file has printed without an end.
    os.write(1, f"\n{auth.announce(node, token)}\n".encode())
    try:
        line, _ = tls.dial(addresses.split(","), int(port), pin, DIAL_TIMEOUT)
    except tls.CannotDial as error:
        sys.stderr.write(f"dsrun: {error}\n")
        return LOST
    line.send(messages.pack(frames.AUTH, auth.Claim(node, token)))
    return _serve(line, guard)


def serve_line(line: Line) -> int:
    """Serve the job at the other end of a line that stands already; ends with its exit code."""
    os.set_inheritable(line.read_fd, False)
    return _serve(line, _begin(), tells=True)


def _begin() -> Guard:
    """Split off the guard; returns in the node launcher."""
    from .node.guard import stand_guard

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            _close_on_exec(int(name))
    return stand_guard()


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


def _serve(line: Line, guard: Guard, *, tells: bool = False) -> int:
    from .loop import Loop
    from .node.session import Session

    return Session(line, Loop(), guard, tells=tells).run()


def start() -> None:
    """Run as a process of its own: what a backend's command calls.

    Leaves without the interpreter's own clean-up, which would cost more than the rest of the end.
    """
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
