"""Answers the requests of the full check: lines of JSON on the standard streams, one at a time.

::

    {"id": 3, "do": "measure", "with": {...}}   ->   {"id": 3, "reply": {...}}
                                                or   {"id": 3, "error": "why not"}
"""

from __future__ import annotations

import json
import sys

from ...common.errors import DsrunError, reason
from ...control import frames, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeAlias

    Request: TypeAlias = tuple[type[Any], Callable[[Any], Any]]
    """The shape of a request, and the function that answers it with a `NamedTuple`."""


def serve(requests: Mapping[str, Request]) -> int:
    """Answer the requests on standard input until it ends; return the exit code.

    Args:
        requests: each by its name. A function may raise DsrunError or OSError, whose text is the
            answer then.
    """
    for answer in answers(requests, sys.stdin.buffer):
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    return 0


def answers(requests: Mapping[str, Request], lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    """Yield the answer to each line.

    Raises:
        BadFrame: a line is no request of the table.
    """
    for line in lines:
        asked: dict[str, Any] = frames.unpack_json(line)
        if asked.get("do") not in requests or not isinstance(asked.get("with"), dict):
            raise frames.BadFrame("no such request")
        shape, function = requests[asked["do"]]
        yield {
            "id": asked.get("id"),
            **_answer(function, messages.from_fields(shape, asked["with"])),
        }


def _answer(function: Callable[[Any], Any], request: Any) -> dict[str, Any]:
    try:
        return {"reply": function(request)._asdict()}
    except OSError as error:
        return {"error": reason(error)}
    except DsrunError as error:
        return {"error": str(error)}
