"""What watches a run, chosen by the policies of its job."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...specs.job import JobSpec
    from ..output.console import Console
    from ..run.run import Run

WATCHES: tuple[tuple[Callable[[JobSpec], bool], str], ...] = (
    (lambda spec: bool(spec.watch.rules or spec.watch.fruitless_rounds), ".watch.rules:RuleWatch"),
    (lambda spec: spec.watch.slow, ".watch.slow:SlowWatch"),
    (lambda spec: spec.hooks.metrics_file is not None, ".hooks.metrics:MetricsFile"),
    (lambda spec: bool(spec.hooks.on_event), ".hooks.commands:EventCommands"),
    (lambda spec: bool(spec.watch.hang_timeout), ".watch.hang:HangWatch"),
    (lambda spec: spec.debug is not None, ".debug.debugging:Debugging"),
)
"""When a run is watched, and by what: "module:class", the module relative to `head`. The class is
given the run and its console before the run begins; it observes the run (`head/run/events`)."""


def attach(run: Run, console: Console) -> None:
    """Have a run watched; modules are imported only where a job needs them."""
    for applies, path in WATCHES:
        if applies(run.spec):
            module, _, name = path.partition(":")
            kind: Any = getattr(import_module(module, __package__.rpartition(".")[0]), name)
            kind(run, console)
