"""Code that a worker runs before its own program, so that it can report its position later.

Python imports a module of this name at its start. The folder of this file comes first on
PYTHONPATH of a worker, and this program needs only the standard library of Python 3.10. What the
worker sees is as without it: the variables, `sys.path` and `sys.modules`, and the machine's or the
user's own module of this name, which is imported next. Nothing here may fail or print anything.

1. A crash is reported on standard error with the stacks of all threads (`faulthandler`), unless the
   user has already asked for that.
2. `SIGNAL` makes the process write its stacks into a file in memory, which needs no lock of Python.
   Processes that it forks inherit this; programs that it executes do not.
3. Once `torch.distributed` is imported, a thread waits on a pipe. For each byte it writes the
   records of torch's flight recorder, and the stack of the main thread, into another file in
   memory. torch's own server for this (`_WorkerServer`, 2.13) would print a line and start a thread
   for each core.

The node launcher finds the files and the pipe by the names of the files, in /proc/PID/fd.
"""

import _thread
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any

SIGNAL = 62
"""A real-time signal without other known uses; it is sent only to processes that handle it."""

STACKS = "dsrun-stacks-"
"""Beginning of the name of the file with stacks; the version of Python follows, such as 3.14."""

COLLECTIVES = "dsrun-collectives-"
"""Beginning of the name of the other file; the descriptor of the pipe follows."""

TORCH = "torch.distributed.distributed_c10d"

_DUMPS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")
"""torch's functions that return what has been recorded (torch 2.4 to 2.13), as JSON."""

MAIN_THREAD = "main_thread"
"""The name under which an answer has the stack of the main thread, the innermost frame first."""

_MOST_FRAMES = 100
"""Greatest number of frames of a stack that are reported."""

_MAIN = _thread.get_ident()
"""The main thread, in which this file is run."""

_HIGH = (1000, 500, 250)
"""Our descriptors are near these numbers: the program's descriptors get their usual ones."""


def arm() -> None:
    """Prepare this process for questions; what is not possible is left out."""
    for prepare in (_report_crashes, _await_signal, _await_torch):
        try:
            prepare()
        except Exception:
            continue


def _report_crashes() -> None:
    import faulthandler

    if not faulthandler.is_enabled():
        faulthandler.enable()


def _await_signal() -> None:
    import faulthandler

    file = os.memfd_create(f"{STACKS}{sys.version_info[0]}.{sys.version_info[1]}")
    # It is emptied now and then from outside: whatever is written belongs at its end.
    end = os.open(f"/proc/self/fd/{file}", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    os.close(file)
    faulthandler.register(SIGNAL, file=_high(end), all_threads=True)


def _high(fd: int) -> int:
    """Move a descriptor out of the way of those that the program opens; return its new number."""
    for start in _HIGH:
        for number in range(start, start + 10):
            try:
                os.fstat(number)
            except OSError:
                try:
                    os.dup2(fd, number, inheritable=False)
                except OSError:  # above the limit of this process
                    break
                os.close(fd)
                return number
    return fd


def _await_torch() -> None:
    if TORCH in sys.modules:
        _offer_collectives()
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Waits for the import of one module, and is gone after it."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != TORCH:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _call_after(spec.loader)
                return spec
        return None


def _call_after(loader: "Any") -> None:
    """Make a loader call `_offer_collectives` once it has loaded its module."""
    load = loader.exec_module

    def exec_module(module: "ModuleType") -> None:
        del loader.exec_module
        load(module)
        try:
            _offer_collectives()
        except Exception:
            return

    # As one of Python's own frames it is left out of tracebacks.
    exec_module.__code__ = exec_module.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    loader.exec_module = exec_module


def _offer_collectives() -> None:
    recorder = sys.modules["torch._C._distributed_c10d"]
    dumps = [getattr(recorder, name) for name in _DUMPS if hasattr(recorder, name)]
    asks, _asking = map(_high, os.pipe())
    answers = _high(os.memfd_create(f"{COLLECTIVES}{asks}"))
    _thread.start_new_thread(_serve, (asks, answers, dumps))


def _serve(asks: int, answers: int, dumps: "Sequence[Callable[[], Any]]") -> None:
    """Answer each byte with a list of what the recorders have, the stack, and the end of a line."""
    try:
        import json
        import signal

        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while os.read(asks, 1):
            found = [dump() for dump in dumps]
            found.append(json.dumps({MAIN_THREAD: _frames()}))
            texts = [one if isinstance(one, bytes) else one.encode() for one in found]
            os.ftruncate(answers, 0)
            os.pwrite(answers, b"[%s]\n" % b",".join(texts), 0)
    except BaseException:
        return


def _frames() -> "list[str]":
    """Return the stack of the main thread; this thread has Python's lock, so it stands still."""
    found: list[str] = []
    frame = sys._current_frames().get(_MAIN)
    while frame is not None and len(found) < _MOST_FRAMES:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)  # from Python 3.11 on
        found.append(f"{name} ({code.co_filename}:{frame.f_lineno})")
        frame = frame.f_back
    return found


def leave_no_trace() -> None:
    """Make the variables, the path and the modules those that this worker has without this file."""
    folder = os.path.dirname(os.path.abspath(__file__))
    first, _, rest = os.environ.get("PYTHONPATH", "").partition(":")
    if first == folder:
        if rest:
            os.environ["PYTHONPATH"] = rest
        else:
            del os.environ["PYTHONPATH"]
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path_importer_cache.pop(folder, None)


def _run() -> None:
    before = {*sys.modules}
    try:
        leave_no_trace()
        arm()
        for name in sys.modules.keys() - before:
            del sys.modules[name]
    except Exception:
        pass
    # The import statement whose module this is takes what is found here in its place; if there is
    # none, it fails as it would have done.
    del sys.modules["sitecustomize"]
    __import__("sitecustomize")


if __name__ == "sitecustomize":
    _run()
