"""The program "collective": has the workers' Python run `all_reduce.py`, and talks to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from ...common import network
from ...common.errors import NodeError
from ...control import frames, messages
from ...node.machine import devices
from .measurements import JoinGroup, Pairs, Prepare, ReadyForCollectives, Reduced, Reductions
from .node_answers import serve
from .node_devices import TORCH_KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeVar

    from .node_answers import Request

    Shape = TypeVar("Shape", bound=tuple[object, ...])

ALL_REDUCE = os.path.join(os.path.dirname(__file__), "all_reduce.py")


def main(_: Sequence[str]) -> int:
    """Answer `Prepare`, then one `JoinGroup`, then any number of `Pairs`."""
    node = CollectiveProcess()
    requests: dict[str, Request] = {
        "prepare": (Prepare, node.prepare),
        "join": (JoinGroup, node.reduce),
        "pairs": (Pairs, node.reduce),
    }
    try:
        return serve(requests)
    finally:
        node.close()


class CollectiveProcess:
    """The process of the workers' Python, as soon as it is asked for."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self, request: Prepare) -> ReadyForCollectives:
        """Start the process, and wait until torch is imported.

        Raises:
            OSError: there is no such Python.
            NodeError: the process has ended at once, or has printed something else.
        """
        found = devices.NodeDevices(os.environ, {})
        gpus = len(found.visible) if found.kind in TORCH_KINDS else 0
        named = {address: name for name, address in network.interfaces()}
        addresses = {address: named.get(address, "") for address in network.own_addresses()}
        given = json.dumps({"gpus": gpus, "interfaces": addresses})
        command = [request.python or sys.executable, ALL_REDUCE, given]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        return _fitting(ReadyForCollectives, self._read())

    def reduce(self, request: JoinGroup | Pairs) -> Reductions:
        """Make the process reduce with the others.

        Raises:
            NodeError: the process was not prepared, has ended, or has printed something else.
        """
        if self._process is None or self._process.stdin is None:
            raise NodeError("no process for collectives was prepared")
        self._process.stdin.write(json.dumps(request._asdict()).encode() + b"\n")
        self._process.stdin.flush()
        rows = []
        while "places" in (said := self._read()):
            rows.append(_fitting(Reduced, said))
        return _fitting(Reductions, {"rows": rows, **said})

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _read(self) -> dict[str, Any]:
        """Return its next line.

        Raises:
            NodeError: it has ended, or has printed something else.
        """
        line = self._process.stdout.readline() if self._process and self._process.stdout else b""
        if not line:
            code = self._process.wait() if self._process else 0
            raise NodeError(f"the process for collectives exited with code {code}")
        try:
            return frames.unpack_json(line)
        except frames.BadFrame as error:
            raise _no_answer(error) from None


def _fitting(shape: type[Shape], said: dict[str, Any]) -> Shape:
    try:
        return messages.from_fields(shape, said)
    except frames.BadFrame as error:
        raise _no_answer(error) from None


def _no_answer(error: frames.BadFrame) -> NodeError:
    """Return the error for a line of something else that prints there, as libraries may."""
    return NodeError(f"the process for collectives printed no answer: {error}")
