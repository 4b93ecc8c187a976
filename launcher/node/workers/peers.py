"""The facts about other roles of the job for the workers of a role on this node.

The files are in memory and have no name in any folder. Nothing is left behind, however the node
launcher ends. New text replaces a file as a whole: readers see the old or the new text.
"""

from __future__ import annotations

import os

from ...common import system
from ...specs import role_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...specs.role_words import Peers

DOCUMENT = "roles.json"


class PeerPlaceholders:
    """The values of placeholders, variables and files, as of the last `update`."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        """Create with only the ports of the workers here, by name."""
        self._ports = ports
        self._files: dict[str, int] = {}
        self._texts: dict[str, str] = {}

    def update(self, peers: Mapping[str, Peers]) -> None:
        """Record the present places of all roles.

        Raises:
            OSError: there are no descriptors left.
        """
        self._texts = role_words.texts(peers, self._write)
        self._write(DOCUMENT, role_words.document(peers))

    def filled(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return words with their placeholders filled in."""
        return role_words.fill(words, self._ports, self._texts)

    def filled_values(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return variables with the placeholders in their values filled in."""
        return dict(zip(variables, self.filled([*variables.values()]), strict=True))

    def variables(self) -> dict[str, str]:
        """Return the variables of the workers."""
        file = _path(self._files[DOCUMENT]) if DOCUMENT in self._files else ""
        return role_words.variables(self._ports, self._texts, file)

    def close(self) -> None:
        """Close the files."""
        while self._files:
            system.close(self._files.popitem()[1])

    def _write(self, name: str, text: str) -> str:
        """Make or replace a file; return its path, which does not change."""
        fd = system.memfd_create(name, os.MFD_CLOEXEC)
        rest = memoryview(text.encode("utf-8", "surrogateescape"))
        while rest:
            rest = rest[system.write(fd, rest) :]
        known = self._files.setdefault(name, fd)
        if known != fd:
            system.dup2(fd, known, inheritable=False)
            system.close(fd)
        return _path(known)


def _path(fd: int) -> str:
    return f"/proc/{system.getpid()}/fd/{fd}"
