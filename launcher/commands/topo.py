"""dsrun-topo: this machine as a tree, and what binding its workers would get here."""

from __future__ import annotations

import os

from ..common import entry
from ..common.errors import UsageError

HELP = """\
usage: dsrun-topo [options]

Draws this machine: sockets, NUMA nodes, cores, devices and network cards, as far as this process
may use them; and below that, what each of so many workers would be bound to.

Options are dsrun's own. Those that count here:
  --num_gpus N            so many workers (one for each device, else for each NUMA node)
  --accelerator NAME      whose devices
  --bind_to WHAT          core, numa or socket (core)
  --numa_binding WHAT     the same by torchrun's names: node, socket, exclusive or core-complex
  --bind_core_list LIST   share out only these CPUs
  --bind_smt, --bind_memory

For other machines: dsrun -H hosts --num_gpus 1 --no_local_rank --no_python dsrun-topo
"""


def run(words: list[str]) -> int:
    """Print what these words of a command line ask for; returns the exit code.

    Raises:
        UsageError: an option is unknown or has a bad value, or cores cannot be bound so.
    """
    from ..cli.parser import parse

    command = parse(words, os.environ)
    if command.program:
        raise UsageError(f"dsrun-topo runs no program: '{command.program[0]}'? see dsrun-topo -h")
    if command.help:
        entry.write(HELP)
        return 0
    from .topo_plan import survey

    entry.write(f"{survey(command.options)}\n")
    return 0


def start() -> None:
    """Run as a process of its own: what the command `dsrun-topo` calls."""
    entry.start(run)


if __name__ == "__main__":
    start()
