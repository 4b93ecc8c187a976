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
    from ..checks.compared_node import Outlier
    from ..checks.findings import Finding
    from ..run.run_node import RunNode

OF_PYTHON = frozenset({"torch", "nccl"})
"""Errors about packages of the workers' Python."""


class QuickVerdict(NamedTuple):
    """The consequences of the findings.

    Attributes:
        refused: for each node that cannot take part, the reason.
        errors: these reasons as lines.
    """

    refused: dict[RunNode, str]
    errors: list[str]


class QuickCheck:
    """Compares the nodes of a run; each warning is given once."""

    def __init__(self, spec: JobSpec, warn: Callable[[str], None]) -> None:
        """Compare nothing yet; `warn` takes each warning."""
        self._spec, self._warn = spec, warn
        self._told: set[str] = set()

    def outliers(self, nodes: Sequence[RunNode]) -> Sequence[Outlier]:
        """Return the nodes whose files differ from those of most nodes."""
        return outlier_files(self._compared_nodes(nodes))

    def compare(
        self, nodes: Sequence[RunNode], files: Mapping[str, list[str]] | None = None
    ) -> QuickVerdict:
        """Compare nodes that have sent HELLO.

        `files` tells for nodes with other files than most which these are.
        """
        return self._judge(nodes, compare.findings(self._compared_nodes(nodes), files or {}))

    def _compared_nodes(self, nodes: Sequence[RunNode]) -> list[ComparedNode]:
        return [self._compared_node(node) for node in nodes if node.hello and node.hello.facts]

    def compare_newcomer(self, node: RunNode, present: Sequence[RunNode]) -> str:
        """Return why a node may not join others, "" if it may; print its warnings."""
        if node.hello is None or node.hello.facts is None:
            return ""
        others = self._compared_nodes(present)
        verdict = self._judge([node], compare.newcomer(self._compared_node(node), others))
        return verdict.refused.get(node, "")

    def _compared_node(self, node: RunNode) -> ComparedNode:
        """Return a node in the form that is compared.

        Files copied by --sync are equal on all nodes, except for those that --sync leaves out.
        """
        found = compared_node(node)
        if self._spec.sync is None:
            return found
        env = {name: text for name, text in found.facts.env.items() if name != "PYTHONPATH"}
        return found._replace(facts=found.facts._replace(files="", env=env))

    def _judge(self, nodes: Sequence[RunNode], found: Sequence[Finding]) -> QuickVerdict:
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
        return QuickVerdict(refused, show.lines(errors))

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
