"""The workers' output on its way to the console: labelled, and granted back once it is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.head.output.filter import OutputFilter
from dsrun.launcher.head.run.output import RunOutput
from dsrun.launcher.head.run.run_node import OVERDRAFT
from dsrun.launcher.specs.job import JobSpec

from ...support.run_nodes import plan_of, sent_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW = 1000


class Shown:
    """A console that keeps what it is given, and prints when it is told to."""

    def __init__(self) -> None:
        self.labels: dict[int, tuple[str, frozenset[int]]] = {}
        self.fed: list[tuple[int, int, bytes]] = []
        self.printed: list[Callable[[], None]] = []

    def label(self, rank: int, text: str, streams: frozenset[int]) -> None:
        self.labels[rank] = (text, streams)

    def feed(self, rank: int, stream: int, data: bytes, printed: Callable[[], None]) -> None:
        self.fed.append((rank, stream, bytes(data)))
        self.printed.append(printed)


def test_output_is_shown_and_granted_back_when_it_is_printed() -> None:
    plan, console = plan_of(2), Shown()
    output = RunOutput(console, OutputFilter(JobSpec("j", plan, "/")), WINDOW)  # type: ignore[arg-type]
    output.label(plan)
    assert sorted(console.labels) == [0, 1, 2, 3]
    node = sent_nodes(plan)[1]
    ((_, body),) = frames.Decoder().feed(frames.pack_output(3, 2, b"x" * WINDOW))
    output.on_output(node, body)
    assert console.fed == [(3, 2, b"x" * WINDOW)]
    assert node.sink.sent == []
    console.printed[0]()
    assert node.kinds == [frames.CREDIT]


@pytest.mark.parametrize(("rank", "size"), [(0, 1), (4, 1), (2, WINDOW + OVERDRAFT + 1)])
def test_what_a_node_may_not_send_is_not_shown(rank: int, size: int) -> None:
    plan, console = plan_of(2), Shown()
    output = RunOutput(console, OutputFilter(JobSpec("j", plan, "/")), WINDOW)  # type: ignore[arg-type]
    ((_, body),) = frames.Decoder().feed(frames.pack_output(rank, 1, b"x" * size))
    with pytest.raises(frames.BadFrame):
        output.on_output(sent_nodes(plan)[1], body)
    assert console.fed == []
