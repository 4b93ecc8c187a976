"""The program `network`: measures the links between this node and others."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from ...common.errors import NodeError, reason
from ...common.network import addresses_towards, any_address
from .messages import Link, Listen, Listening, MeasureLink
from .node_answers import serve
from .node_streams import StreamCaller, serve_caller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .node_streams import Rates

CONNECT = 3.0
"""Seconds for an address to answer."""

MOST_ADDRESSES = 6
"""Addresses that are tried, so that a node that does not answer takes no longer."""

MOST_CALLERS = 64
"""Connections at a time; more than one is from outsiders."""


def main(_arguments: Sequence[str]) -> int:
    """Answer the requests on standard input."""
    return serve({"listen": (Listen, listen), "measure": (MeasureLink, measure)})


def listen(request: Listen) -> Listening:
    """Accept connections until this process ends, on a port that the kernel chooses."""
    door = any_address()
    door.bind(("", 0))
    door.listen(MOST_CALLERS)
    threading.Thread(target=_accept, args=(door, request.token), daemon=True).start()
    return Listening(door.getsockname()[1], addresses_towards(request.peers)[:MOST_ADDRESSES])


def _accept(door: socket.socket, token: str) -> None:
    free = threading.BoundedSemaphore(MOST_CALLERS)
    while True:
        free.acquire()
        line, _ = door.accept()
        threading.Thread(target=_serve, args=(line, token, free), daemon=True).start()


def _serve(line: socket.socket, token: str, free: threading.BoundedSemaphore) -> None:
    # Whatever a caller does, only its own connection ends.
    with suppress(OSError), line:
        serve_caller(line, token)
    free.release()


def measure(request: MeasureLink) -> Link:
    """Measure the link to another node.

    Raises:
        NodeError: it cannot be reached at any of its addresses.
        OSError: the connection has failed.
    """
    address, line, caller = _connect(request)
    with line:
        times = caller.round_trips(request.pings, request.seconds)
        out = [caller.send(request.seconds) for _ in range(request.streams)]
        back = [caller.fetch(request.seconds) for _ in range(request.streams)]
        median = times[len(times) // 2]
        return Link(address, times[0], median, *_fastest(out), *_fastest(back), *caller.counters())


def _fastest(streams: Sequence[Rates]) -> tuple[float, float]:
    return max(one.rate for one in streams), max(one.free for one in streams)


def _connect(request: MeasureLink) -> tuple[str, socket.socket, StreamCaller]:
    """Return the first address at which the other node itself answers, and the connection."""
    problems = []
    for address in request.addresses[:MOST_ADDRESSES]:
        try:
            line = socket.create_connection((address, request.port), CONNECT)
            try:
                return address, line, StreamCaller(line, request.token)
            except BaseException:
                line.close()
                raise
        except OSError as error:
            problems.append(f"{address}: {reason(error)}")
        except NodeError as error:
            problems.append(f"{address}: {error}")
    raise NodeError("; ".join(problems) or "it has no address")
