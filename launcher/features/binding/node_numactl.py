"""numactl: the program that sets a memory policy and then runs the worker's program."""

from __future__ import annotations

import os

from ...common import executable
from ...common.cpu_list import format_cpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .node_plan import WorkerShare

# Source: numactl(8). `--preferred` takes one node; `--preferred-many` exists since 2.0.15.
_OPTIONS = {"bind": "-m", "preferred": "-p", "preferred-many": "-P", "interleave": "-i"}


def prefixes(bindings: Sequence[WorkerShare], note: Callable[[str], None]) -> list[tuple[str, ...]]:
    """Return the command to put before each worker's; empty if its memory has no rule.

    It is also empty if numactl is missing or does not work here; then `note` is called.
    One binding of each policy is tried.
    """
    forms = {form(one): one for one in bindings if one.policy}
    if not forms:
        return [()] * len(bindings)
    tool = executable.find("numactl")
    if not tool:
        note("numactl is not installed here: cores are bound, memory is not")
        return [()] * len(bindings)
    usable = {name for name, one in forms.items() if works(one, tool)}
    for name in sorted(forms.keys() - usable):
        note(f"numactl cannot set the memory policy '{name}' here: cores are bound, memory is not")
    return [tuple(argv(one, tool)) if form(one) in usable else () for one in bindings]


def argv(binding: WorkerShare, numactl: str) -> list[str]:
    """Return the words to put in front of a command to bind it."""
    memory = [_OPTIONS[form(binding)], format_cpus(binding.memory)] if binding.memory else []
    return [numactl, "-C", format_cpus(binding.cpus), *memory, "--"]


def form(binding: WorkerShare) -> str:
    """Return the memory policy of numactl that the binding needs, or ""."""
    many = binding.policy == "preferred" and len(binding.memory) > 1
    return "preferred-many" if many else binding.policy


def works(binding: WorkerShare, numactl: str) -> bool:
    """Return whether numactl can do this: containers may forbid policies, old versions lack some.

    It is tried with numactl itself as the command, the one program that certainly exists.
    """
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    command = [*argv(binding, numactl), numactl, "--show"]
    try:
        pid = os.posix_spawn(numactl, command, os.environ, file_actions=silent)
    except OSError:
        return False
    return os.waitpid(pid, 0)[1] == 0
