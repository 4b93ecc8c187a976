"""The backends of torch's rendezvous, found without an import of torch."""

from __future__ import annotations

from ...common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.parser import Command

TORCHS_OWN = ("c10d", "etcd", "etcd-v2", "static")
"""Backends registered by torch (torch 2.13, distributed/elastic/rendezvous/registry.py)."""

PLUGINS = "torchrun.handlers"
"""The group of entry points in which packages name theirs."""


def check(command: Command) -> None:
    """Refuse a backend that torch lacks, if the workers run on this Python.

    Raises:
        UsageError: there is no such backend.
    """
    name = command.options.rdzv_backend
    if name in TORCHS_OWN or _runs_elsewhere(command):
        return
    import sys
    from difflib import get_close_matches
    from importlib.metadata import entry_points

    known = [*TORCHS_OWN, *sorted(one.name for one in entry_points(group=PLUGINS))]
    if name in known:
        return
    likely = get_close_matches(name, known, 1)
    meant = f"; did you mean {likely[0]}?" if likely else ""
    raise UsageError(
        f"--rdzv_backend {name}: torch has no such backend; expected {', '.join(known)}, or a "
        f"plugin that is installed for {sys.executable}{meant}"
    )


def _runs_elsewhere(command: Command) -> bool:
    """Return whether torch's agent may import packages that this process does not see."""
    options = command.options
    paths = any(one.partition("=")[0] == "PYTHONPATH" for one in options.export)
    if options.python or options.venv_script or paths:
        return True
    if not command.program:
        return False
    from ...planning.planner import project_python

    # The agent runs on a Python, whatever program the workers run.
    found = project_python(command._replace(options=options.changed(no_python=False)))
    return found is not None and bool(found.path)
