"""Preloaded modules that a program has not imported: they must not delay its end.

At its end, Python dismantles every module in `sys.modules`, and then exit(3) calls functions that
libraries have registered: with torch, each of the two takes several tenths of a second. Preloaded
modules are therefore kept elsewhere until one of them is imported. If none is, their libraries were
never used, and their registered functions are not called.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec

from . import node_safety as safety

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import ModuleType
    from typing import Any

_libc = ctypes.CDLL(None)


class Unused:
    """Finds the kept modules: the first on `sys.meta_path` (`importlib.abc.MetaPathFinder`)."""

    def __init__(self, kept: dict[str, ModuleType], restored: Callable[[], None]) -> None:
        self.kept = kept
        self._restored = restored
        # Python must not free them at its end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        """Describe a kept module; importing it restores all."""
        if name not in self.kept:
            return None
        module = self.kept[name]
        known = getattr(module, "__spec__", None)
        spec = ModuleSpec(name, _Loader(self, module), origin=getattr(known, "origin", None))  # type: ignore[arg-type]
        spec.has_location = getattr(known, "has_location", False)
        spec.submodule_search_locations = getattr(module, "__path__", None)
        return spec

    def restore(self) -> None:
        """Put all modules where they were: they refer to each other."""
        sys.modules.update(self.kept)
        self.kept.clear()
        self._restored()


class _Loader:
    """Loads a kept module (`importlib.abc.Loader`): it is there already."""

    def __init__(self, unused: Unused, module: ModuleType) -> None:
        self._unused = unused
        self._module = module
        self._spec = getattr(module, "__spec__", None)

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        """Return the module, which has this spec during its import."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Restore all modules."""
        module.__spec__ = self._spec
        self._unused.restore()


def put_aside(
    foreign: Collection[str],
    libraries: Collection[str] | None,
    restored: Callable[[], None] = lambda: None,
) -> None:
    """Keep modules out of `sys.modules` until one of them is imported.

    Modules of the standard library stay: many programs import them, and they are quickly freed.

    Args:
        foreign: the names of modules that are not in packages, and of packages.
        libraries: the libraries of these modules. Unless a module is imported, or other libraries
            are loaded, functions registered with exit(3) are skipped; None skips none.
        restored: is called once they are restored.
    """
    names = {*foreign} - sys.stdlib_module_names
    kept = {name: one for name, one in sys.modules.items() if name.partition(".")[0] in names}
    if not kept:
        return
    for name in kept:
        del sys.modules[name]
    sys.meta_path.insert(0, Unused(kept, restored))
    if libraries is not None:
        atexit.register(_skip_handlers, kept, libraries)  # called after the program's own


def _skip_handlers(kept: dict[str, ModuleType], libraries: Collection[str]) -> None:
    """Let exit(3) flush files and end the process, before it calls anything else.

    A library that was loaded later may have registered a function: then all are called.
    """
    with suppress(OSError, AttributeError):  # no /proc, or musl: it has no on_exit
        if kept and safety.other_libraries() == libraries:
            _libc.on_exit(_libc._exit, None)  # gets the status; the last registered function is ...
            _libc.__cxa_atexit(_libc.fflush, None, None)  # ... called first
