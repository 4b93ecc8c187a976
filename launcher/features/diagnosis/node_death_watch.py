"""State that must be read before a failure, so that the failure can be explained later."""

from __future__ import annotations

import signal

from ...node.service import NodeService
from . import node_memory as memory
from .node_kernel_log import KernelLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...node.service import ServiceContext
    from ...node.workers.spawn import Process


class DeathWatch(NodeService):
    """Looks for the causes of workers' ends from now on."""

    def __init__(self, context: ServiceContext) -> None:
        super().__init__(context)
        self._before = memory.kills()
        self._log = KernelLog()
        self._messages: list[str] = []

    def evidence(self, ended: Process, code: int, /) -> tuple[str, str]:
        """Return a cause in a few words, and what was found, in lines; "" for nothing.

        Args:
            ended: a worker.
            code: its exit code, or minus the number of the signal that ended it.
        """
        if code == 0 or ended.signalled:
            return "", ""
        from .node_evidence import MachineHistory

        self._messages += self._log.read()
        seen = MachineHistory(
            self._messages, self._before, memory.kills(), readable=self._log.readable
        )
        found = seen.of(ended, code)
        return _hint(found, -code), "\n".join(found)

    def close(self) -> None:
        """Stop watching."""
        self._log.close()


def _hint(found: Sequence[str], number: int) -> str:
    kinds = {text.partition(":")[0] for text in found}
    return "out of memory" if number == signal.SIGKILL and "memory" in kinds else ""
