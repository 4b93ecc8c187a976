"""The command that runs a module of this copy of dsrun, whether installed or in a checkout."""

from __future__ import annotations

import sys

from .base import package_root

BOOT = (
    "import sys;sys.path[:]=[p for p in sys.path if p];r,w=sys.argv[1:3];del sys.argv[1:3];"
    'm=type(sys)("dsrun");m.__path__=[r];sys.modules.update(dsrun=m);'
    "from importlib import import_module as i;i(w).start()"
)
"""Runs the `start` function of a module."""


def module_argv(module: str, *words: str) -> list[str]:
    """Return the command that runs a module, such as `dsrun.launcher.runner`, with words."""
    return [sys.executable, "-c", BOOT, package_root(), module, *words]
