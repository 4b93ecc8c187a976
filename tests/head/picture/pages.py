"""Pictures of jobs that were never run, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.head.picture.page import page
from dsrun.launcher.head.report.ending import Ending
from dsrun.launcher.head.run.events import (
    Alarm,
    AlarmOver,
    JobEnded,
    JobStarted,
    NodeLost,
    RankExit,
    RankOutput,
    RanksStarted,
    RoundBegan,
)

from ...support.reports import report
from .test_timeline import Played

if TYPE_CHECKING:
    from collections.abc import Sequence

HOSTILE = (
    "</script><script>document.title='taken'</script>",
    "<img src=x onerror=\"document.title='taken'\">",
    "<!--<script>",
    "]]>&lt;\u2028\u2029",
    "\x1b]0;taken\x07\x9b31m\u202e",
)
"""What a hostile program, host name or remote command may say."""

REPORT = {
    "job_id": "20260101-000000-abcdef",
    "exit_code": 1,
    "world_size": 2,
    "verdict": {
        "class": "program",
        "retry": "no",
        "sentence": HOSTILE[0],
        "advice": "mend the script",
    },
}


def played(hosts: Sequence[str], per_host: int) -> Played:
    """A job of two rounds, with a failure, a hang and a lost node."""
    made = Played()
    names, size = tuple(hosts), len(hosts) * per_host
    ranks = {name: range(at * per_host, (at + 1) * per_host) for at, name in enumerate(names)}
    made.tell(JobStarted("j", size, names, ("n0", 29500)), after=0.5)
    for number in (1, 2):
        made.tell(RoundBegan(number, number - 1, size, names))
        made.tell(*[RanksStarted(name, tuple(own)) for name, own in ranks.items()], after=1.0)
        made.tell(
            *[
                RankOutput(rank, name, 1, f"{HOSTILE[rank % len(HOSTILE)]} saved a.ckpt\n".encode())
                for name, own in ranks.items()
                for rank in own
            ],
            after=5.0,
        )
        made.tell(Alarm("hang", "report", f"rank 1 sleeps {HOSTILE[1]}"))
        made.tell(AlarmOver("hang", "it goes on"), after=3.0)
        made.tell(RankExit(1, names[0], 7, 3, False, HOSTILE[2]), after=2.0)
        made.tell(
            *[
                RankExit(rank, name, 8, -15, True, "")
                for name, own in ranks.items()
                for rank in own
                if rank != 1
            ]
        )
    made.tell(NodeLost(names[-1], HOSTILE[3], False), JobEnded(Ending("j", report())), after=1.0)
    return made


def made(hosts: Sequence[str], per_host: int) -> str:
    """The picture of that job."""
    text = f"dsrun: rank 1 exited with code 3\n  {HOSTILE[0]}"
    return page(REPORT, text, played(hosts, per_host).timeline)
