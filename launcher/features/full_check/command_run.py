"""Carry out a parsed dsrun-check: ask the nodes, compare them, and show the findings."""

from __future__ import annotations

import os
from contextlib import ExitStack

from ...common import entry
from ...common.loop import Loop
from ...common.text import plain
from ...head.output.console import Console
from ...head.run.node_jobs import tasks
from ...specs.program import CHECK
from ..quick_check.runner_answers import HostQuestion, compared_node, without_files
from ..quick_check.runner_before_start import problems
from ..quick_check.runner_compare import findings
from ..quick_check.runner_missing_here import LACKS, advised, folder_to_sync
from ..quick_check.runner_verdict import CheckVerdict
from ..quick_check.runner_versions import differing, outlier_files
from .command_nodes import EndedBySignal, LoopWait, connect, prepare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ...cli.tool_parser import ToolCommand
    from ...specs.job import JobSpec
    from ..quick_check.runner_answers import Answer
    from ..quick_check.runner_findings import ComparedNode, Finding
    from .command_nodes import ReachedNodes
    from .runner_steps import StepResult

SECONDS = 60.0
"""Seconds for a node to answer; its checks may wait for a file system."""

CAUSE = 0.5
"""Seconds for the backend to explain the end of a session."""

REPORT_SECONDS = 240.0
"""Seconds with --report, for which torch and compilers are asked."""


def execute(command: ToolCommand) -> int:
    """Check the nodes, show the findings, and return the exit code.

    Raises:
        DsrunError: the nodes cannot be reached as requested.
    """
    with ExitStack() as stack:
        prepared = prepare(command, stack)  # before there is a thread: it forks
        loop = Loop()
        options = command.options
        level = "error" if options.quiet else options.log_level
        console = Console(loop, colour=options.color, level=level)
        stack.callback(console.close)
        waiting = LoopWait(loop)
        for note in prepared.notes:
            console.log(note)
        try:
            reached = connect(prepared, waiting, console, stack)
            check = Check(prepared.job, reached, waiting, console, torch=not command.rest)
            verdict = check.run(report=command.own["report"], strict=options.strict)
            full = check.full(verdict) if command.own["full"] else None
        except EndedBySignal as ended:
            return 128 + ended.number
        finally:
            console.status("")
    return _show(command, verdict, full)


