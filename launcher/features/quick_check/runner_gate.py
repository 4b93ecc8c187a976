"""The gate of the quick check: compares the nodes of a run before their workers start."""

from __future__ import annotations

from functools import partial

from ...specs.host import all_devices
from . import runner_compare as compare
from . import runner_findings as findings
from .runner_findings import ComparedNode, Severity
from .runner_versions import outlier_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...head.run.gate import Done
    from ...head.run.run import Run
    from ...head.run.run_node import RunNode
    from .runner_file_lists import FileLists
    from .runner_findings import Finding, Outlier

OF_PYTHON = frozenset({"torch", "nccl"})
"""Errors about packages of the workers' Python."""


class QuickCheck:
    """Compares the nodes of a run; prints each warning once."""

    def __init__(self, run: Run) -> None:
        self.handlers: Mapping[int, Callable[[RunNode, bytes], None]] = {}
        self._run, self._spec = run, run.spec
        self._told: set[str] = set()
        self._lists: FileLists | None = None

    def check(self, nodes: Sequence[RunNode], done: Done) -> None:
        """Compare all nodes of the start, or a new node with the present ones."""
        self._cancel()
        run, compared = self._run.state, self._compared_nodes(nodes)
        if run.started:
            there = self._compared_nodes([node for node in run.nodes if not node.over])
            found = [one for node in compared for one in compare.newcomer(node, there)]
            self._judge(nodes, found, done)
        elif outliers := outlier_files(compared):
            answered = partial(self._on_files, nodes, compared, done)
            self._run.state.do(self._ask, nodes, outliers, answered)
        else:
            self._compare(nodes, compared, done, {})

    def close(self) -> None:
        """Stop asking for lists of files."""
        self._cancel()

    def _ask(
        self,
        nodes: Sequence[RunNode],
        outliers: Sequence[Outlier],
        answered: Callable[[Mapping[str, list[str]]], None],
    ) -> None:
        from .runner_file_lists import FileLists

        self._cancel()  # a check of the same step has asked other nodes
        self._lists = FileLists(self._run.fleet, self._spec.job_id)
        self._lists.ask(nodes, outliers, answered)

    def _cancel(self) -> None:
        if self._lists is not None:
            self._lists.cancel()

    def _on_files(
        self,
        nodes: Sequence[RunNode],
        compared: Sequence[ComparedNode],
        done: Done,
        files: Mapping[str, list[str]],
    ) -> None:
        self._run.handle(lambda _run: self._compare(nodes, compared, done, files))

    def _compare(
        self,
        nodes: Sequence[RunNode],
        compared: Sequence[ComparedNode],
        done: Done,
        files: Mapping[str, list[str]],
    ) -> None:
        """Compare all nodes; `files` has the names of differing files of some."""
        self._judge(nodes, compare.findings(compared, files), done)

    def _compared_nodes(self, nodes: Sequence[RunNode]) -> list[ComparedNode]:
        return [self._compared_node(node) for node in nodes if node.latest and node.latest.facts]

    def _compared_node(self, node: RunNode) -> ComparedNode:
        """Return a node in the form that is compared.

        Files copied by --sync are equal on all nodes, except for those that --sync leaves out.
        """
        found = compared_node(node)
        if self._spec.sync is None:
            return found
        env = {name: text for name, text in found.facts.env.items() if name != "PYTHONPATH"}
        return found._replace(facts=found.facts._replace(files="", env=env))

    def _judge(self, nodes: Sequence[RunNode], found: Sequence[Finding], done: Done) -> None:
        """Print the warnings among findings, and refuse the nodes of the errors."""
        errors = [one for one in found if self._is_error(one)]
        for line in findings.lines([one for one in found if one not in errors]):
            if line not in self._told:
                self._told.add(line)
                self._warn(line)
        causes: dict[str, list[str]] = {}
        for one in errors:
            for name in one.nodes:
                causes.setdefault(name, []).append(one.text)
        refused = {node: "; ".join(causes[node.name]) for node in nodes if node.name in causes}
        done(refused, findings.lines(errors))

    def _warn(self, line: str) -> None:
        self._run.state.warn(line)
        if observers := self._run.state.observers:
            observers.warned(line)

    def _is_error(self, one: Finding) -> bool:
        """Return whether a finding ends the start.

        Nobody knows which Python a program of --no_python uses, if any.
        """
        unsure = self._spec.plan.program.no_python and one.code in OF_PYTHON
        error = one.severity is Severity.ERROR and not unsure
        return error or self._spec.checks.strict


def compared_node(node: RunNode) -> ComparedNode:
    """Return a node that has sent its facts in the form that is compared."""
    hello = node.latest
    assert hello is not None
    assert hello.facts is not None
    slots = node.node.slots
    return ComparedNode(
        name=node.name,
        facts=hello.facts,
        workers=hello.slots if slots is None else len(slots),
        slots=None if slots is None else all_devices(slots),
        accelerator=hello.accelerator,
        ahead=node.ahead,
        needs_torch=hello.facts.imports_torch,
    )
