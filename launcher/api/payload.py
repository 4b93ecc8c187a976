"""The payload for the workers of a function: a line of JSON about this program, and the call.

`node/call.py` reads it. The call is pickled by cloudpickle, which sends functions of `__main__`,
lambdas and closures as code, and everything that can be imported by its name.
"""

from __future__ import annotations

import base64
import json
import os
import sys

from .errors import LaunchError
from .unpicklable import culprit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIMIT = 32 << 20
"""Largest payload in bytes; with base64 around it, it fits into the frame of a JOB."""


def payload_of(
    function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
) -> str:
    """Return the payload that makes a worker call a function, as base64.

    Raises:
        LaunchError: something cannot be pickled, and is named; or it is too large.
    """
    body = _dumps(function, args, kwargs)
    head = {"path": _folders(), "python": sys.version_info[:2]}
    payload = json.dumps(head).encode() + b"\n" + body
    if len(payload) > LIMIT:
        raise LaunchError(
            f"{name_of(function)}: its arguments and what it refers to are {len(payload)} bytes"
            f" when pickled, more than {LIMIT}; have the ranks read large data from files"
        )
    return base64.b64encode(payload).decode()


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function."""
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


def _dumps(
    function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        from ..common.packages import lacks

        raise LaunchError(lacks("cloudpickle", "sends functions")) from None
    try:
        data: bytes = cloudpickle.dumps((function, args, kwargs))
    except Exception as error:
        parts: list[tuple[str, Any]] = [(name_of(function), function)]
        parts += [(f"argument {at}", one) for at, one in enumerate(args)]
        parts += [(f"argument {name}", one) for name, one in kwargs.items()]
        where, why = culprit(parts, cloudpickle.dumps) or (name_of(function), error)
        raise LaunchError(f"{where} cannot be sent to the nodes: {why}") from error
    return data


def _folders() -> list[str]:
    """Return this program's folders on `sys.path`, without the interpreter's."""
    own = dict.fromkeys(os.path.abspath(folder or ".") for folder in sys.path)
    bases = tuple(os.path.join(base, "lib") for base in (sys.prefix, sys.base_prefix))
    return [one for one in own if os.path.isdir(one) and not one.startswith(bases)]
