"""What watches a run, chosen by the policies of its job."""

from __future__ import annotations

from importlib import import_module

from ...common.output_file import is_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from ...specs.job import JobSpec
    from ..output.console import Console
    from ..report.ending import Ending
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


def painter(clock: Callable[[], float], run: Run | None = None) -> Callable[[Ending], str]:
    """Return what draws a picture of a run once it has ended; of one that was refused without it.

    Args:
        clock: that of the loop.
        run: is observed from now on.
    """
    timeline = import_module("..picture.timeline", __package__).Timeline(clock)
    if run is not None:
        run.observe(timeline.on_event)
    return _drawer(timeline)


def roles_painter(
    clock: Callable[[], float], ends: Mapping[str, str]
) -> tuple[Callable[[str, Run], None], Callable[[Ending], str]]:
    """Return what observes each run of a role before it begins, and the same as `painter`.

    Args:
        clock: that of the loop.
        ends: how the clean end of each role counts, by its name.
    """
    kind = import_module("..picture.roles_timeline", __package__).RolesTimeline
    timeline = kind(clock, ends)
    return timeline.observe, _drawer(timeline)


def _drawer(timeline: Any) -> Callable[[Ending], str]:
    def draw(ending: Ending) -> str:
        draws = import_module("..picture.page", __package__).page
        page: str = draws(ending.data, ending.text, timeline)
        return page

    return draw


def report_text(
    path: str | None,
    ending: Ending,
    clock: Callable[[], float],
    draw: Callable[[Ending], str] | None = None,
) -> str:
    """Return what --report_file has: a picture, or JSON.

    Args:
        path: of the file.
        ending: how the job ended.
        clock: that of the loop.
        draw: from `painter`; None for a run that was refused.
    """
    if is_page(path):
        return (draw or painter(clock))(ending)
    from ..report.document import as_text

    return as_text(ending.data)


def _chosen(
    table: tuple[tuple[Callable[[JobSpec], bool], str], ...], spec: JobSpec
) -> Iterator[Any]:
    for applies, path in table:
        if applies(spec):
            module, _, name = path.partition(":")
            yield getattr(import_module(module, __package__.rpartition(".")[0]), name)
