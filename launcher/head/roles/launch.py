"""Prepares the roles of a job that has a fleet for itself, for `job/launch`."""

from __future__ import annotations

from .roles_job import RolesJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.job import JobSpec
    from ...specs.roles import RolesSpec
    from ..fleet.fleet import NodeFleet
    from ..job.control import MakePrograms
    from ..output.screen import Screen


def programs_of(spec: RolesSpec) -> MakePrograms:
    """Return the function that prepares the roles of a job on the fleet of the job."""

    def prepare(_job: JobSpec, fleet: NodeFleet, console: Screen) -> RolesJob:
        roles = RolesJob(spec, fleet, console, fleet.loop.stop)
        fleet.on_idle = roles.effects.on_idle
        return roles

    return prepare
