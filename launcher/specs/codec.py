"""Converts a job to JSON values and back, for a hold and for programs that run jobs.

`field_types` reads the values. Texts are written as by `environment.to_wire`, which lets both
ends use different encodings of file names.
"""

from __future__ import annotations

from .. import __version__
from ..common.errors import UsageError
from .backend import BackendSettings, DialIn
from .batch_plan import BatchPlan, BatchSettings
from .environment import ForwardedEnv, each_text, text_from_wire, to_wire
from .field_types import Misfit, reader, register, register_later
from .hold import HoldSpec
from .host import Host
from .host_updates import HostFilter, HostUpdates
from .job import JobSpec
from .plan import Node, Origin, Plan, Share
from .policies import POLICIES
from .program import Program
from .rendezvous import Rendezvous
from .sync import SyncSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from .container import ContainerSpec

    Shape = TypeVar("Shape", bound=tuple[object, ...])

SHAPES: tuple[type[Any], ...] = (
    *(BackendSettings, BatchPlan, BatchSettings, DialIn, Host, HostFilter, HostUpdates, HoldSpec),
    *(JobSpec, Node, Origin, Plan, Program, Rendezvous, Share, SyncSpec, ForwardedEnv, *POLICIES),
)
"""The classes that can be converted."""

register(*SHAPES)


def _container() -> type[ContainerSpec]:
    from .container import ContainerSpec

    return ContainerSpec


register_later("ContainerSpec", _container)


def encode(value: tuple[object, ...]) -> dict[str, Any]:
    """Return one of the values of `SHAPES` as JSON values, with the version of dsrun.

    Raises:
        UsageError: a field has a value of another type.
    """
    name = type(value).__name__
    try:
        made = _as_json(each_text(value, to_wire))
        reader(name)(made)
    except Misfit as misfit:
        raise UsageError(f"invalid {name}: {misfit}") from None
    except UnicodeError:
        raise UsageError(f"invalid {name}: a string cannot be encoded") from None
    return {"dsrun": __version__, name: made}


def decode(shape: type[Shape], message: object) -> Shape:
    """Return the value from the output of `encode`.

    Raises:
        UsageError: the message is of another version or class, or a field is missing or not valid.
    """
    name = shape.__name__
    fields = message if isinstance(message, dict) else {}
    version = fields.get("dsrun")
    if version != __version__:
        raise UsageError(f"made by dsrun {str(version)[:40]}, but this is dsrun {__version__}")
    if fields.keys() != {"dsrun", name}:
        raise UsageError(f"invalid {name}: expected the fields dsrun and {name}")
    try:
        made: Shape = reader(name)(fields[name])
    except Misfit as misfit:
        raise UsageError(f"invalid {name}: {misfit}") from None
    return each_text(made, text_from_wire)


def _as_json(value: Any) -> Any:
    """Return a value in JSON's form: with a list for a tuple, a set and the fields of a spec."""
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    if isinstance(value, (tuple, frozenset)):
        ordered = sorted(value) if isinstance(value, frozenset) else value
        return [_as_json(one) for one in ordered]
    return value
