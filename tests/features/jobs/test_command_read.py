"""Jobs and holds that are asked at once: who answers, who does not, who tells nonsense."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.poll import ready
from dsrun.launcher.control import local
from dsrun.launcher.control.frames import BadFrame
from dsrun.launcher.features.jobs import command_read as job_read
from dsrun.launcher.features.jobs.command_names import NamedSocket
from dsrun.launcher.features.jobs.command_read import as_json, newest, read

from ...support.jobs import NOW, status, verbs
from ...support.limits import HANG
from ...support.local_control import new_name, serving

if TYPE_CHECKING:
    from collections.abc import Collection


class Waits:
    """In place of `ready` and `time`: this time goes by waits in which nothing arrives alone.

    Attributes:
        silent: how many never answer; a wait for more than these takes as long as it takes.
        waited: the seconds of the waits in which nothing has arrived.
    """

    def __init__(self, silent: int) -> None:
        self.silent = silent
        self.waited: list[float] = []

    def monotonic(self) -> float:
        return 50.0 + sum(self.waited)

    def ready(self, fds: Collection[int], seconds: float) -> list[int]:
        found = ready(fds, HANG if len(fds) > self.silent else 0)
        if not found:
            self.waited.append(seconds)
        return found


def test_all_are_asked_at_once_and_nobody_is_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = [new_name() for _ in range(3)]
    waits = Waits(len(silent))
    monkeypatch.setattr(job_read, "ready", waits.ready)
    monkeypatch.setattr(job_read, "time", waits)
    with ExitStack() as stack:
        job = stack.enter_context(serving(verbs(status(), [])))
        wrong = stack.enter_context(serving({"status": lambda *_: {"job_id": 3}}))
        for name in silent:
            stack.enter_context(closing(local.listener(local.JOB, name)))
        names = [job.name, wrong.name, *silent, "gone"]
        known = read([NamedSocket(local.JOB, name) for name in names], patience=0.5)
    assert waits.waited == [0.5], "for all of them together"
    assert [one.job_id for one in known.jobs] == [status().job_id]
    assert known.jobs[0].ranks == ()
    assert (known.holds, known.silent) == ((), tuple(silent))
    told = json.loads(as_json(known))
    assert told["silent"] == silent
    assert told["unread"] == [{"name": wrong.name, "version": ""}]


def test_the_newest_is_the_one_that_was_started_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_read, "read", partial(read, patience=HANG))
    early, late = status()._replace(since=NOW), status(job_id="late")._replace(since=NOW + 1)
    with serving(verbs(late, [])) as one, serving(verbs(early, [])) as two:
        places = [NamedSocket(local.JOB, served.name) for served in (one, two)]
        assert newest(places) == NamedSocket(local.JOB, "late")
        assert newest(places[:0]) is None


def test_without_any_there_is_nothing_to_read() -> None:
    assert read([]) == ((), (), (), ())


HOLD: dict[str, Any] = {
    "name": "h",
    "version": "1",
    "since": 5.0,
    "state": "held",
    "launcher": "ssh",
    "last": "",
    "hosts": [{"host": "n0", "state": "free", "slots": [0]}],
    "runs": [],
}


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ({}, 1),
        *(({name: wrong}, 0) for name in HOLD for wrong in (None, {"a": 1}, 7j)),
        ({"since": "nan"}, 0),
        *(({"hosts": [wrong]}, 0) for wrong in (7, {}, {"state": "free", "slots": 1})),
    ],
)
def test_a_hold_that_tells_nonsense_is_left_out(told: dict[str, Any], known: int) -> None:
    try:
        assert job_read._hold({**HOLD, **told})["name"] == "h"
        found = 1
    except BadFrame:
        found = 0
    assert found == known
