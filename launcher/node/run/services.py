"""What a run does for others, or gives its workers, if asked.

Probes, trials of network interfaces, shard queues.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress

from ...control import frames, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager

    from ...common.loop import Loop
    from ...control.messages import Probe
    from ...control.reach_messages import Network
    from ..checks.probes import Probes
    from ..checks.reach import Reaching
    from ..services.shards import QueueLines
    from ..workers.prepare import NodeSetup
    from ..workers.spawn import WorkerSpec


class Services:
    """The services of one run; their modules are imported at the first use."""

    def __init__(
        self,
        loop: Loop,
        send: Callable[[bytes], None],
        note: Callable[[str], None],
        *,
        shard_queue: bool,
    ) -> None:
        """Do nothing yet; frames go to `send`, messages for the user to `note`."""
        self._loop = loop
        self._send = send
        self._note = note
        self._shard_queue = shard_queue
        self._probes: Probes | None = None
        self._reaching: Reaching | None = None
        self._queues: QueueLines | None = None

    @property
    def pids(self) -> Collection[int]:
        """The processes of the probes."""
        return () if self._probes is None else self._probes.pids

    def probe(self, message: Probe) -> None:
        """Answer which addresses of another node can be reached."""
        if self._probes is None:
            from ..checks.probes import Probes

            self._probes = Probes(self._loop, self._send)
        self._probes.begin(message)

    def network(self, setup: NodeSetup) -> Network | None:
        """Return the interfaces of this node, where others can try them from now on."""
        if not (setup.task.reach and setup.usable):
            return None
        from ..checks.reach import Reaching

        with suppress(OSError):  # no descriptors: nobody tries to reach this node
            self._reaching = Reaching(self._loop, self._send)
            env = {**setup.base, **setup.task.env}
            return self._reaching.network(env, setup.devices.kind)
        return None

    def reach(self, body: bytes, setup: NodeSetup) -> None:
        """Try to reach other nodes, and note variables for the workers.

        Raises:
            BadFrame: the request is not valid, or not expected.
        """
        if self._reaching is None:
            raise frames.BadFrame("REACH without its announcement in JOB")
        from ...control.reach_messages import Reach

        request = messages.unpack(Reach, body)
        setup.base.update(request.variables)
        self._reaching.dial(request)

    def started(self, *, elastic: bool) -> None:
        """Let no other node try this one any more, unless some may still come."""
        if self._reaching is not None and not elastic:
            self._reaching.close()

    def with_queues(
        self, specs: Sequence[WorkerSpec], generation: int
    ) -> AbstractContextManager[Sequence[WorkerSpec]]:
        """Give the workers lines to the shard queues, if the job has any."""
        if not self._shard_queue:
            return nullcontext(specs)
        if self._queues is None:
            from ..services.shards import QueueLines

            self._queues = QueueLines(self._loop, self._send, self._note)
        return self._queues.given(specs, generation)

    def answer(self, number: int, text: bytes) -> None:
        """Pass on an answer of the shard queues."""
        if self._queues is not None:
            self._queues.answer(number, text)

    def ended(self, rank: int) -> None:
        """Close the lines of a worker that has ended."""
        if self._queues is not None:
            self._queues.ended(rank)

    def close_queues(self) -> None:
        """Close all lines: the runner, which would answer, is gone."""
        if self._queues is not None:
            self._queues.close()

    def close(self) -> None:
        """End all of them."""
        self.close_queues()
        for one in (self._probes, self._reaching):
            if one is not None:
                one.close()
