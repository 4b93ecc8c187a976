"""Runs the steps of the full check, one after another, on the nodes."""

from __future__ import annotations

import json
from functools import partial
from itertools import count

from ...common.text import plain
from ...control import frames, messages
from .runner_steps import StepFailed, StepResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ...common.loop import Timer
    from ..exec.runner_programs import NodePrograms, RunningProgram
    from .runner_steps import Script, Step, StepRequest, StepResult

LONGEST = 1 << 20
"""Bytes of an answer; a longer one is not read."""

END = 5.0
"""Seconds for the programs of a step to end before the next step."""


def run(
    programs: NodePrograms,
    steps: Sequence[Step],
    progress: Callable[[str], None],
    on_result: Callable[[dict[str, StepResult]], None],
) -> FullCheck:
    """Begin the full check; all callbacks are called from the loop.

    Args:
        programs: the nodes' programs, in the order in which results name nodes.
        steps: see `runner_table.steps`.
        progress: called with the current measurement, for a line that is replaced.
        on_result: called once with the result of each step by its name.
    """
    check = FullCheck(programs, steps, progress, on_result)
    check.start()
    return check


class FullCheck:
    """All steps in order; made by `run`.

    Attributes:
        results: the result of each finished step, by name.
    """

    def __init__(
        self,
        programs: NodePrograms,
        steps: Sequence[Step],
        progress: Callable[[str], None],
        on_result: Callable[[dict[str, StepResult]], None],
    ) -> None:
        self.results: dict[str, StepResult] = {}
        self._programs = programs
        self._steps = list(steps)
        self._progress = progress
        self._on_result = on_result
        self._part: _StepPart | None = None

    def start(self) -> None:
        """Run the next step, or report the result."""
        if not self._steps:
            self._on_result(without_consequences(self.results))
            return
        step = self._steps.pop(0)
        self._progress(step.name)
        over = partial(self._on_step_over, step)
        self._part = _StepPart(self._programs, step, self._progress, over)
        self._part.start()

    def stop(self) -> None:
        """End the programs; no result is reported."""
        self._steps.clear()
        if self._part is not None:
            self._part.close()

    def _on_step_over(self, step: Step, result: StepResult) -> None:
        self.results[step.name] = result
        self.start()


