"""The workers' Python: its version and the folders it imports from, found without running it.

A start takes as long as a whole node launcher, and an import of torch takes seconds.
Source: Python's site module and PEP 405 (pyvenv.cfg).
"""

from __future__ import annotations

import os
import re
import sys

from ...common import files, system
from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Interpreter(NamedTuple):
    """A Python on this machine.

    Attributes:
        path: the path as given.
        version: such as `3.11.2`; `3.11` or "" if only that is found.
        folders: the existing folders that it imports packages from, in order.
    """

    path: str
    version: str
    folders: tuple[str, ...]


def interpreter(path: str, environ: Mapping[str, str]) -> Interpreter:
    """Return the facts about a Python with the workers' environment."""
    real = os.path.realpath(path)
    config = _config(path)
    base = os.path.realpath(config["home"]) if "home" in config else os.path.dirname(real)
    version = _version(real, config)
    short = ".".join(version.split(".")[:2])
    apart = bool(config) and config.get("include-system-site-packages") != "true"
    folders = [one for one in environ.get("PYTHONPATH", "").split(":") if one]
    if not apart and "PYTHONNOUSERSITE" not in environ:
        folders.append(_user_base(environ) + f"/lib/python{short}/site-packages")
    if config:
        folders += _of(os.path.dirname(os.path.dirname(os.path.abspath(path))), short)
    if not apart:
        folders += _of(os.path.dirname(base), short)
    existing: dict[str, str] = {}
    for folder in filter(system.isdir, folders):
        existing.setdefault(os.path.realpath(folder), folder)
    return Interpreter(path, version, tuple(existing.values()))


def _of(prefix: str, short: str) -> Iterator[str]:
    """Yield the package folders of an installation, including Debian's special ones."""
    if prefix == "/usr":
        yield f"/usr/local/lib/python{short}/dist-packages"
        yield "/usr/lib/python3/dist-packages"
    for lib in ("lib", "lib64"):
        yield f"{prefix}/{lib}/python{short}/site-packages"


def _user_base(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") or files.home() or "/"
    return environ.get("PYTHONUSERBASE") or os.path.join(home, ".local")


def _config(path: str) -> dict[str, str]:
    """Return the settings of a virtual environment, {} for another Python."""
    folder = os.path.dirname(os.path.abspath(path))
    for place in (folder, os.path.dirname(folder)):
        try:
            with system.open_file(
                f"{place}/pyvenv.cfg", encoding="utf-8", errors="replace"
            ) as file:
                pairs = (line.partition("=") for line in file.read(65536).splitlines())
                return {name.strip().lower(): value.strip() for name, _, value in pairs}
        except OSError:
            continue
    return {}


def _version(real: str, config: Mapping[str, str]) -> str:
    """Return the version of a Python: our own if it is ours, else from its files."""
    if real == os.path.realpath(sys.executable):
        return ".".join(map(str, sys.version_info[:3]))
    named = re.search(r"python(3\.\d+)$", real)
    prefix = os.path.dirname(os.path.dirname(real))
    short = named[1] if named else _only(prefix)
    exact = _patch_level(f"{prefix}/include/python{short}/patchlevel.h")
    return exact or config.get("version") or config.get("version_info", "")[:7].strip(".") or short


def _only(prefix: str) -> str:
    """Return the version of the only Python 3 below a folder, "" if there is not one."""
    try:
        names = system.listdir(f"{prefix}/lib")
    except OSError:
        return ""
    found = [name[6:] for name in names if re.fullmatch(r"python3\.\d+", name)]
    return found[0] if len(found) == 1 else ""


def _patch_level(path: str) -> str:
    """Return the version in a header of Python, "" if it is not installed."""
    try:
        with system.open_file(path, encoding="utf-8", errors="replace") as file:
            found = re.search(r'PY_VERSION\s+"(\d+\.\d+\.\d+)', file.read(65536))
    except OSError:
        return ""
    return found[1] if found else ""
