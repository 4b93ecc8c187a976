"""What torch's agent starts in a worker's place: it has the node launcher start the real one.

It hands in a line of its own at the desk (standard input), passes on the signals that it gets, and
ends as the worker does. If it is killed, the worker is: its line ends.
"""

import json
import os
import signal
import socket
from contextlib import suppress

NAMES = ("RANK", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT")


def main() -> None:
    """Stand in for one worker until it ends."""
    desk = socket.socket(fileno=0)
    mine, theirs = socket.socketpair()

    def pass_on(number: int, _frame: object) -> None:
        with suppress(OSError):  # the worker has ended just now
            mine.send(bytes([number]))

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, pass_on)
    said = {name: os.environ[name] for name in NAMES}
    socket.send_fds(desk, [json.dumps(said).encode()], [theirs.fileno()])
    theirs.close()
    told = mine.recv(4)
    code = int.from_bytes(told, "big", signed=True) if told else 1
    if code < 0:
        _die_of(-code)
    os._exit(code)


def _die_of(number: int) -> None:
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


if __name__ == "__main__":
    main()
