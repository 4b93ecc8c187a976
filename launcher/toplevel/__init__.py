"""The names of `import dsrun`: `launch` and `Role` for jobs from Python, and the version.

Installation puts this file above `dsrun.launcher` and `dsrun.accelerator`.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dsrun.launcher import __version__
    from dsrun.launcher.api import Role, launch

__all__ = ["Role", "__version__", "launch"]

_MODULES = {
    "__version__": "dsrun.launcher",
    "Role": "dsrun.launcher.api",
    "launch": "dsrun.launcher.api",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used: a program that uses none has no cost.

    Raises:
        AttributeError: there is no such name.
    """
    if name not in _MODULES:
        raise AttributeError(f"dsrun.{name}")
    return getattr(import_module(_MODULES[name]), name)
