"""Attaches watches, reports to other programs, and the painter to a run.

The functions here have the whole run (`head/doors` names them). They give each watch and hook only
the values that it uses, and let it observe the run.
"""

from __future__ import annotations

from functools import partial

from ... import __version__
from ...common import system
from ...common.entry import load
from ...common.output_file import is_page
from ...common.unexpected import unexpected
from ...head.run.run_view import ObservedRun, RunPhase
from ...specs.job import JobSpec
from ...specs.program import command_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...head.fleet.node_queries import NodeQuestion
    from ...head.report.ending import Ending
    from ...head.run.events import Observer, RunEvent
    from ...head.run.run import Run
    from ...specs.roles import RolesSpec
    from ..stacks.runner_view import RankView
    from .runner_alert_action import AlertAction


def observe(run: Run, feature: str, see: Observer) -> None:
    """Have a feature, named as for users, observe a run. This is a boundary.

    If the feature fails, the run goes on without it.
    """
    failed = False

    def bounded(event: RunEvent) -> None:
        nonlocal failed
        if failed:
            return
        try:
            see(event)
        except Exception as error:
            failed = True
            why = unexpected(error, run.log)
            run.log(f"this is a bug in dsrun: going on without {feature}: {why}", "warning")

    run.observe(bounded)


def alert_action(run: Run) -> AlertAction:
    """Return the reactions to findings about a run."""
    from .runner_alert_action import AlertAction

    def warn(text: str) -> None:
        run.log(text, "warning")

    state = run.state
    return AlertAction(lambda: state.phase is RunPhase.RUNNING, run.tell, warn, run.handle)


def rules(run: Run) -> None:
    """Watch the output of a run by rules, and the progress of its rounds."""
    from ...head.run.events import Round, Started
    from .runner_rules import RuleWatch

    policy, action = run.spec.watch, alert_action(run)
    in_rounds = run.spec.elastic is not None or run.spec.plan.rendezvous is not None
    watch = RuleWatch(policy.rules, run.loop, run.log, action, Round if in_rounds else Started)
    observe(run, "--rules", watch.on_event)
    if policy.fruitless_rounds:
        from .runner_progress import Progress

        progress = Progress(policy, run.loop, action, watch.moved)
        observe(run, "--stop_without_progress", progress.on_event)


def slow(run: Run) -> None:
    """Watch for slow ranks, hosts and links of a run."""
    from .runner_slow import SlowWatch

    clock, state, action = run.loop.clock, run.state, alert_action(run)
    watch = SlowWatch(clock, state.nodes, state.workers, state.record.found, action, run.tell)
    observe(run, "--warn_slow", watch.on_event)


def hang(run: Run) -> None:
    """Watch a run for hangs."""
    from .runner_hang import HangReport, HangWatch

    state = run.state

    def take_stacks(
        answered: Callable[[Mapping[int, RankView]], None], *, save: bool = False
    ) -> NodeQuestion:
        from ..stacks.runner_collect import collect

        return collect(run.fleet, state.nodes, state.workers, answered, save=save)

    def exempt() -> bool:
        stands = state.phase is not RunPhase.RUNNING or bool(run.debugging)
        return stands or run.output.held_up(state.nodes)

    def times() -> tuple[float, float]:
        from ..stacks.messages import STACKS

        return run.fleet.node_queries.times(STACKS)

    report = HangReport(
        run.spec.job_id,
        run.spec.watch,
        state.record.found,
        run.log,
        run.tell,
        lambda *found: alert_action(run).perform(*found),
        take_stacks,
    )
    watch = HangWatch(run.loop, state.nodes, state.workers, report, exempt, times)
    observe(run, "--hang_timeout", watch.on_event)


def debugging(run: Run) -> None:
    """Let editors reach the debuggers of a run's ranks."""
    from ..debug.runner_debugging import Debugging

    nodes, workers = run.state.nodes, run.state.workers
    watch = Debugging(run.spec, run.fleet, nodes, workers, run.log, run.debugging, run.handle)
    observe(run, "--debug", watch.on_event)


def hooks(run: Run) -> Callable[[], None]:
    """Report on a run to other programs; return what waits until the last report is made."""
    from ..hooks.runner import JobHooks

    queries = run.fleet.node_queries
    reports = JobHooks(run.spec, run.loop, run.log, queries, lambda: run.state.record.began)
    bounded = partial(observe, run, "--on_event and --metrics_file")
    reports.observe(ObservedRun(run.spec.role, bounded, run.view))
    return reports.close


def painter(
    clock: Callable[[], float],
    spec: JobSpec | RolesSpec | None,
    observe_runs: Callable[[Callable[[ObservedRun], None]], None] = lambda _: None,
) -> Callable[[Ending], str]:
    """Return a function that draws the picture of a job once it has ended, or was refused.

    Args:
        clock: the clock of the loop.
        spec: the job; None if unknown.
        observe_runs: registers a function that is called with each run of the job before the run
            begins; a job that was refused has none.
    """
    programs = {} if spec is None else spec.programs
    ends = {} if spec is None or isinstance(spec, JobSpec) else spec.role_ends
    timeline = load(".picture.runner_timeline:of_job")(clock, ends)
    observe_runs(timeline.observe)

    def draw(ending: Ending) -> str:
        draws = load(".picture.runner_page:page")
        job = load(".picture.runner_about:PictureHead")
        about = job(command_lines(programs), __version__, system.time() - timeline.now)
        page: str = draws(ending.data, ending.text, timeline, about)
        return page

    return draw


def report_text(
    path: str | None,
    ending: Ending,
    clock: Callable[[], float],
    draw: Callable[[Ending], str] | None = None,
    spec: JobSpec | None = None,
) -> str:
    """Return the content for --report_file: a picture, or JSON.

    Args:
        path: the path of the file.
        ending: the ending of the job.
        clock: the clock of the loop.
        draw: the function from `painter`; None for a run that was refused.
        spec: such a job; None if unknown.
    """
    if is_page(path):
        return (draw or painter(clock, spec))(ending)
    from ...head.report.document import as_text

    return as_text(ending.data)
