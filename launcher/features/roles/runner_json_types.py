"""The types of the report on a job of several roles, for `--report_file`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict, get_args

from ...common.json_types import ExitCode, Natural, Positive, Seconds, one_of
from ...head.report.document import Failure
from ...head.report.json_types import Cause, VerdictJson
from ...specs.roles import ENDS
from .runner_policy import RoleState


class RoleEnd(TypedDict):
    """The end of one role.

    Attributes:
        ends: the effect of its clean end: the job is over (job); the job does not end without it
            (wait); a failure (never).
        state: its last state.
        started: whether any of its workers has been started.
        restarts: the number of restarts after a failure.
        report: the report on its last run, in one of the other forms; None without a run.
    """

    ends: Annotated[str, one_of(ENDS)]
    state: Annotated[str, one_of(one.value for one in RoleState)]
    started: bool
    restarts: Natural
    report: Mapping[str, Any] | None


class RolesEnded(TypedDict):
    """A job of several roles that was started.

    Attributes:
        job_id: id of the job.
        exit_code: exit code of dsrun.
        seconds: duration of the job in seconds.
        cause: the reason for the end, as in the report on the role that ended the job, or: a role
            broke a rule of the job, or ended when it should not (role).
        role: the role that ended the job before its time, or None.
        sentence: the outcome; "" if there is nothing to say.
        first_failure: the failure of that role that came first in time; None if none failed.
        verdict: the reason why that role has failed; None if none has.
        signal: number of the signal that stopped dsrun, or None.
        left: processes that could not be stopped, as text for the user.
        unseen: processes that may still run on lost nodes, as text for the user.
        roles: the end of each role, by its name.
    """

    job_id: str
    exit_code: ExitCode
    seconds: Seconds
    cause: Annotated[str, one_of((*get_args(Cause), "internal error", "role"))]
    role: str | None
    sentence: str
    first_failure: Failure | None
    verdict: VerdictJson | None
    signal: Positive | None
    left: Sequence[str]
    unseen: Sequence[str]
    roles: Mapping[str, RoleEnd]
