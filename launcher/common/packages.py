"""Packages that only some things need: what lacks one says so in one line. Pure."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def lacks(package: str, use: str = "", *, python: str = "", instead: Sequence[str] = ()) -> str:
    """Return that a package is missing, and what to do about it.

    Args:
        package: its name in the package registry.
        use: what it does here; "" if the message begins with that.
        python: the Python that lacks it; "" for our own.
        instead: what can be typed otherwise.
    """
    named = f"{package}, which {use}," if use else package
    ways = ", or ".join([f"run `{python or sys.executable} -m pip install {package}`", *instead])
    return f"the Python package {named} is not installed; {ways}"
