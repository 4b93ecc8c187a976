"""Connects one editor with one worker: the program `debug` (`node.programs`).

Its argument is the name of the worker's socket. It becomes debugpy's adapter, run by the worker's
own Python, and ends with the editor's input or with the worker.
"""

from __future__ import annotations

import os
import sys
from _socket import AF_UNIX, SOCK_STREAM, socket

from ...common.errors import reason
from ...common.text import read_json
from ...control import local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ADAPTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "adapter.py")

LONGEST = 16 * 1024
"""Bytes of the worker's first line."""


def main(arguments: Sequence[str]) -> int:
    """Become the adapter; return 1 if the worker is gone."""
    (name,) = arguments
    line = socket(AF_UNIX, SOCK_STREAM)
    try:
        line.connect(f"\0{local.address('debug', name)}")
        if not local.trusted(line):
            raise PermissionError("its socket belongs to another user")
        python, place = _greeting(line)
        os.set_inheritable(line.fileno(), True)
        os.execv(python, [python, "-I", ADAPTER, str(line.fileno()), place])
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else f"{error}"
        sys.stderr.write(f"{why}\n")
    line.close()
    return 1


def _greeting(line: socket) -> tuple[str, str]:
    """Wait for the worker; return its Python, and the folder of its debugpy.

    Raises:
        ValueError: the worker has ended, or has sent something else.
    """
    text = bytearray()
    while not text.endswith(b"\n"):  # byte by byte: what follows is for the adapter
        byte = line.recv(1)
        if not byte or len(text) > LONGEST:
            raise ValueError("the worker has exited or cannot be debugged")
        text += byte
    match read_json(text):
        case [str(python), str(place)]:
            return python, place
    raise ValueError("the worker's answer does not name its Python")
