"""The messages with which nodes try each other's network interfaces; `messages` packs them."""

from __future__ import annotations

from ..common.values import NamedTuple
from ..specs.field_types import register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..specs.field_types import Id, Name, Port


class Interface(NamedTuple):
    """A network interface, and the address that gloo and NCCL would use on it."""

    name: Name
    address: Name


class Network(NamedTuple):
    """A field of HELLO: the network interfaces of a node, and where it can be tried.

    Attributes:
        port: where it listens on all addresses until START; for the whole run of an elastic job.
        token: 32 characters that only this node, the runner and the nodes that dial it know. Who
            connects sends the first half, and gets the other one if it is this node.
        gloo: the address that gloo takes by default, "" if a variable names an interface or if it
            is not known.
        nccl: the interfaces that NCCL takes by default; () if it is told or not used.
        interfaces: all that are up, without loopback.
    """

    port: Port
    token: Name
    gloo: Name
    nccl: tuple[Name, ...]
    interfaces: tuple[Interface, ...]


class Dial(NamedTuple):
    """An address at which another node shall be."""

    address: Name
    port: Port
    token: Name


class Reach(NamedTuple):
    """REACH: dial other nodes, and set variables for the workers that are started from now on.

    Attributes:
        id: the number of this request; there is no answer to one without dials.
    """

    id: Id
    dials: tuple[Dial, ...]
    variables: dict[str, str]


class Reached(NamedTuple):
    """REACHED: for each dial "" if that node has answered, or why not, in words."""

    id: Id
    verdicts: tuple[Name, ...]


register(Interface, Dial)
