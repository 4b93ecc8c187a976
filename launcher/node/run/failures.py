"""Details of workers that have failed; a child reads them from files of the user.

Workers often fail because a file system does not answer.
"""

from __future__ import annotations

from functools import partial

from ...common.text import read_json
from ..workers import error_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..machine.blocking import Calls
    from ..workers.group import FailureDetails
    from ..workers.spawn import Process

SECONDS = 5.0
"""Seconds for the file systems to answer."""


def find(
    calls: Calls,
    failed: Sequence[Process],
    known: FailureDetails,
    note: Callable[[str], None],
    then: Callable[[FailureDetails], None],
) -> None:
    """Call `then` with the known details of workers, and with those in their files.

    Args:
        calls: has the child.
        failed: the workers.
        known: details that need no files.
        note: takes a line for the user if nothing can be read.
        then: called once, perhaps at once.
    """

    def answered(data: bytes) -> None:
        try:
            recorded, evidence = read_json(data)
        except ValueError:
            note(
                f"no answer from the file systems of failed workers for {SECONDS:g} s:"
                " the report lacks their error files and the check for full disks"
            )
            then(known)
        else:
            then(known._replace(recorded=recorded, evidence=evidence))

    try:
        calls.call(partial(_read, failed, known.tails), SECONDS, answered)
    except OSError:
        answered(b"")


def _read(failed: Sequence[Process], tails: Mapping[str, Sequence[str]]) -> list[object]:
    from ...features.diagnosis.node_evidence import of_outputs

    variable = error_file.VARIABLE.encode()
    recorded = {
        f"{one.spec.rank}": error_file.read(one.spec.env.get(variable, b"")) for one in failed
    }
    return [recorded, of_outputs(failed, tails)]
