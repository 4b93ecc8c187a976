"""Find modules in the workers' folder that hide installed ones."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

MAX_ENTRIES = 2000
"""Entries of the folder to check: a folder full of data must not delay the start."""

SHOWN = 5
"""Names in a message."""


def warning(folder: str, tool: str) -> list[str]:
    """Return a line for the user if `folder`, first on PYTHONPATH, hides installed modules.

    Args:
        folder: the workers' folder.
        tool: the workers' python, or the file that activates their environment, in its folder
            `bin`; a folder or "" for the python that this process runs on.
    """
    prefix = os.path.dirname(os.path.dirname(tool)) if os.path.isfile(tool) else ""
    modules = hidden(folder, installed(prefix))
    if not modules:
        return []
    names = ", ".join(modules[:SHOWN]) + (" and more" if len(modules) > SHOWN else "")
    return [
        f"on several nodes PYTHONPATH begins with {folder}, as with deepspeed, so modules in that "
        f"folder hide the installed {names} (not so with torchrun's --nproc_per_node)"
    ]


def hidden(folder: str, installed: Collection[str]) -> list[str]:
    """Return the installed modules that are hidden if `folder` is first on PYTHONPATH.

    A folder without `__init__.py` hides none: it has the lowest precedence (PEP 420).
    """
    from itertools import islice

    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MAX_ENTRIES)]
    except OSError:
        return []
    files = {name.removesuffix(".py") for name in names if name.endswith(".py")}
    folders = [one for one in names if one in installed and _is_package(folder, one)]
    return sorted({*folders, *files.intersection(installed)})


def installed(prefix: str = "") -> set[str]:
    """Return the names of a python's modules, without importing any.

    Args:
        prefix: the folder of its environment; "" for the python that this process runs on.
    """
    names = set(sys.stdlib_module_names)
    for folder in _site_packages(prefix):
        try:
            names.update(name.removesuffix(".py") for name in os.listdir(folder))
        except OSError:
            continue
    return names


def _is_package(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name, "__init__.py"))


def _site_packages(prefix: str) -> list[str]:
    if not prefix:
        return [one for one in sys.path if one.endswith(("site-packages", "dist-packages"))]
    from glob import escape, glob

    return glob(f"{escape(prefix)}/lib/python3*/site-packages")
