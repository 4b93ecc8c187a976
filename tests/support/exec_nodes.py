"""What a node that a test plays does with commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.command_messages import CommandExit

if TYPE_CHECKING:
    from .fake_nodes import FakeNode


def asked(node: FakeNode) -> list[dict[str, Any]]:
    """Return the commands that a node was asked to run."""
    return [json.loads(body) for kind, body in node.received if kind == frames.EXEC]


def fed(node: FakeNode) -> list[bytes]:
    """Return the input that a node has been sent, piece by piece."""
    inputs = [body for kind, body in node.received if kind == frames.EXEC_INPUT]
    return [frames.unpack_numbered(body)[1] for body in inputs]


def was_sent(node: FakeNode, kind: int) -> bool:
    """Return whether a node was sent a frame of a kind."""
    return kind in [sent for sent, _ in node.received]


def prints(node: FakeNode, data: bytes, stream: int = 1) -> None:
    """Have the newest command of a node write something."""
    number = asked(node)[-1]["id"]
    node.says(frames.pack_numbered(frames.EXEC_OUTPUT, number, bytes([stream]) + data))


def exits(node: FakeNode, code: int, hint: str = "") -> None:
    """Have the newest command of a node end."""
    number = asked(node)[-1]["id"]
    node.says(messages.pack(frames.EXEC_EXIT, CommandExit(number, code, hint)))
