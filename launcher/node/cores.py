"""Cores for the workers: planned within what is allowed, bound by numactl where that works."""

from __future__ import annotations

import os

from ..values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .binding import Binding


class Share(NamedTuple):
    """One worker's share of the cores.

    Attributes:
        prefix: the command that puts it into effect, before the worker's own.
        cpus: CPUs to set by an affinity call instead, () for none.
        threads: how many threads are worth having there.
    """

    prefix: tuple[str, ...]
    cpus: tuple[int, ...]
    threads: int


def check(environ: Mapping[str, str], core_list: str) -> str:
    """Return a line about variables that also place threads, or "".

    Raises:
        UsageError: cores cannot be bound as asked here.
    """
    from . import binding

    _plan(1, core_list)
    return binding.conflicts(environ) or ""


def unbound(workers: int) -> list[Share]:
    """Return shares that bind nothing: every worker may use the threads that fall to it."""
    threads = max(1, len(os.sched_getaffinity(0)) // max(1, workers))
    return [Share((), (), threads)] * workers


def bound(workers: int, core_list: str, path: str, note: Callable[[str], None]) -> list[Share]:
    """Return each worker's share; `note` is told what had to be done differently.

    Raises:
        UsageError: `core_list` is not usable here.
    """
    from .binding import numactl_argv

    bindings = _plan(workers, core_list)
    if len({one.cpus for one in bindings}) < workers:
        note(f"{workers} workers share {len({one.cpus for one in bindings})} cores")
    numactl = _numactl(bindings[0], path, note)
    return [
        Share(tuple(numactl_argv(one, numactl)), () if numactl else one.cpus, one.cores)
        for one in bindings
    ]


def _plan(workers: int, core_list: str) -> tuple[Binding, ...]:
    from . import binding, topology

    tree = topology.read_topology(allowed=os.sched_getaffinity(0))
    return binding.plan_bindings(tree, workers, core_list or None)


def _numactl(binding: Binding, path: str, note: Callable[[str], None]) -> str | None:
    """Return numactl when it is there and works: containers may forbid its memory policy."""
    from .binding import numactl_argv

    tool = next((one for one in _candidates(path) if os.access(one, os.X_OK)), None)
    if tool is None:
        note("no numactl here: cores are bound by affinity alone, memory is not")
        return None
    null = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
    argv = [*numactl_argv(binding, tool), "/bin/true"]
    pid = os.posix_spawn(tool, argv, os.environ, file_actions=[null])
    if os.waitpid(pid, 0)[1]:
        note("numactl may not bind here: cores are bound by affinity alone, memory is not")
        return None
    return tool


def _candidates(path: str) -> list[str]:
    return [os.path.join(folder, "numactl") for folder in path.split(":")]
