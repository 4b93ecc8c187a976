"""The quick check of a run: compares its nodes before their workers start."""

from __future__ import annotations

from ...common.values import NamedTuple
from ..checks import compare, show
from ..checks.compared_node import Subject
from ..checks.findings import Severity
from ..checks.versions import odd_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..checks.findings import Finding
    from .file_lists import FileLists
    from .run import Run
    from .run_node import RunNode

OF_PYTHON = frozenset({"torch", "nccl"})
"""Errors about packages of the workers' Python."""


class Verdict(NamedTuple):
    """What follows from the findings.

    Attributes:
        refused: why these nodes cannot take part.
        errors: the same as lines.
    """

    refused: dict[RunNode, str]
    errors: list[str]


class QuickCheck:
    """Compares the nodes of a run; each warning is printed once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._told: set[str] = set()
        self._lists: FileLists | None = None

    def compare(self, nodes: Sequence[RunNode], tell: Callable[[Verdict], None]) -> None:
        """Compare nodes that have sent HELLO, in place of an earlier comparison.

        `tell` is called with the outcome: at once, or if files differ when it is known which.
        """
        if self._lists is not None:
            self._lists.cancel()
        subjects = [self._subject(node) for node in nodes if node.hello and node.hello.facts]
        odd = odd_files(subjects)
        if not odd:
            tell(self._judge(nodes, compare.findings(subjects)))
            return

        def named(files: Mapping[str, list[str]]) -> None:
            if not self._run.ending:
                tell(self._judge(nodes, compare.findings(subjects, files)))

        if self._lists is None:
            from .file_lists import FileLists

            self._lists = FileLists(self._run)
        self._lists.ask(nodes, odd, named)

    def compare_newcomer(self, node: RunNode, present: Sequence[RunNode]) -> str:
        """Return why a node may not join others, "" if it may; print its warnings."""
        if node.hello is None or node.hello.facts is None:
            return ""
        others = [self._subject(one) for one in present if one.hello and one.hello.facts]
        verdict = self._judge([node], compare.newcomer(self._subject(node), others))
        return verdict.refused.get(node, "")

    def _subject(self, node: RunNode) -> Subject:
        """Return a node as it is compared.

        What --sync has copied is known to be the same, but not what it has left out.
        """
        found = subject(node)
        if self._run.spec.sync is None:
            return found
        env = {name: text for name, text in found.facts.env.items() if name != "PYTHONPATH"}
        return found._replace(facts=found.facts._replace(files="", env=env))

    def _judge(self, nodes: Sequence[RunNode], found: Sequence[Finding]) -> Verdict:
        errors = [one for one in found if self._is_error(one)]
        for line in show.lines([one for one in found if one not in errors]):
            if line not in self._told:
                self._told.add(line)
                self._run.warn(line)
        causes: dict[str, list[str]] = {}
        for one in errors:
            for name in one.nodes:
                causes.setdefault(name, []).append(one.text)
        refused = {node: "; ".join(causes[node.name]) for node in nodes if node.name in causes}
        return Verdict(refused, show.lines(errors))

    def _is_error(self, one: Finding) -> bool:
        """Return whether a finding ends the start.

        Nobody knows which Python a program of --no_python uses, if any.
        """
        unsure = self._run.plan.program.no_python and one.code in OF_PYTHON
        error = one.severity is Severity.ERROR and not unsure
        return error or self._run.spec.checks.strict


def subject(node: RunNode) -> Subject:
    """Return a node that has sent its facts as it is compared."""
    hello = node.hello
    assert hello is not None
    assert hello.facts is not None
    slots = node.node.slots
    return Subject(
        name=node.name,
        facts=hello.facts,
        workers=hello.slots if slots is None else len(slots),
        slots=slots,
        accelerator=hello.accelerator,
        ahead=node.ahead,
        needs_torch=hello.facts.imports_torch,
    )
