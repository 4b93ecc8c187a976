"""Calls a function in a worker, and reports its result or exception.

This is the program of a job that consists of a Python function. The worker's Python runs it as a
file, so it imports only the standard library, and cloudpickle. Its arguments are two descriptors: a
file with the payload, and the pipe for the report. Both begin with a line of JSON, followed by
pickled data.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from importlib.util import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

RETURNED, RAISED = "returned", "raised"


class NotLoaded(Exception):
    """The payload cannot be used by this Python."""


def main() -> int:
    """Call the function; return the exit code.

    Raises:
        SystemExit: the function has exited its process.
        KeyboardInterrupt: the function was interrupted.
    """
    payload, sink = map(int, sys.argv[1:3])
    del sys.argv[1:]
    os.set_inheritable(sink, False)
    try:
        value = _load(_read(payload))()
        report = _returned(value)
    except BaseException as error:
        error.__traceback__ = _own_removed(error.__traceback__)
        done = isinstance(error, SystemExit) and error.code in {None, 0}
        _write(sink, _returned(None) if done else _raised(error))
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            raise
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    _write(sink, report)
    return 0


def _read(fd: int) -> bytes:
    data = os.pread(fd, os.fstat(fd).st_size, 0)
    os.close(fd)
    return data


def _write(fd: int, data: bytes) -> None:
    with open(fd, "wb") as sink:
        sink.write(data)


def _load(data: bytes) -> Callable[[], object]:
    """Return the call that a payload describes.

    Raises:
        NotLoaded: it cannot be unpickled here.
    """
    head, _, body = data.partition(b"\n")
    sent = json.loads(head)
    here = list(sys.version_info[:2])
    if sent["python"] != here:
        there, own = (".".join(map(str, one)) for one in (sent["python"], here))
        raise NotLoaded(f"the function was sent by Python {there}, but this is Python {own}")
    if find_spec("cloudpickle") is None:
        raise NotLoaded(
            "the Python package cloudpickle, needed to send functions, is not installed here; run"
            f" `{sys.executable} -m pip install cloudpickle`"
        )
    # The folder of this file comes first: its modules must not hide others.
    own_folder = os.path.dirname(os.path.abspath(__file__))
    rest = [folder for folder in sys.path if folder != own_folder]
    sys.path[:] = [*(one for one in sent["path"] if one not in rest), *rest]
    try:
        function, args, kwargs = pickle.loads(body)
    except Exception as error:
        raise NotLoaded(f"the function cannot be loaded: {_words(error)}") from error
    return lambda: function(*args, **kwargs)


def _returned(value: object) -> bytes:
    """Return the report of a value.

    Raises:
        TypeError: it cannot be pickled.
    """
    try:
        body = _dumps(value)
    except Exception as error:
        kind = type(value).__name__
        raise TypeError(f"the result, a {kind}, cannot be pickled: {_words(error)}") from error
    return _packed(RETURNED, "", "", body)


def _raised(error: BaseException) -> bytes:
    """Return the report of an exception: as text, and pickled if that is possible."""
    import traceback

    parts = traceback.format_exception(type(error), error, error.__traceback__)
    try:
        body = _dumps(error)
        pickle.loads(body)  # as some exceptions can be pickled, but not unpickled
    except Exception:
        body = b""
    return _packed(RAISED, _words(error), "".join(parts), body)


def _packed(state: str, words: str, text: str, body: bytes) -> bytes:
    head = {"state": state, "words": words, "text": text, "size": len(body)}
    return json.dumps(head).encode() + b"\n" + body


def _dumps(value: Any) -> bytes:
    import cloudpickle

    data: bytes = cloudpickle.dumps(value)
    return data


def _words(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _own_removed(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return frames


if __name__ == "__main__":
    sys.exit(main())
