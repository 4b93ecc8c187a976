"""The program that torch's agent starts instead of a worker; the node launcher starts the worker.

It sends the node launcher a new connection over its standard input, passes on the signals that it
receives, and ends in the way the worker does. If it is killed, so is the worker, as the connection
ends.
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
"""The variables of torch's agent for a worker (torch 2.13, `local_elastic_agent.py`), and ours."""


def main() -> None:
    """Wait, in place of one worker, for that worker's end."""
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
