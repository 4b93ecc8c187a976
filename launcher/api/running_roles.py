"""The roles of a job whose workers all run, according to its events."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Begun:
    """Follows the starts of workers, of each role by its name; "" in a job of one program."""

    def __init__(self) -> None:
        self._missing: dict[str, list[str]] = {}

    def __contains__(self, role: str) -> bool:
        """Return whether all nodes of a role have started the workers of its newest round."""
        return self._missing.get(role) == []

    def note(self, message: dict[str, Any]) -> None:
        """Add an event in the form sent by the runner."""
        role = str(message.get("role", ""))
        if message.get("event") in {"Started", "Round"}:
            self._missing[role] = [*message["hosts"]]
        elif message.get("event") == "RanksStarted" and message["host"] in self._missing[role]:
            self._missing[role].remove(message["host"])
