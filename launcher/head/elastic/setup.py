"""Connects the rounds of an elastic job with the list of hosts, where that may change."""

from __future__ import annotations

from ...resources.select import read_update
from . import host_watch
from .runner_rounds import RunnerRounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.host_updates import HostUpdates
    from ...specs.policies import ElasticPolicy
    from ..run.run import Run


def runner_rounds(run: Run, limits: ElasticPolicy) -> RunnerRounds:
    """Return the restart policy of an elastic run, connected with its list of hosts."""
    rounds, updates = RunnerRounds(run, limits), run.spec.updates
    if updates is not None:
        _watch(rounds, updates, run)
    return rounds


def _watch(rounds: RunnerRounds, updates: HostUpdates, run: Run) -> None:
    source = (
        host_watch.of_program(updates.script, run.loop)
        if updates.script
        else host_watch.of_file(updates.hostfile)
    )
    watch = host_watch.HostWatch(
        run.loop,
        source,
        lambda text: read_update(updates, text),
        rounds.list_hosts,
        run.warn,
    )
    rounds.close_too(watch.close)
