"""Finds the names of differing files: asks one node of each side."""

from __future__ import annotations

from ... import __version__
from ...common.text import read_json
from ...control import frames
from ...control.messages import NodeJob
from ...specs.program import Program
from .runner_versions import differing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...common.loop import Timer
    from ...head.fleet.fleet import NodeFleet
    from ...head.run.run_node import RunNode
    from ..exec.runner_fleet_programs import FleetProgram
    from .runner_findings import Outlier

PATIENCE = 3.0
"""Seconds for the answers; then the start continues without the names."""

SIDES = 4
"""Most groups of nodes that are asked, besides those with the usual files."""


class FileLists:
    """Asks some nodes once for the names and sizes of their Python files."""

    def __init__(self, fleet: NodeFleet, job_id: str) -> None:
        self._fleet, self._job_id = fleet, job_id
        self._program: FleetProgram | None = None
        self._timer: Timer | None = None

    def ask(
        self,
        nodes: Sequence[RunNode],
        outliers: Sequence[Outlier],
        tell: Callable[[Mapping[str, list[str]]], None],
    ) -> None:
        """Find the differing files, and report them by the first of the nodes that have them."""
        from ..exec.runner_fleet_programs import FleetPrograms

        wanted = {outliers[0].holders[0], *(one.nodes[0] for one in outliers[:SIDES])}
        asked = {node.name: node for node in nodes if node.name in wanted}
        lists: dict[str, dict[str, int]] = {}

        def finish() -> None:
            self.cancel()
            usual = lists.get(outliers[0].holders[0])
            names = {name: differing(own, usual) for name, own in lists.items()} if usual else {}
            tell(names)

        def on_end(name: str, _code: int, _why: str) -> None:
            asked.pop(name, None)
            if not asked and self._program is not None:
                finish()

        fleet = self._fleet
        connections = [fleet.nodes[node.connection.number] for node in asked.values()]
        arguments = dict.fromkeys(asked, ("--files",))
        self._timer = fleet.loop.call_later(PATIENCE, finish)
        self._program = FleetPrograms(fleet, connections).start(
            "facts", arguments, lambda name, line: lists.update({name: _read(line)}), on_end
        )
        for name, node in asked.items():
            self._program.send(name, self._question(node))

    def _question(self, node: RunNode) -> bytes:
        """Return a task that only names the folder: nothing is prepared for workers."""
        program = Program("", no_python=True)
        task = NodeJob(__version__, self._job_id, node.name, program, _folder(node), {}, (), None)
        return frames.json_line(task._asdict()) + b"\n"

    def cancel(self) -> None:
        """Stop asking, and report nothing more."""
        program, self._program = self._program, None
        if program is not None:
            program.stop()
        if self._timer is not None:
            self._timer.cancel()


def _folder(node: RunNode) -> str:
    """Return the working folder on a node, according to its facts."""
    spaces = node.hello.facts.spaces if node.hello and node.hello.facts else ()
    return next((space.path for space in spaces if space.role == "work"), "/")


def _read(line: bytes) -> dict[str, int]:
    """Return the sizes of files by name that a node has printed, without invalid entries."""
    try:
        printed = read_json(line)
    except ValueError:
        return {}
    sizes = printed.get("files") if isinstance(printed, dict) else None
    items = sizes.items() if isinstance(sizes, dict) else ()
    return {name: size for name, size in items if isinstance(size, int)}
