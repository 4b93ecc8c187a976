"""No launcher: the user or a scheduler runs dsrun on every node, and the nodes dial in."""

from __future__ import annotations

from ..common.packages import lacks_tls
from . import base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..common.loop import Loop
    from ..specs.backend import BackendSettings
    from ..specs.plan import Node
    from .events import Emit


class NoLauncher:
    """Starts nothing; the nodes dial in."""

    transport = "dial"

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why it cannot start these nodes, or ""."""
        return f"--no_ssh: {lacks_tls()}" if lacks_tls() else ""

    def commands(
        self, nodes: Sequence[Node], dial: base.DialBack | None
    ) -> list[base.StartCommand]:
        """Return the command for each node: this one, with a node rank."""
        argvs = [["dsrun", "--no_ssh", f"--node_rank={node.rank}", "..."] for node in nodes]
        return [base.StartCommand(a, [n.host.name]) for a, n in zip(argvs, nodes, strict=True)]

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Do nothing: an early start saves no time."""

    def start(
        self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.DialBack | None
    ) -> None:
        """Do nothing: the nodes dial in on their own."""

    def close(self) -> None:
        """Do nothing: a node launcher exits when its line closes."""
