"""Where the nodes of a round can reach its first one."""

from __future__ import annotations

from ..run import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..run.run import Run
    from ..run.run_node import RunNode


class MasterAddresses:
    """Orders the addresses of a first node by what was seen to work at the start."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._probed, self._by_address = "", False

    def on_start(self) -> None:
        """Note the address of the master that all nodes have reached before the start."""
        hello, address = self._run.staged.first.hello, self._run.master
        self._probed = address
        self._by_address = hello is not None and address in hello.addresses

    def addresses(self, nodes: Sequence[RunNode]) -> list[str]:
        """Return where the others may reach the first of these nodes, the likeliest place first.

        What was tried out at the start comes first, then what is of its kind: names that only ssh
        knows are no good between nodes.
        """
        first, alone = nodes[0], len(nodes) == 1
        assert first.hello is not None
        places = checks.master_candidates(first.node, first.hello, None, alone=False)
        usual = first.hello.addresses if self._by_address else ()
        known = sorted(places, key=lambda place: bool(usual) and place not in usual)
        local = self._probed == checks.LOOPBACK and not alone
        if first is not self._run.staged.first or local:
            return known
        given = alone or self._run.plan.master_addr
        return [self._probed] if given else list(dict.fromkeys([self._probed, *known]))
