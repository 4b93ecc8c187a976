"""REACH: lets other nodes try this one from HELLO on, and tries them for the runner."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from ...control import frames, messages
from ...control.reach_messages import Reach, Reached
from ...node.machine import interfaces
from ...node.service import NodeService
from .node_reach import Dials, IdentityListener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...control.reach_messages import Network
    from ...node.service import ServiceContext


class Reaching(NodeService):
    """Finds out which nodes can be reached, and lets others find out about this one."""

    def __init__(self, context: ServiceContext) -> None:
        super().__init__(context)
        self._identity: IdentityListener | None = None
        self._dials: list[Dials] = []

    def hello_fields(self) -> Mapping[str, Network]:
        """Return the interfaces of this node, where others can try them from now on."""
        setup = self.context.setup
        if setup.usable:
            with suppress(OSError):  # no descriptors: nobody tries to reach this node
                self._identity = one = IdentityListener(self.context.loop)
                env = {**setup.base, **setup.task.env}
                network = interfaces.network_of(env, setup.devices.kind, one.port, one.token)
                return {"network": network}
        return {}

    def receive(self, body: bytes) -> None:
        """Try to reach other nodes within `node_reach.SECONDS`, and keep the workers' variables.

        Raises:
            BadFrame: the request is invalid, or not expected.
        """
        if self._identity is None:
            raise frames.BadFrame("REACH without its announcement in JOB")
        request = messages.unpack(Reach, body)
        self.context.setup.base.update(request.variables)
        if dials := request.dials:
            answer = partial(self._answer, request.id)
            self._dials.append(Dials(self.context.loop, dials, answer))

    def store_opened(self) -> None:
        """End the other nodes' attempts to reach this node, unless more nodes may come."""
        if not self.context.setup.task.has_rounds:
            self.close()

    def close(self) -> None:
        if self._identity is not None:
            self._identity.close()
        while self._dials:
            self._dials.pop().close()

    def _answer(self, number: int, verdicts: tuple[str, ...]) -> None:
        self.context.send(messages.pack(frames.REACHED, Reached(number, verdicts)))
