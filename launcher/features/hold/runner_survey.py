"""The survey of held nodes: their slots and devices, asked with a JOB that is never started."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...head import doors
from ...head.run.run import Run, RunOverrides
from ...head.run.run_signals import on_end_signal
from ...head.run.run_state import RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...common.errors import DsrunError
    from ...head.fleet.fleet import NodeFleet
    from ...head.output.screen import Screen
    from ...head.run.startup import AllReady
    from ...specs.host import Slot
    from ...specs.job import JobSpec


class SurveyedNode(NamedTuple):
    """The facts of a surveyed node.

    Attributes:
        slots: the usable slots.
        accelerator: the kind of device.
    """

    slots: tuple[Slot, ...]
    accelerator: str


class Survey:
    """Surveys the nodes of a plan, with all checks of a start.

    Attributes:
        facts: the facts by host name; set when the survey ends without an error.
    """

    def __init__(
        self,
        spec: JobSpec,
        fleet: NodeFleet,
        console: Screen,
        on_over: Callable[[], None],
    ) -> None:
        """Prepare the survey; `on_over` is called from the loop at its end."""
        self._run = Run(
            spec,
            fleet,
            console,
            gates=doors.gates,
            owner=RunOverrides(self._on_ready, self._on_over),
        )
        self.facts: Mapping[str, SurveyedNode] = {}
        self._tell = on_over

    def start(self) -> None:
        """Survey each node as soon as it is connected."""
        self._run.start()

    def cancel(self, number: int) -> None:
        """Cancel the survey because of this signal."""
        self._run.handle(on_end_signal, number)

    @property
    def error(self) -> DsrunError | None:
        """The reason why a node cannot be used; None if all can."""
        return self._run.state.error

    def _on_ready(self, ready: AllReady) -> None:
        slots = {node.host.name: node.slots or () for node in ready.plan.nodes}
        self.facts = {
            node.name: SurveyedNode(slots[node.name], node.hello.accelerator)
            for node in self._run.state.nodes
            if node.hello
        }
        self._run.handle(RunState.finish)

    def _on_over(self) -> None:
        run, nodes = self._run, self._run.state.nodes
        run.release_nodes()
        run.release(nodes)
        for node in nodes:
            if node.connection.connected:
                run.fleet.expect_beats(node.connection)
        self._tell()
