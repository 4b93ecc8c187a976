"""The messages with which nodes try each other's network interfaces; `messages` packs them."""

from __future__ import annotations

from ..common.records import NamedTuple
from ..specs.field_types import register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..specs.field_types import Id, Name, Port


class Interface(NamedTuple):
    """A network interface, and the address that gloo and NCCL would use on it."""

    name: Name
    address: Name


class Network(NamedTuple):
    """A field of HELLO: the network interfaces of a node, and the address where others can try it.

    Attributes:
        port: the port on which the node listens, on every address, until START; in an elastic job,
            for the whole run.
        token: 32 characters that only this node, the runner and the nodes that dial it know. A
            caller sends the first half, and gets the second half if it has reached this node.
        gloo: the address that gloo takes by default, "" if a variable names an interface or if it
            is unknown.
        nccl: the interfaces that NCCL takes by default; () if a variable names them or NCCL is not
            used.
        interfaces: all interfaces that are up, without loopback.
    """

    port: Port
    token: Name
    gloo: Name
    nccl: tuple[Name, ...]
    interfaces: tuple[Interface, ...]


class Dial(NamedTuple):
    """An address that should belong to another node."""

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
