"""What nodes report of their workers, made up: shares of the time become counters."""

from __future__ import annotations

from dsrun.launcher.control.activity_messages import Activity, LinkActivity, RankActivity


class Worked:
    """The counters of one node, which grow by shares of the time.

    Attributes:
        state: of its workers.
    """

    def __init__(self, *ranks: int) -> None:
        self.clock = 100.0
        self.state = "S"
        self._throttled = 0.0
        self._ran = dict.fromkeys(ranks, (0.0, 0.0))
        self._links: dict[str, tuple[int, float]] = {}

    def goes(
        self, seconds: float, ran: float = 0.2, waited: float = 0.0, throttled: float = 0.0
    ) -> None:
        """Let time pass; all its workers do the same."""
        self.clock += seconds
        self._throttled += throttled * seconds
        for rank, (cpu, queued) in self._ran.items():
            self._ran[rank] = cpu + ran * seconds, queued + waited * seconds

    def works(self, rank: int, seconds: float) -> None:
        """Let one worker do more."""
        cpu, queued = self._ran[rank]
        self._ran[rank] = cpu + seconds, queued

    def sends(self, peer: str, size: int, busy: float) -> None:
        """Let bytes go to another machine."""
        sent, before = self._links.get(peer, (0, 0.0))
        self._links[peer] = sent + size, before + busy

    def says(self) -> Activity:
        """What it reports now."""
        rows = tuple(
            RankActivity(
                rank=rank,
                pid=4000 + rank,
                state=self.state,
                cpu=cpu,
                waited=queued,
                moved=0,
                printed=0,
                idle=0.0,
                traced=False,
                main=cpu,
            )
            for rank, (cpu, queued) in self._ran.items()
        )
        links = tuple(
            LinkActivity(peer, sent, busy, 0, 0.001) for peer, (sent, busy) in self._links.items()
        )
        return Activity(self.clock, self._throttled, rows, links)
