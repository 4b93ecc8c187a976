"""Pictures of jobs of several roles that were never run, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.picture.runner_page import page
from dsrun.launcher.features.picture.runner_roles_timeline import RolesTimeline
from dsrun.launcher.head.run.events import Exit, RankOutput, RanksStarted, Started

from .clock import Clock

if TYPE_CHECKING:
    from dsrun.launcher.head.run.events import RunEvent

HOSTS = {"server": ("n0",), "trainer": ("n0", "n1")}


class PlayedRoles:
    """A server on one host, and trainers on two."""

    def __init__(self, **ends: str) -> None:
        self.clock = Clock()
        usual = {"server": "never", "trainer": "job"}
        self.timeline = RolesTimeline(self.clock.loop.clock, ends or usual)

    def tell(self, role: str, *events: RunEvent, after: float = 0.0) -> None:
        self.clock.now += after
        for event in events:
            self.timeline.parts[role].on_event(event)

    def start(self, role: str, after: float = 0.0) -> None:
        hosts = HOSTS[role]
        self.timeline.restart(role)
        self.tell(role, Started("j", len(hosts), hosts, ("n0", 29500)), after=after)
        self.tell(role, *[RanksStarted(host, (rank,)) for rank, host in enumerate(hosts)])

    def end(self, role: str, code: int = 0, after: float = 0.0, *, stopped: bool = False) -> None:
        ends = [Exit(rank, host, 7, code, stopped, "") for rank, host in enumerate(HOSTS[role])]
        self.tell(role, *ends, after=after)

    @property
    def page(self) -> str:
        """The picture, as HTML."""
        return page({"job_id": "j", "exit_code": 0}, "", self.timeline)


def played() -> PlayedRoles:
    """The server starts, fails and starts again while the trainers run."""
    job = PlayedRoles()
    job.start("server", after=1.0)
    job.tell("server", RankOutput(0, "n0", 1, b"listening\n"))
    job.start("trainer", after=1.0)
    job.tell(
        "trainer", RankOutput(0, "n0", 1, b"step 1\n"), RankOutput(1, "n1", 1, b"saved a.ckpt\n")
    )
    job.end("server", 3, after=1.0)
    job.start("server", after=1.0)
    job.end("trainer", after=2.0)
    job.end("server", -15, stopped=True, after=1.0)
    return job
