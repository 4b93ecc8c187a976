"""The messages about the roles of a job; `messages` packs them."""

from __future__ import annotations

from ..common.records import NamedTuple
from ..specs.field_types import register
from ..specs.role_words import Peers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..specs.field_types import Id, Name


class RolePeers(NamedTuple):
    """PEERS: the known addresses of each role's workers, for workers that start later."""

    peers: dict[str, Peers]


class PortsAsk(NamedTuple):
    """PORTS_ASK: report once no other user listens on a port of the role on this node.

    Attributes:
        wanted: names of the ports on which the workers must listen first.
    """

    id: Id
    wanted: tuple[Name, ...]


class Ports(NamedTuple):
    """PORTS: the workers listen on the ports; `id` is the id of the question."""

    id: Id


class Lease(NamedTuple):
    """LEASE: count the silence of the runner, and send heartbeats; no JOB may ever come.

    Attributes:
        seconds: the silence after which the runner is lost.
    """

    seconds: float


register(Peers)
