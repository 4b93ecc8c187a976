"""The JSON types of `dsrun-check --promises --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from ...common.json_types import ExitCode, Seconds


class PromisedJson(TypedDict):
    """The promise for a fault.

    Attributes:
        codes: the exit codes of dsrun, one of which must be seen.
        line: part of a line that dsrun prints; {rank} and {host} stand for the last rank, {code}
            for the exit code, and ... for anything; "" for no line.
        cause: the cause in the report of --report_file; "" if there is no report.
        after: the least seconds from the fault until dsrun ends.
        within: the most seconds from the fault until dsrun has ended and no process is left.
    """

    codes: Sequence[ExitCode]
    line: str
    cause: str
    after: Seconds
    within: Seconds


class RowJson(TypedDict):
    """One row: a fault, the promise, and the result.

    Attributes:
        row: its name.
        fault: the fault, in words.
        promised: the promise.
        state: whether the promise was kept; `planned` with --dry_run.
        why: the breach of the promise, or the reason for skipping the row.
        code: the exit code of dsrun; None if there was none.
        line: the line that dsrun has printed about the cause; "" if none was promised or found.
        ended: seconds from the fault until dsrun had ended; None if it was not seen.
        clean: seconds from the fault until no process of the job was left on any node; None if it
            was not seen.
        command: the command of the job; the names of its folder and files differ each time.
    """

    row: str
    fault: str
    promised: PromisedJson
    state: Literal["ok", "not ok", "skipped", "planned"]
    why: Sequence[str]
    code: ExitCode | None
    line: str
    ended: Seconds | None
    clean: Seconds | None
    command: Sequence[str]


class PromisesJson(TypedDict):
    """The rows, in the order in which they were tried.

    Attributes:
        exit_code: 0 if no promise was broken, else 1.
        hosts: the hosts, in the order of ranks.
        launcher: the backend that starts the node launchers.
        seconds: the duration of all rows in seconds.
        rows: the rows.
    """

    exit_code: ExitCode
    hosts: Sequence[str]
    launcher: str
    seconds: Seconds
    rows: Sequence[RowJson]
