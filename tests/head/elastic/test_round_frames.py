"""The ROUND frames of one round."""

from __future__ import annotations

from dsrun.launcher.control import frames, messages
from dsrun.launcher.head.elastic.round_frames import round_frames
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import lay_out


def test_each_node_has_its_own_place_and_all_have_the_rest() -> None:
    nodes = lay_out([Host("a", (0, 1)), Host("b", (2,)), Host("c", ("x", "y"))])
    start = messages.Start(
        0, (0, 1), 5, 0, 3, "10.0.0.1", 4000, 1 << 20, generation=3, restarts=1, max_restarts=9,
        world="e30=",
    )  # fmt: skip
    every = [
        message
        for frame in round_frames(start, nodes)
        for kind, body in frames.Decoder().feed(frame)
        if kind == frames.ROUND and (message := messages.unpack(messages.Start, body))
    ]
    assert every == [
        start,
        start._replace(first_rank=2, slots=(2,), node_rank=1),
        start._replace(first_rank=3, slots=("x", "y"), node_rank=2),
    ]
