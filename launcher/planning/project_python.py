"""The Python of the user's project: from the active environment, or from a `.venv` by the script.

dsrun that was installed for itself (pipx, `uv tool`, `uvx`, `pip --user`) runs on a Python without
torch. This is loaded only where its own Python is not the workers' (`folders.own_fits`).
"""

from __future__ import annotations

import os
import shlex
import stat

from ..cli.config_source import Unsafe, is_shared
from ..common import executable, files
from ..common.errors import reason
from ..common.records import NamedTuple
from ..common.text import one_line
from ..specs.plan import OWN_PYTHON
from .folders import ACTIVE, active, is_own, is_same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NAME = ".venv"
"""The folder of a project's environment, as uv, poetry and editors name it."""

OLDEST = 10
"""Python 3.10 is the oldest that workers can run on: their hook needs it."""

LIBRARY = "python3."
"""Beginning of the folders in `lib` that hold the packages of an environment (PEP 405)."""

NO_TORCH = "dsrun's own Python has no torch"

WHY = {name: f"from the active environment ({name})" for name in ACTIVE}
WHY[NAME] = f"from the nearest {NAME} above the script"
"""Descriptions of Pythons, by their origin."""


class PythonEnvironment(NamedTuple):
    """An environment that the workers' Python may be taken from.

    Attributes:
        origin: the variable that names it, or `.venv`.
        python: the path of its interpreter, or "".
        problem: why it cannot be used, "" if it can.
        own: whether dsrun runs on it.
    """

    origin: str
    folder: str
    python: str = ""
    problem: str = ""
    own: bool = False

    @property
    def words(self) -> str:
        """The name of the environment, for a line that says why it is not used."""
        return one_line(self.folder if self.origin == NAME else f"{self.origin}={self.folder}")


class ProjectPython(NamedTuple):
    """The workers' Python where neither --python nor --venv_script names one.

    Attributes:
        path: the path of the interpreter; "" for dsrun's own.
        origin: the origin: the variable, `.venv`, or `OWN_PYTHON`.
        notes: lines for the user: the choice, its reason, and the rejected environments.
    """

    path: str = ""
    origin: str = OWN_PYTHON
    notes: tuple[str, ...] = ()


def choose(places: Iterable[PythonEnvironment]) -> ProjectPython:
    """Return the Python of the first place that can be used. Pure.

    Args:
        places: the candidates in order; none after the first usable one is examined.
    """
    notes = list[str]()
    for place in places:
        if place.problem:
            notes.append(f"{place.words} is not used: {place.problem}")
            continue
        if place.own:
            break
        notes.append(f"workers run on {one_line(place.python)}, {WHY[place.origin]}: {NO_TORCH}")
        return ProjectPython(place.python, place.origin, tuple(notes))
    return ProjectPython(notes=tuple(notes))


# -- effects --------------------------------------------------------------------------------------


def find(environ: Mapping[str, str], start: str | None) -> ProjectPython:
    """Return the Python of the project of a command.

    Args:
        environ: the user's variables.
        start: the folder of the script; None for a command without one, which takes no `.venv`.
    """
    return choose(places(environ, start))


def places(environ: Mapping[str, str], start: str | None) -> Iterator[PythonEnvironment]:
    """Yield the active environment, then the nearest `.venv` in a folder or above it.

    The user has chosen the active environment, but anybody may make a `.venv` somewhere: only that
    is checked for its possible authors. The arguments are as for `find`.
    """
    for name in active(environ):
        yield _place(name, environ[name])
    found = "" if start is None else nearest(start, files.home())
    if found:
        place = _place(NAME, found)
        yield place if place.problem else place._replace(problem=_danger(place))


def nearest(start: str, home: str) -> str:
    """Return the nearest `.venv` in a folder or above it, or "".

    The search ends at the repository (the nearest folder with `.git`) or the home folder.

    Args:
        start: an absolute path, by which the nodes know the folder, even through links.
        home: the home folder, or "".
    """
    folder, above = "", os.path.normpath(start)
    while above != folder:
        folder, above = above, os.path.dirname(above)
        found = os.path.join(folder, NAME)
        if os.path.isdir(found):
            return found
        if os.path.lexists(os.path.join(folder, ".git")) or is_same(folder, home):
            break
    return ""


def _place(origin: str, folder: str) -> PythonEnvironment:
    place = PythonEnvironment(origin, folder)
    if not os.path.isabs(folder):
        return place._replace(problem="it is not an absolute path")
    bin_folder = os.path.join(os.path.normpath(folder), "bin")
    found = (executable.find(name, [bin_folder]) for name in ("python", "python3"))
    python = next(filter(None, found), "")
    if not python:
        return place._replace(problem="it has no bin/python that can be executed")
    return place._replace(python=python, problem=_age(folder), own=is_own(folder))


def _age(folder: str) -> str:
    """Return the Python version of an environment if it is too old for workers, or ""."""
    names = [one.removeprefix(LIBRARY) for one in _libraries(folder)]
    versions = [int(name) for name in names if name.isdecimal()]
    if not versions or max(versions) >= OLDEST:
        return ""
    return f"it has Python 3.{max(versions)}, but 3.{OLDEST} or newer is needed"


def _libraries(folder: str) -> list[str]:
    try:
        names = os.listdir(os.path.join(folder, "lib"))
    except OSError:
        return []
    return [name for name in names if name.startswith(LIBRARY)]


def _danger(place: PythonEnvironment) -> str:
    """Return why a `.venv` must not be run: others own it, or can change it; "" if it may be."""
    folder = place.folder
    packages = [os.path.join("lib", one, "site-packages") for one in _libraries(folder)]
    inside = ("", "bin", "lib", *map(os.path.dirname, packages), *packages, "pyvenv.cfg")
    paths = [os.path.join(folder, one).rstrip("/") for one in inside]
    try:
        for link in (folder, place.python):
            _check_link(link)
        for path in filter(os.path.exists, paths):
            _check(path, os.stat(path))
    except Unsafe as error:
        python = shlex.quote(one_line(place.python))
        why = str(error).removeprefix(f"{one_line(folder)}: ")
        return f"{why}; --python {python} uses it anyway"
    except OSError as error:
        return reason(error)
    return ""


def _check_link(path: str) -> None:
    """Check a path that may be a link: its owner has chosen the target."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        status = os.stat_result([stat.S_IFLNK | 0o755, *status[1:]])
    _check(path, status)


def _check(path: str, status: os.stat_result) -> None:
    """Check that nobody else can change a file or folder.

    Raises:
        Unsafe: somebody can.
    """
    if is_shared(path, status):
        raise Unsafe(f"{one_line(path)}: other members of its group can change it; run chmod g-w")