class Check:
    """Asks nodes, and compares their answers."""

    def __init__(
        self,
        job: JobSpec,
        reached: ReachedNodes,
        waiting: LoopWait,
        console: Console,
        *,
        torch: bool,
    ) -> None:
        """Prepare the questions; `torch` is required on all nodes, whatever the script imports."""
        self._job = job
        self._torch = torch
        self._reached = reached
        self._programs = reached.programs
        self._waiting = waiting
        self._console = console
        self._task = tasks(job)

    def run(self, *, report: bool, strict: bool) -> CheckVerdict:
        """Return the findings; raise Ended if a signal ends the check."""
        options, seconds = (["--report"], REPORT_SECONDS) if report else ([], SECONDS)
        answers = self._ask(self._programs.names, options, seconds)
        answers |= self._ask_without_files(answers, options, seconds)
        missing = {**self._reached.missing, **self._lost(answers)}
        answers = {name: one for name, one in answers.items() if name not in missing}
        for name, answer in answers.items():
            for note in answer.notes:
                self._console.log(f"{name}: {note}", "warning")
        found = self._compare(answers)
        lines = self._problems(answers)
        sync = next(filter(None, map(folder_to_sync, lines)), "")
        python = self._job.origin.python
        return CheckVerdict(answers, missing, advised(lines), found, strict, sync, python)

    def full(self, verdict: CheckVerdict) -> Mapping[str, StepResult]:
        """Measure the nodes that can be used, and the network between them."""
        from . import runner as full_check
        from . import runner_table as table

        results: dict[str, StepResult] = {}
        program = self._job.plan.program
        steps = table.steps(self._job.workdir, program.python or program.project_python)
        self._programs.names = [name for name in self._programs.names if verdict.usable(name)]
        if not self._programs.names:
            return results

        def progress(text: str) -> None:
            self._console.status(f"dsrun: {text}")

        def start(over: Callable[[], None]) -> None:
            def on_result(measured: Mapping[str, StepResult]) -> None:
                results.update(measured)
                over()

            full_check.run(self._programs, steps, progress, on_result)

        self._waiting.until(start)
        return results

    def _ask(
        self, names: Sequence[str], options: Sequence[str], seconds: float, **changed: object
    ) -> dict[str, Answer]:
        """Ask some nodes, with other fields in their tasks; return the answers in this order."""
        wanted = {node.host.name: node for node in self._job.plan.nodes}
        fields: dict[str, Any] = {"facts": True, **changed}
        asked = {name: self._task(wanted[name])._replace(**fields) for name in names}
        question: list[HostQuestion] = []

        def start(over: Callable[[], None]) -> None:
            question.append(HostQuestion(self._programs, over))
            question[0].ask(asked, options, seconds)

        self._waiting.until(start)
        return {name: question[0].answers[name] for name in names}

    def _ask_without_files(
        self, answers: Mapping[str, Answer], options: Sequence[str], seconds: float
    ) -> dict[str, Answer]:
        """Ask nodes that lack the script or its folder for all other facts; return these."""
        lacking = [name for name, one in answers.items() if any(map(LACKS.fullmatch, one.problems))]
        if not lacking:
            return {}
        program = self._job.plan.program._replace(script=CHECK, module=True)
        again = self._ask(lacking, options, seconds, workdir="/", program=program)
        return {name: without_files(answers[name], again[name]) for name in lacking}

    def _lost(self, answers: Mapping[str, Answer]) -> dict[str, str]:
        """Return the reasons for losses, which the program that connects the nodes reports last."""
        if any(answer.hello is None for answer in answers.values()):
            self._waiting.until(lambda over: self._waiting.loop.call_later(CAUSE, over))
        causes = self._reached.causes()
        return {name: causes[name] for name in answers if name in causes}

    def _problems(self, answers: Mapping[str, Answer]) -> list[str]:
        """Return why nodes cannot run a job together, one line each."""
        hellos = {
            node.rank: hello
            for node in self._job.plan.nodes
            if (answer := answers.get(node.host.name)) and (hello := answer.hello)
        }
        nodes = [node for node in self._job.plan.nodes if node.rank in hellos]
        return problems(nodes, hellos)

    def _compare(self, answers: Mapping[str, Answer]) -> list[Finding]:
        """Return the findings of the quick check, with the names of the files that differ."""
        known = (compared_node(name, answer, torch=self._torch) for name, answer in answers.items())
        compared = [one for one in known if one]
        return findings(compared, self._files(compared))

    def _files(self, compared: Sequence[ComparedNode]) -> dict[str, list[str]]:
        """Return the differing files, by the first of the nodes whose files differ from most."""
        outliers = outlier_files(compared)
        if not outliers:
            return {}
        asked = dict.fromkeys(name for one in outliers for name in (one.nodes[0], one.holders[0]))
        lists = {
            name: answer.files or {}
            for name, answer in self._ask(list(asked), ["--files"], SECONDS).items()
        }
        return {
            one.nodes[0]: differing(dict(lists[one.nodes[0]]), dict(lists[one.holders[0]]))
            for one in outliers
        }


def _show(
    command: ToolCommand, verdict: CheckVerdict, full: Mapping[str, StepResult] | None
) -> int:
    """Print the verdict in the requested form; return the exit code.

    Raises:
        OutputError: standard output, or the file of --svg, cannot be written.
    """
    from ..jobs.command_first_job import lines, words
    from .command_show import CheckText

    shown = CheckText(verdict, full, colour=_has_colour(command.options.color))
    own = command.own
    if own["svg"]:
        shown.draw(own["svg"])
    if own["json"]:
        entry.write(shown.as_json(words(command, verdict.sync)))
        return shown.exit_code
    entry.write(shown.as_text(own["compare"], own["report"]))
    if not (own["compare"] or own["report"]):
        entry.write("".join(f"{plain(line)}\n" for line in lines(command, verdict)))
    return shown.exit_code


def _has_colour(wanted: str) -> bool:
    from ...head.output.terminal import may_move

    return wanted == "always" or (os.isatty(1) and may_move(wanted, os.environ))
