"""The program of a spare worker: it imports modules, waits for its order, and becomes the worker.

It is run by the Python of the workers. Its two arguments are inserted into the worker's own
command, and it removes them again:

    python -u warm_process.py MODULES [-m] SCRIPT ARGUMENTS...

Standard input is a socket. It sends one byte when the modules are imported. What it receives up to
the end of the stream is the order: the variables of the worker's round as JSON, with null for the
one that names the descriptor which comes with it. The end of the stream without an order means that
the worker is not needed.

The script runs as with `python script.py`: with a new `__main__`, its folder first on `sys.path`
and its arguments; tracebacks and exit codes are the same. If that is not possible, this process
executes `python script.py`, which imports for itself.
"""

import importlib
import json
import os
import pkgutil
import runpy
import socket
import sys
from importlib.machinery import SourceFileLoader

FRESH = {name: value for name, value in globals().items() if name.startswith("__")}
"""What Python puts into the `__main__` of any script, as this file is one."""


def main() -> None:
    """Import, wait, and run the script."""
    line = _take_line()
    modules = sys.argv[1].split(",")
    at = sys.orig_argv.index(sys.argv[0])  # a wrapper may have added options of Python's
    del sys.argv[:2], sys.orig_argv[at : at + 2]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = _folder()
    sound = all(_import(name) for name in modules)
    os.write(line, b"+")
    os.environb.update(_order(line))
    try:
        _become(sys.argv[0], sound=sound)
    except BaseException as error:
        _leave_us_out(error)
        raise


def _take_line() -> int:
    """Return the socket; standard input is from now on what a worker has."""
    line, null = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return line


def _folder() -> str:
    """Return where Python looks first: beside the script itself, not beside a link to it."""
    script = sys.argv[0]
    return os.getcwd() if script == "-m" else os.path.dirname(os.path.realpath(script))


def _import(name: str) -> bool:
    """Import a module; return False if it failed, as it may have left something half done."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return True  # the script may know where it is, or do without
    except BaseException:
        return False
    return True


def _order(line: int) -> "dict[bytes, bytes]":
    """Return the variables to be set, once they come."""
    with socket.socket(fileno=line) as stream:
        data, fds, _, _ = socket.recv_fds(stream, 65536, 1)
        while block := stream.recv(65536):
            data += block
    if not data:
        os._exit(0)
    order = json.loads(data).items()
    return {_bytes(name): _passed(fds) if value is None else _bytes(value) for name, value in order}


def _passed(fds: "list[int]") -> bytes:
    """Return the descriptor that came with the order, as the shard queues name it."""
    (fd,) = fds
    os.set_inheritable(fd, True)
    return b"%d:%d" % (fd, os.fstat(fd).st_ino)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _become(script: str, *, sound: bool) -> None:
    path = os.path.join(os.getcwd(), script)
    if sound and script == "-m":
        _be_main()
        runpy._run_module_as_main(sys.argv.pop(1))  # type: ignore[attr-defined]
    elif sound and _is_text(path):
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        exec(code, _be_main(__file__=path, __loader__=SourceFileLoader("__main__", path)))
    else:
        os.execv(sys.executable, sys.orig_argv)


def _is_text(path: str) -> bool:
    """Return whether Python runs a file as source: readable, no byte code, archive or folder."""
    plain = not path.endswith(".pyc") and pkgutil.get_importer(path) is None
    return plain and os.access(path, os.R_OK)


def _be_main(**more: object) -> "dict[str, object]":
    """Put a new `__main__` in place of this one; returns its namespace."""
    sys.modules["__main__"] = main = type(sys)("__main__")
    vars(main).update({**FRESH, "__doc__": None, **more})
    return vars(main)


def _leave_us_out(error: BaseException) -> None:
    """Remove the frames of this file from the traceback."""
    shown, show = error.__traceback__, sys.excepthook
    while shown is not None and shown.tb_frame.f_code.co_filename == __file__:
        shown = shown.tb_next
    sys.excepthook = lambda kind, one, _trace: show(kind, one.with_traceback(shown), shown)


if __name__ == "__main__":
    main()
