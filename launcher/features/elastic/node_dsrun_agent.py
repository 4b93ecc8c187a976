"""An agent without its own process: the node launcher decides within the runner's rounds."""

from __future__ import annotations

import signal
from enum import Enum

from ...common.errors import reason
from ...control.round_messages import AgentFailure
from ...node.machine import ports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...control.messages import Start
    from .node_rounds_state import AgentListener


class AgentPhase(Enum):
    """The state of this node within the runner's rounds.

    Attributes:
        IDLE: in no round, before the first one or after the last one.
        JOINED: waiting for the next round.
        RUNNING: in a round.
        STOPPING: leaving a round, whose workers are being stopped.
        FINISHED: all workers here have ended with code 0; workers of other nodes may still run.
    """

    IDLE = 1
    JOINED = 2
    RUNNING = 3
    STOPPING = 4
    FINISHED = 5


class DsrunAgent:
    """Stops the workers of this node together, and joins the next round when they are gone.

    Attributes:
        pids: it has no processes.
    """

    pids = ()

    def __init__(self, listener: AgentListener, workers: int) -> None:
        """Decide for this number of workers; `listener` receives the decisions."""
        self._listener = listener
        self._workers = workers
        self._phase = AgentPhase.IDLE
        self._ports: RoundPorts | None = None
        self._running: set[int] = set()

    def start(self) -> None:
        """Join the first round."""
        self._join()

    def form(self, _start: Start) -> None:
        """Request the workers of a round, at the place that the runner gave."""
        assert self._ports is not None
        self._ports.stop_listening()
        self._phase = AgentPhase.RUNNING
        self._running = set(range(self._workers))
        self._listener.workers_requested(())

    def change(self) -> None:
        """Leave the present round, unless this node already waits for the next one."""
        if self._phase is AgentPhase.RUNNING:
            self._leave_round()
        elif self._phase is AgentPhase.FINISHED:
            self._join()

    def ended(self, local: int, code: int) -> None:
        """Leave the round if a worker has failed."""
        self._running.discard(local)
        if code and self._phase is AgentPhase.RUNNING:
            self._leave_round()

    def workers_gone(self) -> None:
        """Join the next round, unless all workers have ended with code 0."""
        if self._phase is AgentPhase.RUNNING and not self._running:
            self._phase = AgentPhase.FINISHED
            self._listener.round_finished()
        elif self._phase in {AgentPhase.RUNNING, AgentPhase.STOPPING}:
            self._join()

    def close(self) -> None:
        """Release the ports."""
        self._phase = AgentPhase.IDLE
        self._release()

    def _leave_round(self) -> None:
        self._phase = AgentPhase.STOPPING
        self._listener.stop_requested(signal.SIGTERM)

    def _join(self) -> None:
        """Join the next round with new ports, reserved before the old ones are released.

        No worker of the former round, on any node, can then connect to the store of the next.
        """
        try:
            fresh = RoundPorts()
        except OSError as error:
            self._phase = AgentPhase.IDLE
            text = f"cannot reserve a port for the next round: {reason(error)}"
            self._listener.agent_ended(AgentFailure(text))
            return
        self._release()
        self._ports = fresh
        self._phase = AgentPhase.JOINED
        self._listener.agent_joined(fresh.store, fresh.probe)

    def _release(self) -> None:
        if self._ports is not None:
            self._ports.close()
            self._ports = None


class RoundPorts:
    """The ports that a node reserves for a round, in which it may become the first node.

    Attributes:
        store: the port of rank 0's store. The node launcher never listens there: workers of other
            nodes may connect before rank 0 does, and must then be refused.
        probe: another port, where the other nodes can try to connect until the round is formed.
    """

    def __init__(self) -> None:
        """Reserve two free ports.

        Raises:
            OSError: there are no free ports, or no descriptors left.
        """
        self._store = ports.Reservation(0)
        self._store.open_to_store()
        try:
            self._probe = ports.Reservation(0)
        except OSError:
            self._store.close()
            raise
        self.store, self.probe = self._store.port, self._probe.port

    def stop_listening(self) -> None:
        """Close the port for probes."""
        self._probe.close()

    def close(self) -> None:
        """Release both."""
        self._probe.close()
        self._store.close()