class _StepPart:
    """One step: its programs, and the request that they are asked."""

    def __init__(
        self,
        programs: NodePrograms,
        step: Step,
        progress: Callable[[str], None],
        over: Callable[[StepResult], None],
    ) -> None:
        self._programs = programs
        self._step = step
        self._progress = progress
        self._over: Callable[[StepResult], None] | None = over
        self._script: Script = step.script(tuple(programs.names))
        self._running: RunningProgram | None = None
        self._ended: dict[str, str] = {}
        self._ids = count(1)
        self._id = 0
        self._ask: StepRequest | None = None
        self._waiting: set[str] = set()
        self._answers: dict[str, Any] = {}
        self._timer: Timer | None = None
        self._result: StepResult | None = None

    def start(self) -> None:
        """Start the programs, and ask the script's first questions."""
        arguments: dict[str, Sequence[str]] = dict.fromkeys(self._programs.names, ())
        self._running = self._programs.start(
            self._step.program, arguments, self._on_line, self._on_end
        )
        self._advance(None)

    def close(self) -> None:
        """End the programs, ask nothing more, and report nothing."""
        self._over = self._ask = None
        self._cancel()
        self._script.close()
        self._stop()

    def _advance(self, answers: Mapping[str, Any] | None) -> None:
        """Continue the script; `None` starts it."""
        try:
            ask = self._script.send(answers) if answers is not None else next(self._script)
        except StopIteration as end:
            self._finish(end.value)
        else:
            self._start_ask(ask)

    def _start_ask(self, ask: StepRequest) -> None:
        self._ask, self._id, self._answers = ask, next(self._ids), {}
        self._waiting = set(ask.requests)
        if ask.doing:
            self._progress(f"{self._step.name}: {ask.doing}")
        self._timer = self._programs.loop.call_later(ask.seconds, self._on_timeout)
        for name, request in ask.requests.items():
            if name in self._ended:
                self._answer(name, StepFailed(self._ended[name]))
            else:
                fields = {"id": self._id, "do": ask.do, "with": request._asdict()}
                self._send(name, json.dumps(fields).encode() + b"\n")
        self._advance_if_answered()

    def _send(self, name: str, line: bytes) -> None:
        if self._running is not None:
            self._running.send(name, line)

    def _stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    def _answer(self, name: str, answer: object) -> None:
        if name in self._waiting:
            self._waiting.remove(name)
            self._answers[name] = answer

    def _advance_if_answered(self) -> None:
        """Go on from the loop when all have answered: the script may ask at once again."""
        if self._ask is not None and not self._waiting:
            self._ask = None
            self._cancel()
            answers = self._answers
            self._timer = self._programs.loop.call_later(0.0, lambda: self._advance(answers))

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _on_timeout(self) -> None:
        seconds = self._ask.seconds if self._ask is not None else 0.0
        for name in tuple(self._waiting):
            self._answer(name, StepFailed(f"no answer within {seconds:g} s"))
        self._advance_if_answered()

    def _finish(self, result: StepResult) -> None:
        """End the programs, then report."""
        self._result = result
        self._stop()
        self._timer = self._programs.loop.call_later(END, self._report)
        self._report_if_ended()

    def _report_if_ended(self) -> None:
        if self._result is not None and self._ended.keys() >= set(self._programs.names):
            self._report()

    def _report(self) -> None:
        self._cancel()
        over, self._over = self._over, None
        if over is not None and self._result is not None:
            over(self._result)

    # -- the programs -----------------------------------------------------------------------

    def _on_line(self, name: str, line: bytes) -> None:
        """Take an answer; an answer to an earlier request is too late."""
        if self._ask is None:
            return
        try:
            number, answer = _parse(line, self._ask.reply)
        except frames.BadFrame as error:
            number, answer = self._id, StepFailed(plain(f"its answer is not valid: {error}"))
        if number == self._id:
            self._answer(name, answer)
            self._advance_if_answered()

    def _on_end(self, name: str, code: int, why: str) -> None:
        self._ended[name] = plain(why) or f"the program exited with code {code}"
        self._answer(name, StepFailed(self._ended[name]))
        self._advance_if_answered()
        self._report_if_ended()


def _parse(line: bytes, reply: type[Any]) -> tuple[int, Any]:
    """Return the number of the request that a line answers, and the answer.

    Raises:
        BadFrame: it is no answer.
    """
    if len(line) > LONGEST:
        raise frames.BadFrame(f"more than {LONGEST} bytes")
    fields = frames.unpack_json(line)
    number, error, body = fields.get("id"), fields.get("error"), fields.get("reply")
    if not isinstance(number, int):
        raise frames.BadFrame("id: expected int")
    if isinstance(error, str):
        return number, StepFailed(plain(error[:1000]))
    if not isinstance(body, dict):
        raise frames.BadFrame("neither reply nor error")
    return number, messages.from_fields(reply, body)


CUT = {"link_reach", "node_reach"}
"""Faults of the network with which no collective of all nodes can succeed."""

FAILED = "failed_collective"


def without_consequences(results: Mapping[str, StepResult]) -> dict[str, StepResult]:
    """Return the results without blame for a collective that failed because of a cut link.

    Such a collective fails on all nodes, not only on those that do not reach each other. The blame
    becomes a note.
    """
    found = dict(results)
    network, collectives = found.get("network"), found.get("collectives")
    cut = [one for one in network.faults if one.code in CUT] if network else []
    if not cut or collectives is None:
        return found
    kept = tuple(one for one in collectives.faults if one.code != FAILED)
    if len(kept) < len(collectives.faults):
        why = "; ".join(one.text for one in cut)
        note = f"the collectives were not measured because they need all links: {why}"
        found["collectives"] = collectives._replace(faults=kept, notes=(*collectives.notes, note))
    return found
