"""The debug adapter between one editor, on the standard streams, and one worker.

The worker's Python runs it as a file, with the descriptor of a connected socket and the folder of
the worker's debugpy. It is debugpy's own adapter without listening ports.
"""

from __future__ import annotations

import os
import socket
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    """Talk to both until the editor or the worker leaves; never returns."""
    line = socket.socket(fileno=int(sys.argv[1]))
    sys.path.insert(0, sys.argv[2])
    names = ("clients", "servers", "sessions")
    modules: list[Any] = [import_module(f"debugpy.adapter.{name}") for name in names]
    clients, servers, sessions = modules
    del sys.path[0]
    # It would open ports where it has none yet; a socket that is not bound has the port 0.
    servers.listener = socket.socket()
    clients.listener = None
    # It would tell its editor of its ports, even an editor that has already left.
    sessions.report_sockets = lambda: None
    clients.Client("stdio")
    servers.Connection(line)
    sessions.wait_until_ended()
    os._exit(0)  # a thread may be reading standard input


if __name__ == "__main__":
    main()
