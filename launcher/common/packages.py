"""Packages that only some things need: what lacks one says so in one line. Pure."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def lacks(package: str, use: str = "", *, python: str = "", instead: Sequence[str] = ()) -> str:
    """Return a message about a missing package, with advice.

    Args:
        package: the package's name in the package registry.
        use: what the package does here; "" if the message begins with that.
        python: the Python that lacks the package; "" for dsrun's own.
        instead: other commands that help.
    """
    named = f"{package}, which {use}," if use else package
    ways = ", or ".join([f"run `{python or sys.executable} -m pip install {package}`", *instead])
    return f"the Python package {named} is not installed; {ways}"
