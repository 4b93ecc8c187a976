"""Jobs and holds that are asked at once: who answers, who does not, who tells nonsense."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, closing

from dsrun.launcher.commands.job_names import Place
from dsrun.launcher.commands.job_read import as_json, newest, read
from dsrun.launcher.control import local

from ..support.jobs import NOW, status, verbs
from ..support.local_control import new_name, serving


def test_all_are_asked_at_once_and_nobody_is_waited_for_long() -> None:
    silent = [new_name() for _ in range(3)]
    with ExitStack() as stack:
        job = stack.enter_context(serving(verbs(status(), [])))
        wrong = stack.enter_context(serving({"status": lambda *_: {"job_id": 3}}))
        for name in silent:
            stack.enter_context(closing(local.listener(local.JOB, name)))
        names = [job.name, wrong.name, *silent, "gone"]
        began = time.monotonic()
        known = read([Place(local.JOB, name) for name in names], patience=0.5)
        assert time.monotonic() - began < 1.5
    assert [one.job_id for one in known.jobs] == [status().job_id]
    assert known.jobs[0].ranks == ()
    assert (known.holds, known.silent) == ((), tuple(silent))
    assert json.loads(as_json(known))["silent"] == silent


def test_the_newest_is_the_one_that_was_started_last() -> None:
    early, late = status()._replace(since=NOW), status(job_id="late")._replace(since=NOW + 1)
    with serving(verbs(late, [])) as one, serving(verbs(early, [])) as two:
        places = [Place(local.JOB, served.name) for served in (one, two)]
        assert newest(places) == Place(local.JOB, "late")
        assert newest(places[:0]) is None


def test_without_any_there_is_nothing_to_read() -> None:
    assert read([]) == ((), (), ())
