"""A step of the full check: a program on all nodes, and a script that asks it.

A script is a generator: it yields a `StepRequest`, is sent the answers by the nodes' names, and
returns a `StepResult`. So it reads as a sequence, and a test plays it without nodes::

    def script(names: Sequence[str]) -> Script:
        answers = yield StepRequest("measure", requests, Measurements, 10.0)
        good, failed = answered(answers, Measurements)
        return StepResult(...)

A program on the node answers with `features/full_check/node_answers.serve`.
"""

from __future__ import annotations

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from typing import Any, TypeAlias, TypeVar

    Answers: TypeAlias = Mapping[str, Any]
    """The reply of each node, of the requested shape, or `StepFailed`."""

    Script: TypeAlias = "Generator[StepRequest, Answers, StepResult]"

    Reply = TypeVar("Reply")


class StepRequest(NamedTuple):
    """One request for each of some nodes, which answer side by side.

    Attributes:
        do: the request, a key of the program's table.
        requests: the request of each node, a `NamedTuple` of the shape in that table.
        reply: the shape of the replies, as `control/messages.unpack` takes it.
        seconds: until a node that has not answered has failed.
        doing: the current action, for the line of progress, such as "round 2 of 3".
    """

    do: str
    requests: Mapping[str, Any]
    reply: type[Any]
    seconds: float
    doing: str = ""


class StepFailed(NamedTuple):
    """A node has not answered; `why` is text that is safe to print."""

    why: str


class MeasuredFault(NamedTuple):
    """A fault that the full check reports, after it has measured it again.

    Attributes:
        code: the kind of fault, such as `slow_link`; docs/full_check.md lists them.
        nodes: the nodes concerned: one, or the two ends of a link.
        text: the measured value, and the value it was compared with.
        advice: the remedy.
    """

    code: str
    nodes: tuple[str, ...]
    text: str
    advice: str


class StepResult(NamedTuple):
    """The result of a step.

    Attributes:
        faults: the faults, the worst first.
        measured: all values in JSON, one of `json_types.MeasuredValues`; numbers are in the
            units that their names end with.
        notes: lines about values that could not be measured, and why.
    """

    faults: tuple[MeasuredFault, ...]
    measured: Any
    notes: tuple[str, ...] = ()


class Step(NamedTuple):
    """One part of the full check.

    Attributes:
        name: the measured subject, such as `network`; the result has it under this name.
        program: the program on the nodes, a key of `node.programs.PROGRAMS`.
        script: given the nodes' names in order, asks the programs and judges their answers.
    """

    name: str
    program: str
    script: Callable[[Sequence[str]], Script]


def answered(answers: Answers, reply: type[Reply]) -> tuple[dict[str, Reply], dict[str, str]]:
    """Divide answers into replies of this shape, and why each of the other nodes failed."""
    good = {name: one for name, one in answers.items() if isinstance(one, reply)}
    failed = {name: one.why for name, one in answers.items() if isinstance(one, StepFailed)}
    return good, failed
