"""What watches a run, chosen by the policies of its job."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ...specs.job import JobSpec
    from ..output.console import Console
    from ..run.run import Run

WATCHES: tuple[tuple[Callable[[JobSpec], bool], str], ...] = (
    (lambda spec: bool(spec.watch.rules or spec.watch.fruitless_rounds), ".watch.rules:RuleWatch"),
    (lambda spec: spec.watch.slow, ".watch.slow:SlowWatch"),
    (lambda spec: bool(spec.watch.hang_timeout), ".watch.hang:HangWatch"),
    (lambda spec: spec.debug is not None, ".debug.debugging:Debugging"),
)
"""When a run is watched, and by what: "module:class", the module relative to `head`. The class is
given the run and its console before the run begins; it observes the run (`head/run/events`)."""


HOOKS: tuple[tuple[Callable[[JobSpec], bool], str], ...] = (
    (lambda spec: spec.hooks.metrics_file is not None, ".hooks.metrics:MetricsFile"),
    (lambda spec: bool(spec.hooks.on_event), ".hooks.commands:EventCommands"),
)
"""The same of what tells other programs of a run. The class has a method `close`, which waits until
all has been told, in a thread."""


def attach(run: Run, console: Console) -> list[Callable[[], None]]:
    """Have a run watched; return what is to be called in a thread once the job has ended.

    Modules are imported only where a job needs them.
    """
    for kind in _chosen(WATCHES, run.spec):
        kind(run, console)
    return [kind(run, console).close for kind in _chosen(HOOKS, run.spec)]


def _chosen(
    table: tuple[tuple[Callable[[JobSpec], bool], str], ...], spec: JobSpec
) -> Iterator[Any]:
    for applies, path in table:
        if applies(spec):
            module, _, name = path.partition(":")
            yield getattr(import_module(module, __package__.rpartition(".")[0]), name)
