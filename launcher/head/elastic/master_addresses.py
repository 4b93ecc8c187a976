"""Where the nodes of a round may reach its first one."""

from __future__ import annotations

from ..run import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..run.run import Run
    from ..run.run_node import RunNode


class MasterAddresses:
    """Orders the addresses of a first node by what has worked at the start of the job."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._verified, self._by_address = "", False

    def on_start(self) -> None:
        """Note the address of the master that all nodes have reached before the start."""
        hello, address = self._run.staged.first.hello, self._run.master
        self._verified = address
        self._by_address = hello is not None and address in hello.addresses

    def alone(self, node: RunNode) -> str:
        """Return the address for a round that has no other node."""
        given = node is self._run.staged.first and self._run.plan.master_addr
        return given or checks.LOOPBACK

    def addresses(self, node: RunNode) -> tuple[str, ...]:
        """Return where other nodes may reach this one, the most likely address first.

        What has worked at the start comes first, then addresses of the same kind: names that only
        ssh resolves are of no use between nodes.
        """
        assert node.hello is not None
        places = checks.master_candidates(node.node, node.hello, None, alone=False)
        usual = node.hello.addresses if self._by_address else ()
        known = sorted(places, key=lambda place: bool(usual) and place not in usual)
        if node is not self._run.staged.first or self._verified == checks.LOOPBACK:
            return tuple(known)
        if self._run.plan.master_addr:
            return (self._verified,)
        return tuple(dict.fromkeys([self._verified, *known]))
