"""The step that tests nodes, over programs that answer from made-up nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.features.full_check.measurements import Broken, Measured, Measurements
from dsrun.launcher.features.full_check.runner_device_step import LONGEST, MOST, TIMES, step
from dsrun.launcher.features.full_check.runner_steps import StepFailed

from ...support import schemas
from ...support.fake_programs import play

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.features.full_check.runner_steps import StepRequest, StepResult


class Nodes:
    """Nodes that answer with a running share, 100 unless a test says otherwise.

    Attributes:
        running: what nodes answer, one value after another; the last one stays.
        broken: what does not work on nodes.
        dead: nodes that do not answer.
        asks: which tests were asked of which nodes.
    """

    def __init__(self, *names: str) -> None:
        self.names = names
        self.running: dict[str, list[float]] = {}
        self.broken: dict[str, list[list[str]]] = {}
        self.dead: set[str] = set()
        self.asks: list[tuple[tuple[str, ...], list[str]]] = []

    def check(self) -> StepResult:
        return play(step("/work", "py").script(self.names), self._answer)

    def _answer(self, ask: StepRequest, name: str, request: Any) -> Any:
        assert (request.workdir, request.python) == ("/work", "py")
        if next(iter(ask.requests)) == name:
            self.asks.append((request.tests, list(ask.requests)))
        if name in self.dead:
            return StepFailed("no answer")
        rows: Sequence[Any] = ()
        if "cpu" in request.tests:
            values = self.running.get(name, [100.0])
            value = values.pop(0) if len(values) > 1 else values[0]
            rows = (Measured("running", "cores", value, ""),)
        return Measurements(tuple(rows), tuple(Broken(*one) for one in self.broken.get(name, ())))

    @property
    def again(self) -> list[list[str]]:
        """The nodes that were asked again, each time."""
        return [names for _, names in self.asks[len(LONGEST) :]]


def test_nodes_that_are_alike_are_measured_once() -> None:
    nodes = Nodes("n1", "n2", "n3")
    result = nodes.check()
    assert (result.faults, result.notes) == ((), ())
    assert schemas.faults("check", result.measured, "devices") == []
    assert [(one["node"], one["value"]) for one in result.measured["values"]] == [
        (name, 100) for name in nodes.names
    ]
    assert nodes.asks == [((test,), ["n1", "n2", "n3"]) for test in LONGEST]


def test_a_node_that_is_slow_each_time_is_named() -> None:
    nodes = Nodes("n1", "n2", "n3")
    nodes.running["n2"] = [20.0, 25.0, 22.0]
    (fault,) = nodes.check().faults
    assert (fault.code, fault.nodes) == ("stopped_cores", ("n2",))
    assert "ran 25% of the time, others' 100%" in fault.text
    assert nodes.again == [["n2"], ["n3"]] * TIMES
    assert {tests for tests, _ in nodes.asks[len(LONGEST) :]} == {("cpu",)}


def test_a_node_that_was_slow_by_chance_is_not_named() -> None:
    nodes = Nodes("n1", "n2", "n3")
    nodes.running["n2"] = [20.0, 20.0, 90.0]
    assert nodes.check().faults == ()
    assert nodes.again == [["n2"], ["n3"]] * 2


def test_of_two_nodes_the_slower_one_is_compared_with_the_other() -> None:
    nodes = Nodes("n1", "n2")
    nodes.running["n1"] = [20.0]
    (fault,) = nodes.check().faults
    assert fault.nodes == ("n1",)


def test_many_suspects_share_a_few_turns() -> None:
    good = [f"n{at}" for at in range(40)]
    bad = [f"m{at}" for at in range(3 * MOST)]
    nodes = Nodes(*good, *bad)
    nodes.running = {name: [10.0] for name in bad}
    assert {name for fault in nodes.check().faults for name in fault.nodes} == set(bad)
    assert len(nodes.again) == 2 * TIMES * MOST


def test_nodes_without_an_answer_are_noted_and_not_compared() -> None:
    nodes = Nodes("n1", "n2", "n3")
    nodes.dead = {"n2"}
    result = nodes.check()
    assert result.faults == ()
    assert result.notes == tuple(f"n2: {test}: no answer" for test in LONGEST)


def test_a_folder_that_cannot_be_written_is_noted_and_a_broken_device_a_fault() -> None:
    nodes = Nodes("n1", "n2")
    nodes.broken = {"n1": [["work folder", "full\x07"]], "n2": [["device 3", "lost"]]}
    result = nodes.check()
    assert result.notes == ("n1: work folder: full\\x07",)
    (fault,) = result.faults
    assert (fault.code, fault.nodes, fault.text) == ("broken_device", ("n2",), "device 3: lost")
