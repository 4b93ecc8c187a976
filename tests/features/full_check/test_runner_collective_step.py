"""The step that reduces, over programs that answer from made-up nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.full_check.measurements import ReadyForCollectives, Reduced, Reductions
from dsrun.launcher.features.full_check.runner_collective_step import blamed, step
from dsrun.launcher.features.full_check.runner_steps import StepFailed

from ...support import schemas
from ...support.fake_programs import play

if TYPE_CHECKING:
    from dsrun.launcher.features.full_check.runner_steps import StepRequest, StepResult

READY = ReadyForCollectives("", "2.9", "gloo", 1, 7, ("10.0.0.1",))


class Nodes:
    """Nodes that answer with the same times, unless a test says otherwise.

    Attributes:
        ready: what nodes answer that differ.
        bandwidth: of pairs that differ.
        wrong: pairs, or all, whose sums are wrong.
        failed: what nodes answer to any request after the first.
        asks: the rounds that were asked for.
    """

    def __init__(self, count: int = 4) -> None:
        self.names = [f"n{at}" for at in range(1, count + 1)]
        self.ready: dict[str, ReadyForCollectives | StepFailed] = {}
        self.bandwidth: dict[tuple[str, ...], float] = {}
        self.wrong: set[tuple[str, ...]] = set()
        self.failed: dict[str, Any] = {}
        self.asks: list[Any] = []

    def check(self) -> StepResult:
        return play(step("py").script(self.names), self._answer)

    def _answer(self, ask: StepRequest, name: str, request: Any) -> Any:
        if ask.do == "prepare":
            assert request.python == "py"
            return self.ready.get(name, READY)
        if name in self.failed:
            return self.failed[name]
        names = list(ask.requests)
        if ask.do == "join":
            assert request.addresses == ("10.0.0.1", names[0])
            assert (request.place, request.port) == (names.index(name), 7)
            return Reductions((self._row(names, range(len(names))),), "")
        if name == names[0]:
            self.asks.append(request.pairs)
        mine = [
            (one, other) for _, one, other in request.pairs if names.index(name) in (one, other)
        ]
        return Reductions(tuple(self._row(names, places) for places in mine), "")

    def _row(self, names: list[str], places: Any) -> Any:
        nodes = tuple(sorted(names[at] for at in places))
        return Reduced(
            tuple(places), 0.001, self.bandwidth.get(nodes, 1e9), int(nodes in self.wrong)
        )


def test_all_nodes_and_all_pairs_reduce() -> None:
    nodes = Nodes()
    result = nodes.check()
    assert (result.faults, result.notes) == ((), ())
    assert schemas.faults("check", result.measured, "collectives") == []
    assert result.measured["backend"] == "gloo"
    (whole,) = result.measured["all"]
    assert whole["nodes"] == nodes.names
    assert len(result.measured["pairs"]) == 6
    assert result.measured["pairs"][0]["bandwidth_bytes_per_s"] == 1e9
    assert len(nodes.asks) == 1


def test_nodes_without_torch_or_with_another_backend_are_left_out_with_a_line() -> None:
    nodes = Nodes(5)
    nodes.ready = {
        "n2": ReadyForCollectives("torch cannot be imported: \x1b[31mno"),
        "n3": READY._replace(backend="nccl"),
        "n4": StepFailed("lost"),
    }
    result = nodes.check()
    assert result.notes == (
        "n4: left out of the collectives: lost",
        "n2: left out of the collectives: torch cannot be imported: no",
        "n3: left out of the collectives: it would use nccl, others use gloo",
    )
    assert [row["nodes"] for row in result.measured["pairs"]] == [["n1", "n5"]]


def test_less_than_two_nodes_do_nothing() -> None:
    nodes = Nodes(2)
    nodes.ready["n1"] = ReadyForCollectives("no torch")
    result = nodes.check()
    assert (result.faults, result.measured["pairs"]) == ((), [])
    assert result.notes[-1] == "collectives: fewer than two nodes"


def test_a_slow_pair_is_measured_alone_and_named() -> None:
    nodes = Nodes()
    nodes.bandwidth[("n2", "n3")] = 1e7
    (fault,) = nodes.check().faults
    assert (fault.code, fault.nodes) == ("slow_collective", ("n2", "n3"))
    assert "10 MB/s, elsewhere" in fault.text
    assert all(len({row[0] for row in asked}) == len(asked) for asked in nodes.asks[1:])


def test_a_node_that_is_slow_with_all_others_is_named() -> None:
    nodes = Nodes()
    nodes.bandwidth = dict.fromkeys([("n1", "n3"), ("n2", "n3"), ("n3", "n4")], 1e7)
    (fault,) = nodes.check().faults
    assert fault.nodes == ("n3",)


def test_what_is_slow_only_once_is_not_named() -> None:
    nodes = Nodes()
    nodes.bandwidth[("n2", "n3")] = 1e7
    answer = nodes._answer

    def healed(ask: StepRequest, name: str, request: Any) -> Any:
        if nodes.asks and ask.doing.endswith("again"):
            nodes.bandwidth.clear()
        return answer(ask, name, request)

    result = play(step("py").script(nodes.names), healed)
    assert result.faults == ()


def test_a_wrong_sum_is_a_fault_of_the_node_that_is_always_in_it() -> None:
    nodes = Nodes()
    nodes.wrong = {tuple(nodes.names), ("n1", "n3"), ("n2", "n3"), ("n3", "n4")}
    (fault,) = nodes.check().faults
    assert (fault.code, fault.nodes) == ("wrong_sum", ("n3",))


@pytest.mark.parametrize(
    ("wrong", "reduced", "nodes"),
    [
        (["ab"], ["ab"], "ab"),
        (["ab"], ["ab", "ac", "bc"], "ab"),
        (["abc"], ["abc"], "abc"),
        (["abc", "ab", "ac"], ["abc", "ab", "ac", "bc"], "a"),
    ],
)
def test_who_is_blamed(wrong: list[str], reduced: list[str], nodes: str) -> None:
    assert blamed([*map(tuple, wrong)], [*map(tuple, reduced)]) == tuple(nodes)


@pytest.mark.parametrize("answer", [Reductions((), "timed out\x07"), StepFailed("timed out\\x07")])
def test_a_failure_is_a_fault_and_nothing_more_is_asked(answer: Any) -> None:
    nodes = Nodes()
    nodes.failed = {"n2": answer}
    (fault,) = nodes.check().faults
    assert (fault.code, fault.nodes, fault.text) == (
        "failed_collective",
        ("n2",),
        "timed out\\x07",
    )
    assert nodes.asks == []


def test_reports_about_others_do_not_count() -> None:
    nodes = Nodes(3)
    lie = Reductions((Reduced((1, 2), 0.001, 1.0, 5), Reduced((0, 9), 0.001, 1.0, 5)), "")
    nodes.failed = {"n1": lie}
    result = nodes.check()
    assert result.faults == ()
    assert {row["bandwidth_bytes_per_s"] for row in result.measured["pairs"]} == {1e9}
