"""PROBE: tells the runner which addresses of another node can be reached from here."""

from __future__ import annotations

from collections import deque

from ...control import frames, messages
from ...node.service import NodeService
from .node_probes import AddressProbe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...node.service import ServiceContext


class Probes(NodeService):
    """Answers the PROBEs of one run, in their order."""

    def __init__(self, context: ServiceContext) -> None:
        super().__init__(context)
        self._probes: deque[AddressProbe] = deque()

    @property
    def pids(self) -> list[int]:
        """The children that resolve names."""
        return [pid for probe in self._probes for pid in probe.pids]

    def receive(self, body: bytes) -> None:
        """Try these addresses, and answer within `node_probes.SECONDS`."""
        asked, loop = messages.unpack(messages.Probe, body), self.context.loop
        probe = AddressProbe(loop, asked.candidates, asked.port, self._answer)
        self._probes.append(probe)
        probe.start()

    def close(self) -> None:
        """Give no more answers."""
        while self._probes:
            self._probes.popleft().close()

    def _answer(self) -> None:
        while self._probes and self._probes[0].done:
            verdicts = tuple(self._probes.popleft().verdicts)
            self.context.send(messages.pack(frames.PROBED, messages.Probed(verdicts)))
