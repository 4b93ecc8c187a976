"""Starts debugpy in a worker before its own program; Python's `site` imports this by its name.

The worker's Python imports it, so it imports only the standard library, and debugpy. The program
then finds sys.path, the environment and another `sitecustomize` as if this did not exist.

debugpy only knows TCP. It is made to accept connections on the unix socket that the worker has
inherited: there is no port, and the kernel says which user has connected.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

QUIET = "PYDEVD_DISABLE_FILE_VALIDATION"
"""The variable that keeps pydevd from warning of Python's frozen modules."""


class AdapterLine(socket.socket):
    """A connection of a debug adapter; if it just ends, the program goes on without breakpoints."""

    newest: AdapterLine | None = None

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return bytes of the adapter."""
        data = super().recv(size, flags)
        if not data and AdapterLine.newest is self:
            api = import_module("_pydevd_bundle.pydevd_api").PyDevdAPI()
            api.request_disconnect(pydevd().get_global_debugger(), resume_threads=True)
        return data


class AdapterListener:
    """A Unix socket that debugpy takes for a listening TCP socket."""

    def __init__(self, listener: socket.socket, greeting: bytes) -> None:
        """Accept from `listener`; each adapter is sent the greeting first."""
        self._listener = listener
        self._greeting = greeting

    def listen(self, _backlog: int) -> None:
        """Do nothing: it listens already."""

    def getsockname(self) -> tuple[str, int]:
        """Return an address as of TCP; nobody uses it."""
        return "127.0.0.1", 0

    def accept(self) -> tuple[socket.socket, str]:
        """Wait for a connection of this user or of root, as SO_PEERCRED of unix(7) says."""
        while True:
            line, _ = self._listener.accept()
            credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            if struct.unpack("3i", credentials)[1] in {0, os.getuid()}:
                line.sendall(self._greeting)
                AdapterLine.newest = AdapterLine(fileno=line.detach())
                return AdapterLine.newest, ""
            line.close()

    def close(self) -> None:
        """Accept no more."""
        self._listener.close()


def pydevd() -> Any:
    """Return debugpy's module that accepts connections; it exists once debugpy is loaded."""
    return import_module("pydevd")


def debug(fd: int, *, wait: bool) -> None:
    """Let adapters connect to a listening socket; with `wait`, return once an editor is ready."""
    listener = socket.socket(fileno=fd)
    listener.setblocking(True)
    os.set_inheritable(fd, False)
    os.register_at_fork(after_in_child=listener.close)
    before = set(os.environ)
    os.environ.setdefault(QUIET, "1")
    server: Any = import_module("debugpy")
    import_module("debugpy.server")  # which finds pydevd
    for name in os.environ.keys() - before:
        del os.environ[name]  # debugpy sets others
    place = os.path.dirname(os.path.dirname(server.__file__))
    greeting = json.dumps([sys.executable, place]).encode() + b"\n"
    adapters = AdapterListener(listener, greeting)
    pydevd().create_server_socket = lambda **_address: adapters
    server.configure(subProcess=False)
    server.listen(("127.0.0.1", 0), in_process_debug_adapter=True)
    if wait:
        server.wait_for_client()


def remove_hook(folder: str) -> None:
    """Remove this folder from where Python looks for modules, and run the next `sitecustomize`."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    sys.path[:] = [one for one in sys.path if one != folder]
    _, _, rest = os.environ["PYTHONPATH"].partition(":")
    if os.environ["PYTHONPATH"] == folder:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = rest
    found = PathFinder.find_spec("sitecustomize")
    if found is not None and found.loader is not None:
        module: Any = module_from_spec(found)
        sys.modules["sitecustomize"] = module
        found.loader.exec_module(module)


def main() -> None:
    """Leave no trace, then start debugpy; a worker that cannot be debugged runs without it.

    Until debugpy runs, SIGINT ends the worker at once: debugpy swallows KeyboardInterrupt in some
    places.
    """
    fd, _, wait = os.environ.pop("DSRUN_DEBUG", "").partition(":")
    if not fd:
        return
    remove_hook(os.path.dirname(os.path.abspath(__file__)))
    on_interrupt = signal.getsignal(signal.SIGINT)
    if on_interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        debug(int(fd), wait=bool(wait))
    except Exception as error:
        sys.stderr.write(f"dsrun: this worker cannot be debugged: {error!r}\n")
    finally:
        signal.signal(signal.SIGINT, on_interrupt)


main()
