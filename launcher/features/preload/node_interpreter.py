"""Python's internal state, reset at the start of a script as in a new interpreter."""

from __future__ import annotations

import functools
import io
import os
import pkgutil
import runpy
import sys
from importlib.machinery import SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import CodeType
    from typing import Any

_OWN = f"{os.path.dirname(os.path.abspath(__file__))}/"


class NotResettable(Exception):
    """Python must be executed again; the message is the reason for the user, or ""."""


class CommandProgram:
    """The program that a command runs.

    Attributes:
        words: the whole command.
        code: the code of the script, None for a module.
        folders: the folders that Python puts first on `sys.path`.
    """

    def __init__(self, words: list[str], code: CodeType | None, folders: Sequence[str]) -> None:
        self.words = words
        self.code = code
        self.folders = folders


def program(argv: Sequence[bytes], path: Sequence[str], foreign: Collection[str]) -> CommandProgram:
    """Return the program that a command runs, if this process can run the program.

    Args:
        argv: the command.
        path: folders that come first on `sys.path`, but after the script's.
        foreign: the modules that a new interpreter would not have, by their names.

    Raises:
        NotResettable: Python runs something other than a source file or a module; or the worker
            would import another module than one of these.
    """
    words = [os.fsdecode(word) for word in argv]
    if words[1:2] != ["-u"] or len(words) < 3 + (words[2:3] == ["-m"]):
        raise NotResettable
    code = None if words[2] == "-m" else _code(words[2])
    folders = [*path] if getattr(sys.flags, "safe_path", False) else [_folder(words[2]), *path]
    for folder in folders:
        if name := hidden(folder, foreign):
            raise NotResettable(f"{folder} has a different module {name!r} from the preloaded one")
    return CommandProgram(words, code, folders)


def _code(script: str) -> CodeType:
    path = os.path.join(os.getcwd(), script)
    if not _is_source(path):
        raise NotResettable
    try:
        with open(path, "rb") as file:
            return compile(file.read(), path, "exec", dont_inherit=True)
    except BaseException:
        raise NotResettable from None  # Python itself reports the reason


def _folder(script: str) -> str:
    """Return the folder that Python searches first: the script's own, even through a link."""
    return os.getcwd() if script == "-m" else os.path.dirname(os.path.realpath(script))


def _is_source(path: str) -> bool:
    """Return whether Python runs a file as source: no byte code, archive or folder."""
    plain = not path.endswith(".pyc") and pkgutil.get_importer(path) is None
    sys.path_importer_cache.pop(path, None)
    return plain


def hidden(folder: str, foreign: Collection[str]) -> str:
    """Return one of these modules that would be imported from a folder instead, or ""."""
    try:
        entries = os.listdir(folder)
    except OSError:
        return ""
    for entry in sorted(entries):
        name, _, ending = entry.partition(".")
        package = not ending and os.path.exists(os.path.join(folder, name, "__init__.py"))
        code = package or ending == "py" or ending.endswith("so")
        if code and name in foreign and not _is_in(folder, name):
            return name
    return ""


def _is_in(folder: str, name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return os.path.realpath(file).startswith(f"{folder}/")


def renewed(program: CommandProgram, fresh: Mapping[str, Any]) -> Callable[[], object]:
    """Reset this interpreter like a new one; return a function that runs the program.

    `fresh` has Python's own names in the `__main__` of any script.
    """
    sys.orig_argv[:] = program.words
    sys.argv[:] = program.words[2:]
    sys.path[:0] = program.folders
    _clear_folder_caches()
    _renew_stdin()
    _renew_modules()
    for name in [one for one in sys.modules if one.startswith(f"{__package__}")]:
        del sys.modules[name]
    # A new module: garbage collections exclude objects from before the fork (gc.freeze).
    sys.modules["__main__"] = module = type(sys)("__main__")
    if "__mp_main__" in sys.modules:  # multiprocessing's second name of `__main__`
        sys.modules["__mp_main__"] = module
    main = vars(module)
    main.update({**fresh, "__doc__": None})
    return functools.partial(_run, program.code, main)


def _clear_folder_caches() -> None:
    """Make module searches read folders again, as `importlib.invalidate_caches` does."""
    for path, finder in list(sys.path_importer_cache.items()):
        if finder is None:
            del sys.path_importer_cache[path]
        elif hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()


def _renew_stdin() -> None:
    """Open standard input as Python does at its start (`create_stdio` in pylifecycle.c).

    Standard output and error stay: they write at once (-u), and to a pipe as before.
    """
    old = sys.__stdin__
    if not isinstance(old, io.TextIOWrapper):
        return
    file = open(0, "rb", -1, closefd=False)  # noqa: SIM115
    file.raw.name = "<stdin>"  # type: ignore[attr-defined]
    new = io.TextIOWrapper(file, old.encoding, old.errors, "\n", write_through=True)
    new.mode = "r"  # type: ignore[misc]
    sys.stdin = sys.__stdin__ = new  # type: ignore[misc]


def _renew_modules() -> None:
    """Renew the facts about this process that modules stored when they were imported."""
    if threading := sys.modules.get("threading"):
        threading.main_thread()._set_native_id()
    if process := sys.modules.get("multiprocessing.process"):
        process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
        process.current_process().authkey = os.urandom(32)
    # Python's own generator has a fork handler; those of torch's devices start with a fixed seed.
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()
    if generator := getattr(sys.modules.get("torch"), "default_generator", None):
        generator.seed()


def _run(code: CodeType | None, main: dict[str, Any]) -> None:
    """Run the program in `__main__`; exceptions look as if Python had called it directly.

    Exit handlers find no `__file__` of a script that has ended; from Python 3.14 on, also not after
    a call of sys.exit() (`_PyRun_SimpleFile` in pythonrun.c).
    """
    try:
        if code is None:
            runpy._run_module_as_main(sys.argv.pop(1))  # type: ignore[attr-defined]
        else:
            path = code.co_filename
            main.update(__file__=path, __loader__=SourceFileLoader("__main__", path))
            exec(code, main)
            main.pop("__file__", None)
    except BaseException as error:
        if code is not None and isinstance(error, SystemExit) and sys.version_info >= (3, 14):
            main.pop("__file__", None)
        _leave_us_out(error)
        raise


def _leave_us_out(error: BaseException) -> None:
    shown, show = error.__traceback__, sys.excepthook
    while shown is not None and shown.tb_frame.f_code.co_filename.startswith(_OWN):
        shown = shown.tb_next
    sys.excepthook = lambda kind, one, _trace: show(kind, one.with_traceback(shown), shown)
