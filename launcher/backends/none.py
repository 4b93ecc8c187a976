"""No launcher: the same command was run on every node by somebody else, and the nodes dial in."""

from __future__ import annotations

from . import base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..common.loop import Loop
    from ..specs.backend import BackendSettings
    from ..specs.plan import Node
    from .events import Emit


class NoLauncher:
    """Starts nothing, and waits."""

    transport = "dial"

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why it cannot start these nodes, or ""."""
        return f"--no_ssh: {base.lacks_tls()}" if base.lacks_tls() else ""

    def commands(
        self, nodes: Sequence[Node], dial: base.Dial | None
    ) -> list[tuple[str, list[str]]]:
        """Return (host, argv) as somebody is to run it there: this command, with its node rank."""
        return [(n.host.name, ["dsrun", "--no_ssh", f"--node_rank={n.rank}", "..."]) for n in nodes]

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Nothing is to be gained by an early start."""

    def start(self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.Dial | None) -> None:
        """Nothing to do: they come by themselves."""

    def close(self) -> None:
        """Nothing to do: a node launcher ends with its line."""
