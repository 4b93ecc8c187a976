"""What torch's agent starts in a worker's place: it has the node launcher start the real one.

It sends the node launcher a line of its own over its standard input, passes on the signals that it
gets, and ends as the worker does. If it is killed, the worker is: its line ends.
"""

import json
import os
import signal
import socket
from contextlib import suppress

NAMES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT"),
    *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID"),
    *("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_TIMER_FILE"),
    *("DSRUN_LOG_OUT", "DSRUN_LOG_ERR"),
)
"""What torch's agent tells of a worker (torch 2.13, `local_elastic_agent.py`), and ours of it."""


def main() -> None:
    """Wait in the place of one worker until it ends."""
    entry = socket.socket(fileno=0)
    mine, theirs = socket.socketpair()

    def pass_on(number: int, _frame: object) -> None:
        with suppress(OSError):  # the worker has ended just now
            mine.send(bytes([number]))

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, pass_on)
    environment = {name: os.environ[name] for name in NAMES if name in os.environ}
    socket.send_fds(entry, [json.dumps(environment).encode()], [theirs.fileno()])
    theirs.close()
    ended = mine.recv(4)
    code = int.from_bytes(ended, "big", signed=True) if ended else 1
    if code < 0:
        _die_of(-code)
    os._exit(code)


def _die_of(number: int) -> None:
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


if __name__ == "__main__":
    main()
