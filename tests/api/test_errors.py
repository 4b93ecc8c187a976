"""Errors of jobs, which a program may send on to another process."""

from __future__ import annotations

import pickle

import pytest

from dsrun.launcher.api.errors import JobError, LaunchError, RankError
from dsrun.launcher.api.report import Report

REPORT = Report("j", 3, "failure", 1.0, 1, ("n0",), (), (), "", {})


@pytest.mark.parametrize(
    "error",
    [
        LaunchError("no such host", 69),
        JobError("stopped", 143, REPORT),
        RankError("rank 3 on n1: KeyError", 3, REPORT, (3, "n1"), "Traceback"),
    ],
    ids=["launch", "job", "rank"],
)
def test_an_error_can_be_pickled(error: JobError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))
    assert isinstance(found, JobError)
