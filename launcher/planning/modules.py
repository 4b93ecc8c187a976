"""Modules that lie in the workers' folder: which hide installed ones, which a job has missed."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

LOOKED_AT = 2000
"""Entries of the folder that are looked at: a start is not to wait for a folder full of data."""

SHOWN = 5
"""Names in a line for the user."""


def warning(folder: str, tool: str) -> list[str]:
    """Return a line for the user where `folder`, first on PYTHONPATH, hides installed modules.

    Args:
        folder: where the workers run.
        tool: the python of the workers, or the file that activates their environment, as they lie
            in its `bin`; a folder or "" for the python that this runs on.
    """
    prefix = os.path.dirname(os.path.dirname(tool)) if os.path.isfile(tool) else ""
    found = hidden(folder, installed(prefix))
    if not found:
        return []
    names = ", ".join(found[:SHOWN]) + (" and more" if len(found) > SHOWN else "")
    return [
        f"PYTHONPATH begins with {folder} on several nodes, as deepspeed has it: what lies there "
        f"hides the installed {names} (with torchrun's --nproc_per_node it does not)"
    ]


def hidden(folder: str, installed: Collection[str]) -> list[str]:
    """Return the installed modules that are hidden where `folder` is first on PYTHONPATH.

    A folder without `__init__.py` hides none: it counts only where there is nothing else (PEP 420).
    """
    from itertools import islice

    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, LOOKED_AT)]
    except OSError:
        return []
    files = {name.removesuffix(".py") for name in names if name.endswith(".py")}
    folders = [one for one in names if one in installed and _is_package(folder, one)]
    return sorted({*folders, *files.intersection(installed)})


def installed(prefix: str = "") -> set[str]:
    """Return the names of the modules that a python has, without importing any.

    Args:
        prefix: the folder of its environment; "" for the python that this runs on.
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
