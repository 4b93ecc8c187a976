"""How the workers of a node are bound to its cores, memory and NICs."""

from __future__ import annotations

from ..common.values import NamedTuple


class BindingPolicy(NamedTuple):
    """How to bind.

    Attributes:
        bind_to: `none`, or which cores a worker gets: `core`, `numa`, `socket`, `exclusive` or
            `core-complex`.
        core_list: only these cpus, as in `1,3-5`; "" for all that may be used.
        smt: whether a core's other hardware threads are used beside its first.
        memory: `auto`, `bind`, `preferred`, `interleave` or `none`.
        nics: whether workers are told which NICs are near.
        report: whether the node tells, once the workers run, what they are bound to.
    """

    bind_to: str = "none"
    core_list: str = ""
    smt: bool = True
    memory: str = "auto"
    nics: bool = False
    report: bool = False
