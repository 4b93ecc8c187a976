"""The workers' output on its way to the console: labelled, and granted back once it is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.head.output.filter import OutputFilter
from dsrun.launcher.head.run.output import RunOutput
from dsrun.launcher.head.run.run_node import OVERDRAFT
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import lay_out

from ...support.run_nodes import SentNode, plan_of, sent_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WINDOW = 1000


class Shown:
    """A console that keeps what it is given, and prints when it is told to."""

    folds = False

    def __init__(self) -> None:
        self.labels: dict[int, tuple[str, set[int]]] = {}
        self.fed: list[tuple[int, int, bytes]] = []
        self.printed: list[Callable[[], None]] = []

    def label(self, rank: int, text: str, streams: set[int]) -> None:
        self.labels[rank] = (text, streams)

    def feed(self, rank: int, stream: int, data: bytes, printed: Callable[[], None]) -> None:
        self.fed.append((rank, stream, bytes(data)))
        self.printed.append(printed)


def test_output_is_shown_and_granted_back_when_it_is_printed() -> None:
    plan, console = plan_of(2), Shown()
    output = RunOutput(console, OutputFilter(JobSpec("j", plan, "/")), WINDOW)  # type: ignore[arg-type]
    output.label(plan)
    node = sent_nodes(plan)[1]
    ((_, body),) = frames.Decoder().feed(frames.pack_output(3, 2, b"x" * WINDOW))
    output.on_output(node, body)
    assert console.fed == [(3, 2, b"x" * WINDOW)]
    assert console.labels == {3: ("n1:3| ", {1, 2})}
    assert node.sink.sent == []
    assert output.held_up([node])
    console.printed[0]()
    assert node.kinds == [frames.CREDIT]
    assert not output.held_up([node])


@pytest.mark.parametrize(("rank", "size"), [(0, 1), (4, 1), (2, WINDOW + OVERDRAFT + 1)])
def test_what_a_node_may_not_send_is_not_shown(rank: int, size: int) -> None:
    plan, console = plan_of(2), Shown()
    output = RunOutput(console, OutputFilter(JobSpec("j", plan, "/")), WINDOW)  # type: ignore[arg-type]
    ((_, body),) = frames.Decoder().feed(frames.pack_output(rank, 1, b"x" * size))
    with pytest.raises(frames.BadFrame):
        output.on_output(sent_nodes(plan)[1], body)
    assert console.fed == []


def test_what_a_node_writes_whose_ranks_are_others_by_now_is_not_shown_as_theirs() -> None:
    """A lost node ends its workers, which may still write, while others are in the next round."""
    plan, console = plan_of(2), Shown()
    output = RunOutput(console, OutputFilter(JobSpec("j", plan, "/")), WINDOW)  # type: ignore[arg-type]
    lost, other = sent_nodes(plan)
    output.label(plan._replace(nodes=lay_out([other.node.host])))
    ((_, body),) = frames.Decoder().feed(frames.pack_output(0, 1, b"x" * WINDOW))
    output.on_output(lost, body)
    assert (console.fed, console.labels) == ([], {})
    assert lost.kinds == [frames.CREDIT]


class Folding(Shown):
    """A console that folds."""

    folds = True

    def fold(self, _ranks: int, label: Callable[[Sequence[int]], str]) -> None:
        self.name = label


def test_the_labels_of_folded_lines_end_in_one_column() -> None:
    plan, console = plan_of(2), Folding()
    output = RunOutput(console, OutputFilter(JobSpec("j", plan, "/")), WINDOW)  # type: ignore[arg-type]
    output.label(plan)
    labels = [console.name(ranks) for ranks in ([0, 1, 2, 3], [0], [2, 3])]
    assert labels == ["n0-n1:0-3| ", "     n0:0| ", "   n1:2-3| "]


def test_a_rank_is_labelled_when_it_first_prints_something_in_a_round() -> None:
    plan, console = plan_of(2), Shown()
    output = RunOutput(console, OutputFilter(JobSpec("j", plan, "/")), WINDOW)  # type: ignore[arg-type]
    output.label(plan)
    first, node = sent_nodes(plan)

    def prints(node: SentNode, rank: int) -> dict[int, tuple[str, set[int]]]:
        console.labels = {}
        ((_, body),) = frames.Decoder().feed(frames.pack_output(rank, 1, b"x"))
        output.on_output(node, body)
        return console.labels

    assert prints(node, 2) == {2: ("n1:2| ", {1, 2})}
    assert prints(node, 2) == {}
    output.label(plan._replace(nodes=lay_out([node.node.host])))
    assert prints(node, 2) == {}, "no rank of this round"
    node.assign(lay_out([node.node.host])[0])
    assert prints(node, 0) == {0: ("n1:0| ", {1, 2})}
    output.label_node(first.node)
    assert prints(first, 1) == {1: ("n0:1| ", {1, 2})}


def test_the_label_of_several_ranks_is_that_of_their_nodes_of_this_round() -> None:
    plan, console = plan_of(3), Shown()
    console.folds = True
    asked: list[tuple[int, Callable[[Sequence[int]], str]]] = []
    console.fold = lambda ranks, label: asked.append((ranks, label))  # type: ignore[attr-defined]
    output = RunOutput(console, OutputFilter(JobSpec("j", plan, "/")), WINDOW)  # type: ignore[arg-type]
    output.label(plan)
    ((ranks, label),) = asked
    assert (ranks, label([0, 1, 2]), label([4])) == (6, "n0-n1:0-2| ", "     n2:4| ")
    output.label(plan._replace(nodes=plan.nodes[:1]))
    output.label_node(plan.nodes[1])
    assert [ranks for ranks, _ in asked] == [6, 2, 2]


@pytest.mark.parametrize("prefix", ["", "{host}| ", "{rank:02d}| "])
def test_ranks_that_labels_cannot_name_together_are_not_folded(prefix: str) -> None:
    plan, console = plan_of(2), Shown()
    console.folds = True
    spec = JobSpec("j", plan, "/")
    shown = OutputFilter(spec._replace(output=spec.output._replace(prefix=prefix)))
    RunOutput(console, shown, WINDOW).label(plan)  # type: ignore[arg-type]
