"""The message about the roles of a job; `messages` packs it."""

from __future__ import annotations

from ..common.values import NamedTuple
from ..specs.field_types import register
from ..specs.role_words import Peers


class RolePeers(NamedTuple):
    """PEERS: where the workers of each role are, as far as is known; for those that start later.

    Attributes:
        peers: by the name of the role.
    """

    peers: dict[str, Peers]


register(Peers)
