"""The output of dsrun-check: a table with findings, the differences, everything, or JSON."""

from __future__ import annotations

import json

from ...common.errors import NODE_UNUSABLE, OutputError, reason
from ...common.formats import versioned
from ...common.text import plain
from ...common.wording import counted
from ...head.fleet.hosts import some_of
from ..quick_check import runner_tables as tables
from ..quick_check.runner_answers import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..quick_check.runner_verdict import CheckVerdict
    from .json_types import CheckedNodeJson, CheckJson, StepJson
    from .runner_steps import MeasuredFault, StepResult


class CheckText:
    """The result, to be shown."""

    def __init__(
        self, verdict: CheckVerdict, full: Mapping[str, StepResult] | None, *, colour: bool
    ) -> None:
        """Prepare the output; `full` is None without measurements."""
        self._verdict = verdict
        self._full = full
        self._colour = colour
        self._faults: list[MeasuredFault] = [
            one for step in (full or {}).values() for one in step.faults
        ]

    @property
    def exit_code(self) -> int:
        """69 if there is an error or a fault, else 0."""
        return NODE_UNUSABLE if self._verdict.errors or self._faults else 0

    def as_text(self, compare: bool, report: bool) -> str:
        """Return the differences, everything or the table, followed by the findings."""
        verdict = self._verdict
        told = {name: tables.values(one) for name, one in verdict.answers.items() if one.hello}
        if compare:
            lines = tables.differing(told) or ["nothing differs"]
        elif report:
            lines = tables.everything(told)
        else:
            answers = {**verdict.answers, **dict.fromkeys(verdict.missing, Answer())}
            states = {name: verdict.state(name) for name in answers}
            lines = tables.table(answers, states, colour=self._colour)
            lines += tables.pythons(verdict.answers, verdict.python)
        return "".join(f"{line}\n" for line in (*lines, *self._found(), *self._measured()))

    def _found(self) -> Iterator[str]:
        yield from (self._marked("error", tables.RED, line) for line in self._verdict.errors)
        yield from (self._marked("warning", tables.YELLOW, line) for line in self._verdict.warnings)

    def _marked(self, word: str, colour: str, line: str) -> str:
        mark = f"\x1b[{colour}m{word}\x1b[0m" if self._colour else word
        return f"{mark}: {line}"

    def _measured(self) -> Iterator[str]:
        """Yield matrices, notes and faults of the full check."""
        if self._full is None:
            return
        from ...head.output.terminal import columns
        from . import runner_matrix as matrix
        from . import runner_summary as summary
        from .runner_matrices import matrices

        width = columns((1,))
        for one in matrices(self._full, list(self._verdict.answers)):
            yield ""
            yield from matrix.lines(one, width, colour=self._colour)
        yield ""
        yield from map(plain, summary.lines(self._full))
        for step in self._full.values():
            yield from map(plain, step.notes)
        for fault in self._faults:
            text = f"{some_of(fault.nodes)}: {fault.text}; {fault.advice}"
            yield self._marked("fault", tables.RED, plain(text))
        if not self._faults:
            yield f"{counted(len(self._full), 'step')} of the full check: no faults"

    def draw(self, path: str) -> None:
        """Write the matrices as a picture.

        Raises:
            OutputError: the file cannot be written.
        """
        from .runner_matrices import matrices
        from .runner_svg import draw

        picture = draw(matrices(self._full or {}, list(self._verdict.answers)), self._faults)
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(picture)
        except OSError as error:
            raise OutputError(f"--svg {path}: {reason(error)}") from None

    def as_json(self, first_job: Sequence[str]) -> str:
        """Return everything as one JSON object, as docs/schemas/check.schema.json describes it.

        `first_job` is the command of a job on these nodes.
        """
        verdict = self._verdict
        names = [*verdict.answers, *verdict.missing]
        result: CheckJson = {
            "exit_code": self.exit_code,
            "errors": verdict.errors,
            "warnings": verdict.warnings,
            "first_job": first_job,
            "nodes": [self._node(name) for name in names],
            "problems": verdict.problems,
            "findings": verdict.found,
            "python": verdict.python,
            "full": None if self._full is None else [_step(*one) for one in self._full.items()],
        }
        return json.dumps(versioned("check", result)) + "\n"

    def _node(self, name: str) -> CheckedNodeJson:
        verdict = self._verdict
        answer = verdict.answers.get(name, Answer())
        hello = answer.hello
        return {
            "node": name,
            "state": verdict.state(name).words,
            "error": verdict.causes.get(name),
            "hostname": hello.hostname if hello else None,
            "python": (hello.python or None) if hello else None,
            "accelerator": hello.accelerator if hello else None,
            "devices": list(hello.devices) if hello else [],
            "slots": hello.slots if hello else None,
            "facts": hello.facts if hello else None,
            "report": dict(answer.report),
        }


def _step(name: str, result: StepResult) -> StepJson:
    return {
        "step": name,
        "faults": result.faults,
        "measured": result.measured,
        "notes": result.notes,
    }
