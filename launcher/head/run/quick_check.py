"""The quick check of a run: compares its nodes before their workers start."""

from __future__ import annotations

from ...common.values import NamedTuple
from ...specs.host import all_devices
from ..checks import compare, show
from ..checks.compared_node import ComparedNode
from ..checks.findings import Severity
from ..checks.versions import outlier_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...specs.job import JobSpec
    from ..checks.findings import Finding
    from ..fleet.fleet import Fleet
    from .file_lists import FileLists
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

    def __init__(
        self,
        spec: JobSpec,
        fleet: Fleet,
        warn: Callable[[str], None],
        wanted: Callable[[], bool],
    ) -> None:
        """Prepare it.

        Args:
            spec: the job.
            fleet: has its nodes.
            warn: prints a warning.
            wanted: returns whether the run still waits for an outcome.
        """
        self._spec, self._fleet = spec, fleet
        self._warn, self._wanted = warn, wanted
        self._told: set[str] = set()
        self._lists: FileLists | None = None

    def compare(self, nodes: Sequence[RunNode], tell: Callable[[Verdict], None]) -> None:
        """Compare nodes that have sent HELLO, in place of an earlier comparison.

        `tell` is called with the outcome: at once, or if files differ when it is known which.
        """
        if self._lists is not None:
            self._lists.cancel()
        compared = [self._compared_node(node) for node in nodes if node.hello and node.hello.facts]
        outliers = outlier_files(compared)
        if not outliers:
            tell(self._judge(nodes, compare.findings(compared)))
            return

        def named(files: Mapping[str, list[str]]) -> None:
            if self._wanted():
                tell(self._judge(nodes, compare.findings(compared, files)))

        if self._lists is None:
            from .file_lists import FileLists

            self._lists = FileLists(self._fleet, self._spec.job_id)
        self._lists.ask(nodes, outliers, named)

    def compare_newcomer(self, node: RunNode, present: Sequence[RunNode]) -> str:
        """Return why a node may not join others, "" if it may; print its warnings."""
        if node.hello is None or node.hello.facts is None:
            return ""
        others = [self._compared_node(one) for one in present if one.hello and one.hello.facts]
        verdict = self._judge([node], compare.newcomer(self._compared_node(node), others))
        return verdict.refused.get(node, "")

    def _compared_node(self, node: RunNode) -> ComparedNode:
        """Return a node as it is compared.

        What --sync has copied is known to be the same, but not what it has left out.
        """
        found = compared_node(node)
        if self._spec.sync is None:
            return found
        env = {name: text for name, text in found.facts.env.items() if name != "PYTHONPATH"}
        return found._replace(facts=found.facts._replace(files="", env=env))

    def _judge(self, nodes: Sequence[RunNode], found: Sequence[Finding]) -> Verdict:
        errors = [one for one in found if self._is_error(one)]
        for line in show.lines([one for one in found if one not in errors]):
            if line not in self._told:
                self._told.add(line)
                self._warn(line)
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
        unsure = self._spec.plan.program.no_python and one.code in OF_PYTHON
        error = one.severity is Severity.ERROR and not unsure
        return error or self._spec.checks.strict


def compared_node(node: RunNode) -> ComparedNode:
    """Return a node that has sent its facts as it is compared."""
    hello = node.hello
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
