"""How the workers of a node are bound to its cores, memory and NICs."""

from __future__ import annotations

from ..common.values import NamedTuple


class BindingPolicy(NamedTuple):
    """How to bind the workers of a node.

    Attributes:
        bind_to: `none`, or which cores a worker gets: `core`, `numa`, `socket`, `exclusive` or
            `core-complex`.
        core_list: use only these cpus, as in `1,3-5`; "" for all allowed ones.
        smt: use all hardware threads of a core, not only the first.
        memory: `auto`, `bind`, `preferred`, `interleave` or `none`.
        nics: set variables that name the nearest NICs for each worker.
        report: report what the workers are bound to once they run.
    """

    bind_to: str = "none"
    core_list: str = ""
    smt: bool = True
    memory: str = "auto"
    nics: bool = False
    report: bool = False
