"""Programs of dsrun that a runner starts on nodes, as commands in addition to the runs.

Each is a function in this table: it gets its arguments, uses the standard streams, and returns its
exit code.
"""

from __future__ import annotations

import sys

from ..backends.base import node_argv
from ..common.entry import load
from ..common.errors import USAGE
from ..common.stderr import tell
from ..specs.backend import BackendSettings
from ..specs.environment import to_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROGRAMS: dict[str, str] = {
    "container": ".containers.node_host:main",
    "collective": ".full_check.node_collective:main",
    "debug": ".debug.node_program:main",
    "device": ".full_check.node_devices:main",
    "facts": ".quick_check.node_program:main",
    "network": ".full_check.node_network:main",
    "promises": ".promises.node_program:main",
    "ready": ".quick_check.node_ready:main",
    "setup": ".setup.node_program:main",
    "sync": ".sync.node_program:main",
}
"""Programs by name: "module:function", the module relative to `features/`."""

OPTION = "--program="
"""The node launcher's argument that names one of them; the program's own arguments follow."""


def command_line(name: str) -> tuple[str, ...]:
    """Return the words that start a program, with the Python and the dsrun of this process."""
    settings = BackendSettings(python=sys.executable)
    return tuple(map(to_wire, node_argv(settings, f"{OPTION}{name}")))


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a program in this process; return its exit code."""
    path = PROGRAMS.get(name)
    if path is None:
        tell(f"no such program: {name!r}")
        return USAGE
    main: Callable[[Sequence[str]], int] = load(path)
    return main(arguments)
