"""The agent of an elastic job on one node: it decides when the workers here start and stop.

Two agents have the same interface: `DsrunAgent` for the runner's own rounds, and `TorchAgent`,
which starts torch's elastic agent, for torch's rendezvous or if the user asks for it.
"""

from __future__ import annotations

from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from ...common.loop import Loop
    from ...control.messages import Start
    from ..workers.prepare import NodeSetup
    from .events import EmitAgent

    class Agent(Protocol):
        """Decides for the workers of one node, from round to round."""

        @property
        def pids(self) -> Sequence[int]:
            """Its processes among this process's children."""

        def begin(self) -> None:
            """Get ready for the first round."""

        def form(self, start: Start, /) -> None:
            """Take this node's place in a round of the runner's."""

        def change(self) -> None:
            """Leave the present round for another one."""

        def ended(self, local: int, code: int) -> None:
            """Record that a worker of the present round has ended, by its local rank."""

        def workers_gone(self) -> None:
            """Record that nothing is left of the workers that were started last."""

        def close(self) -> None:
            """Release everything; no event follows."""


def make_agent(loop: Loop, setup: NodeSetup, start: Start, emit: EmitAgent) -> Agent:
    """Return the agent that the task asks for; it tells its decisions to `emit`."""
    workers = len(start.slots)
    if setup.task.torch_agent:
        from . import commands
        from .torch_agent import TorchAgent

        return TorchAgent(loop, partial(commands.agent, setup, start), emit, workers)
    from .dsrun_agent import DsrunAgent

    return DsrunAgent(loop, emit, workers)
