"""numactl: the program that puts a memory policy into effect before a worker's own starts."""

from __future__ import annotations

import os

from ...common.cpu_list import format_cpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .plan import WorkerBinding

# Source: numactl(8). `--preferred` takes one node; `--preferred-many` is there since 2.0.15.
_OPTIONS = {"bind": "-m", "preferred": "-p", "preferred-many": "-P", "interleave": "-i"}


def prefixes(
    bindings: Sequence[WorkerBinding], path: str, note: Callable[[str], None]
) -> list[tuple[str, ...]]:
    """Return the command in front of each worker; none where its memory has no rule.

    Nor where there is no numactl in `path`, or none that works here: `note` is told so. What is
    tried is one binding of each policy.
    """
    forms = {form(one): one for one in bindings if one.policy}
    if not forms:
        return [()] * len(bindings)
    tool = find(path)
    if tool is None:
        note("no numactl here: cores are bound by affinity alone, memory is not")
        return [()] * len(bindings)
    usable = {name for name, one in forms.items() if works(one, tool)}
    for name in sorted(forms.keys() - usable):
        note(f"numactl may not set the memory policy '{name}' here: only cores are bound")
    return [tuple(argv(one, tool)) if form(one) in usable else () for one in bindings]


def argv(binding: WorkerBinding, numactl: str) -> list[str]:
    """Return what to put in front of a command to bind it."""
    memory = [_OPTIONS[form(binding)], format_cpus(binding.memory)] if binding.memory else []
    return [numactl, "-C", format_cpus(binding.cpus), *memory, "--"]


def form(binding: WorkerBinding) -> str:
    """Return which of numactl's memory policies the binding needs; "" for none."""
    many = binding.policy == "preferred" and len(binding.memory) > 1
    return "preferred-many" if many else binding.policy


def find(path: str) -> str | None:
    """Return the first numactl in these folders (a PATH)."""
    found = (os.path.join(folder, "numactl") for folder in path.split(":"))
    return next((one for one in found if os.access(one, os.X_OK)), None)


def works(binding: WorkerBinding, numactl: str) -> bool:
    """Try it on nothing: containers may forbid memory policies, old ones lack some.

    What is tried runs numactl again, the one program that is certainly there.
    """
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    command = [*argv(binding, numactl), numactl, "--show"]
    try:
        pid = os.posix_spawn(numactl, command, os.environ, file_actions=silent)
    except OSError:
        return False
    return os.waitpid(pid, 0)[1] == 0
