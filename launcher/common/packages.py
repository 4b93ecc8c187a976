"""Messages about optional packages that are missing."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def lacks(package: str, use: str = "", *, python: str = "", instead: Sequence[str] = ()) -> str:
    """Return a message about a missing package, with advice.

    Args:
        package: the package's name in the package registry.
        use: the purpose of the package here; "" if the message begins with it.
        python: the Python that lacks the package; "" for dsrun's own.
        instead: other commands that help.
    """
    named = f"{package}, which {use}," if use else package
    ways = ", or ".join([f"run `{python or sys.executable} -m pip install {package}`", *instead])
    return f"the Python package {named} is not installed; {ways}"


def lacks_tls() -> str:
    """Return why node launchers cannot dial back over TLS, or ""."""
    from importlib.util import find_spec

    return "" if find_spec("cryptography") is not None else lacks("cryptography")
