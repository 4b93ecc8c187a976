"""Imports the modules that the user has named, and reports their effects."""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback

from . import node_environment as environment
from . import node_libraries as libraries
from . import node_safety as safety
from .node_process_changes import ProcessSurroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import Any

_SITES = ("/site-packages/", "/dist-packages/")
_LIBRARY = f"{os.path.dirname(os.__file__)}/"


class ImportedModules:
    """The result of the imports.

    Attributes:
        report: the answer to the node launcher (see `process`).
        changed: variables that modules have set, or removed (None).
        own: variables that Python itself has set at its start.
        before: the state of the process before the imports.
        foreign: the modules that a new interpreter would not have, by their names, without those in
            packages.
        libraries: the libraries that modules have loaded. None if libraries were loaded before that
            Python does not need, as with LD_PRELOAD: a profiler may write its results when the
            process ends.
    """

    def __init__(
        self,
        report: dict[str, Any],
        changed: dict[bytes, bytes | None],
        own: dict[bytes, bytes | None],
        before: ProcessSurroundings,
        foreign: set[str],
        libraries: set[str] | None,
    ) -> None:
        self.report = report
        self.changed = changed
        self.own = own
        self.before = before
        self.foreign = foreign
        self.libraries = libraries


def preload(
    modules: Sequence[str], folders: Sequence[str], usual: Collection[str]
) -> ImportedModules:
    """Import modules; exceptions that they raise are reported.

    `usual` are the modules that every interpreter has when it begins to run a script.
    """
    variables, surroundings, began = environment.initial(), ProcessSurroundings(), time.time_ns()
    began_with = environment.current()
    known, injected = safety.open_files(), safety.other_libraries()
    with environment.observed() as read:
        outcome = _import_all(modules, folders)
    changed = environment.changes(began_with, environment.current())
    own = environment.changes(variables, began_with)
    unsafe = safety.problem(known)
    report = {
        **outcome,
        "unsafe": surroundings.restore() or unsafe,
        "read": environment.values(read, variables),
        "prefixes": libraries.PREFIXES,
        "cpus": safety.counted_cpus(variables),
        **sources(_imported_files(), began),
    }
    loaded = None if injected else safety.other_libraries()
    return ImportedModules(report, changed, own, surroundings, _foreign(usual), loaded)


def _foreign(usual: Collection[str]) -> set[str]:
    found = set()
    for name in sys.modules.keys() - {*usual}:
        origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None)
        # These two kinds come from the interpreter, whatever is first on the path.
        if "." not in name and origin not in {"built-in", "frozen"}:
            found.add(name)
    return found


def _import_all(modules: Sequence[str], folders: Sequence[str]) -> dict[str, Any]:
    done: list[str] = []
    missing: dict[str, str] = {}
    failed: dict[str, str] = {}
    for name in modules:
        try:
            _import(name, folders)
        except ModuleNotFoundError as error:
            missing[name] = str(error)  # the script may know where it is, or do without
        except BaseException as error:  # a module that calls sys.exit, too
            failed[name] = traceback.format_exception_only(type(error), error)[-1].strip()
        else:
            done.append(name)
    return {"modules": done, "missing": missing, "failed": failed}


def _import(name: str, folders: Sequence[str]) -> None:
    """Import a module, from one of the workers' folders only if it is nowhere else."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not folders or not f"{name}.".startswith(f"{error.name}."):
            raise
        sys.path[:0] = folders
        try:
            importlib.import_module(name)
        finally:
            for folder in folders:
                sys.path.remove(folder)


def _imported_files() -> Iterator[str]:
    """Yield the files of all modules except this program's."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and name != "__main__" and not name.startswith(f"{__package__}"):
            yield os.path.abspath(file)


def sources(files: Iterable[str], began: int) -> dict[str, Any]:
    """Return the origins of these files' code, with times: `files` and `folders`.

    The standard library is left out, and for installed code the folder is enough. A file that has
    changed since `began` (ns since 1970) may differ from the imported one: its time is -1.
    """
    found: dict[str, list[int]] = {}
    folders: dict[str, int] = {}
    for file in files:
        site = next((file.partition(one)[0] + one[:-1] for one in _SITES if one in file), "")
        if site:
            folders[environment.text(os.fsencode(site))] = _time_and_size(site, began)[0]
        elif not file.startswith(_LIBRARY):
            found[environment.text(os.fsencode(file))] = _time_and_size(file, began)
    return {"files": found, "folders": folders}


def _time_and_size(path: str, began: int) -> list[int]:
    try:
        status = os.stat(path)
    except OSError:
        return [-1, -1]
    return [status.st_mtime_ns if status.st_mtime_ns < began else -1, status.st_size]
