"""Pictures of jobs that were never run, for tests."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from dsrun.launcher.features.picture.runner_page import page
from dsrun.launcher.features.picture.runner_timeline import Timeline
from dsrun.launcher.head.report.ending import Ending
from dsrun.launcher.head.run.events import (
    Alarm,
    AlarmOver,
    Exit,
    JobEnded,
    Lost,
    RankOutput,
    RanksStarted,
    Round,
    Started,
)

from .clock import Clock
from .reports import report

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


class Played:
    """A timeline whose time goes when told."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.timeline = Timeline(self.clock.loop.clock)

    def tell(self, *events: object, after: float = 0.0) -> None:
        self.clock.now += after
        for event in events:
            self.timeline.on_event(event)  # type: ignore[arg-type]

    def prints(self, rank: int, data: bytes, stream: int = 1) -> None:
        self.tell(RankOutput(rank, "n0", stream, data))

    @property
    def marks(self) -> list[tuple[float, str, str]]:
        return [(one.at, one.kind, one.words) for one in self.timeline.all_marks]


def played(hosts: Sequence[str], per_host: int) -> Played:
    """A job of two rounds, with a failure, a hang and a lost node."""
    made = Played()
    names, size = tuple(hosts), len(hosts) * per_host
    ranks = {name: range(at * per_host, (at + 1) * per_host) for at, name in enumerate(names)}
    made.tell(Started("j", size, names, ("n0", 29500)), after=0.5)
    for number in (1, 2):
        made.tell(Round(number, number - 1, size, names))
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
        made.tell(Exit(1, names[0], 7, 3, False, HOSTILE[2]), after=2.0)
        made.tell(
            *[
                Exit(rank, name, 8, -15, True, "")
                for name, own in ranks.items()
                for rank in own
                if rank != 1
            ]
        )
    made.tell(Lost(names[-1], HOSTILE[3], False), JobEnded(Ending("j", report())), after=1.0)
    return made


def made(hosts: Sequence[str], per_host: int) -> str:
    """The picture of that job."""
    text = f"dsrun: rank 1 exited with code 3\n  {HOSTILE[0]}"
    return page(REPORT, text, played(hosts, per_host).timeline)


class Read(HTMLParser):
    """The elements of a page, with their attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", {}, ""))

    def handle_data(self, data: str) -> None:
        if self.elements:
            tag, attributes, text = self.elements[-1]
            self.elements[-1] = (tag, attributes, text + data)

    def texts(self, tag: str) -> list[str]:
        return [text for one, _, text in self.elements if one == tag]


def embedded(text: str) -> dict[str, object]:
    """The data of a page."""
    (found,) = [
        text
        for tag, attributes, text in Read(text).elements
        if tag == "script" and attributes.get("id") == "data"
    ]
    data: dict[str, object] = json.loads(found)
    return data
