"""The ROUND frames of one round: what is the same for all of its nodes is encoded once."""

from __future__ import annotations

import json

from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...control.messages import Start
    from ...specs.plan import Node

OWN = ("first_rank", "slots", "node_rank")
"""What differs from node to node."""


def round_frames(start: Start, nodes: Sequence[Node]) -> Iterator[bytes]:
    """Return the frame of each of these nodes, given the message of any of them."""
    common = {name: value for name, value in start._asdict().items() if name not in OWN}
    rest = _encoded(common)[1:]
    for node in nodes:
        own = _encoded(dict(zip(OWN, (node.first_rank, node.slots, node.rank), strict=True)))
        yield frames.pack(frames.ROUND, own[:-1] + b"," + rest)


def _encoded(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
