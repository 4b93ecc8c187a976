"""Make paths of the command line absolute, and find out whether workers can use dsrun's Python."""

from __future__ import annotations

import os
import sys

from ..common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..cli.options import Options

ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables that name the folder of the active environment: the first is set by venv, uv, poetry
and virtualenv, the second by conda, mamba and pixi. Module systems set one, or none."""


def workdir(options: Options) -> str:
    """Return the workers' folder, as an absolute path on this machine.

    Raises:
        UsageError: the current folder no longer exists.
    """
    return from_here(options.workdir or "")


def interpreter(options: Options) -> str | None:
    """Return --python; a path is made absolute, a plain name is looked up in each node's PATH.

    Raises:
        UsageError: the current folder no longer exists.
    """
    named = options.python
    return from_here(named) if named and "/" in named else named


def from_here(path: str) -> str:
    """Return a path relative to the current folder as an absolute one; "" is the folder itself.

    Raises:
        UsageError: the current folder no longer exists.
    """
    if os.path.isabs(path):
        return path
    try:
        current = _current_folder()
    except FileNotFoundError:
        raise UsageError(
            "the current folder no longer exists; start dsrun in another one"
        ) from None
    return os.path.join(current, path.removeprefix("./")) if path else current


def _current_folder() -> str:
    """Return the current folder by its logical path: other hosts may not have the real path."""
    logical = os.environ.get("PWD", "")
    try:
        if os.path.isabs(logical) and os.path.samefile(logical, "."):
            return logical
    except OSError:
        pass
    return os.getcwd()


def own_fits(environ: Mapping[str, str]) -> bool:
    """Return whether workers may use dsrun's own Python: it is the active one, or has torch."""
    return any(is_own(environ[name]) for name in active(environ)[:1]) or _has_torch()


def active(environ: Mapping[str, str]) -> list[str]:
    """Return the variables that name an active environment; the first on PATH comes first.

    Environments may be activated one within the other; the last activated comes first on PATH.
    """
    path = environ.get("PATH", "").split(os.pathsep)
    places = {
        name: os.path.join(environ[name].rstrip("/"), "bin") for name in ACTIVE if environ.get(name)
    }
    order = [*path, *places.values()]
    return sorted(places, key=lambda name: order.index(places[name]))


def is_own(folder: str) -> bool:
    """Return whether dsrun runs on the Python of this environment."""
    return is_same(folder, os.path.dirname(os.path.dirname(sys.executable)))


def is_same(one: str, other: str) -> bool:
    """Return whether two paths name one folder; "" names none."""
    if not (one and other) or os.path.normpath(one) == os.path.normpath(other):
        return bool(one and other)
    try:
        return os.path.samefile(one, other)
    except OSError:  # one is missing
        return False


def _has_torch() -> bool:
    """Return whether dsrun's own Python has torch, without the seconds that an import would take.

    PYTHONPATH is ignored: it is for the workers, which may run on a different Python.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    prefix = os.path.dirname(os.path.dirname(sys.executable))
    own = os.path.join(prefix, "lib", version, "site-packages")  # missing from sys.path under `-S`
    users = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = dict.fromkeys([own, *(one for one in sys.path if one not in users)])
    # A folder `torch` that is not a package may be anything, except next to other packages.
    files = ("torch" if one.endswith("-packages") else "torch/__init__.py" for one in folders)
    return any(map(os.path.exists, map(os.path.join, folders, files))) or any(
        name.startswith("__editable___torch_")
        for name in sys.modules  # pip install -e
    )
