"""Scripts in a folder, for words about one that is not there."""

from __future__ import annotations

import os
import shlex

SCRIPTS = (".py", ".sh", ".ipynb", ".pyc", ".pyz")
"""Endings of the names of scripts."""

MOST = 10_000
"""Maximum entries of a folder that are searched for a similar name."""

SHOWN = 4
"""Scripts of a folder that are named."""


def present(script: str, folder: str) -> str:
    """Return the scripts in the folder of a missing one, to append to its name, or ""."""
    inner = os.path.dirname(script)
    names = sorted(one for one in scripts_in(os.path.join(folder, inner)) if one.endswith(".py"))
    if not names or not script.endswith(SCRIPTS):
        return ""
    shown = ", ".join(shlex.quote(os.path.join(inner, one)) for one in names[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f" ({shown}{more} {'is' if len(names) == 1 else 'are'} {'there' if inner else 'here'})"


def scripts_in(folder: str) -> list[str]:
    """Return the names of the scripts in a folder; [] if the folder is unreadable."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [one for one in names[:MOST] if one.endswith(SCRIPTS)]
