"""The JSON types of `dsrun-exec --json`: see `common.formats`."""

from __future__ import annotations

from typing import TypedDict


class _WholeOutput(TypedDict):
    """The fields of every host.

    Attributes:
        node: the name of the host.
        exit_code: the command's exit code, 128 + N if signal N ended it; None if it has none.
        error: why there is no exit code; None if there is one.
        stdout: output of the command on standard output; bytes that are not UTF-8 are replaced.
        stderr: output of the command on standard error; bytes that are not UTF-8 are replaced.
    """

    node: str
    exit_code: int | None
    error: str | None
    stdout: str
    stderr: str


class HostOutputJson(_WholeOutput, total=False):
    """The output of the command on one host, and its end there.

    Attributes:
        stdout_base64: the exact bytes of stdout in base64, if they are not UTF-8.
        stderr_base64: the exact bytes of stderr in base64, if they are not UTF-8.
    """

    stdout_base64: str
    stderr_base64: str


class Exec(TypedDict):
    """The output of a command on each host, and its end there.

    Attributes:
        exit_code: the largest exit code of all hosts; 69 counts for a host that could not be
            reached, 75 for one that was lost, 124 for one on which the command was ended by
            --timeout.
        nodes: the hosts, in the order in which they were named.
    """

    exit_code: int
    nodes: list[HostOutputJson]
