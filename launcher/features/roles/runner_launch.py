"""Prepares the roles of a job that has a fleet for itself, for `head/job/launch`."""

from __future__ import annotations

from .runner_job import RolesJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...head.fleet.fleet import NodeFleet
    from ...head.job.control import MakePrograms
    from ...head.output.screen import Screen
    from ...specs.job import JobSpec
    from ...specs.roles import RolesSpec


def programs_of(spec: RolesSpec) -> MakePrograms:
    """Return the function that prepares the roles of a job on the fleet of the job."""

    def prepare(_job: JobSpec, fleet: NodeFleet, console: Screen) -> RolesJob:
        roles = RolesJob(spec, fleet, console, fleet.loop.stop)
        fleet.on_idle = roles.effects.on_idle
        return roles

    return prepare
