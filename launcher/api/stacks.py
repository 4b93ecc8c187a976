"""The stacks of a job's ranks, for the program that has launched it."""

from __future__ import annotations

from ..common.errors import LOST, DsrunError
from ..common.records import NamedTuple
from .errors import JobError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Stacks(NamedTuple):
    """The places of a job's ranks in their code.

    Attributes:
        sentence: the rank that the others wait for, in words.
        odd: the ranks that others wait for; () if none can be named.
        text: the sentence and the folded stacks, as `dsrun-job stacks` prints them.
        fields: everything, as `dsrun-job stacks --json` prints it.
    """

    sentence: str
    odd: tuple[int, ...]
    text: str
    fields: dict[str, Any]


def read(job_id: str, *, role: str = "", native: bool = False) -> Stacks:
    """Read the stacks of a running job of this user on this machine, or of one of its roles.

    Raises:
        JobError: the job has ended, none of its workers runs, or it does not answer.
    """
    from ..control import local
    from ..control.local_client import connect
    from ..control.versions import another
    from ..features.stacks import runner_collect as collect
    from ..features.stacks import runner_view_messages as view_messages
    from ..features.stacks.runner_show import StackText, as_json

    patience = collect.NATIVE_PATIENCE if native else collect.PATIENCE
    try:
        client = connect(local.JOB, job_id)
        if client is None:
            raise JobError(f"job {job_id}: it is not running", LOST)
        with client:
            asked = {"native": native, **({"role": role} if role else {})}
            views = view_messages.ask(client, asked, patience)
    except DsrunError as error:
        other = another(local.JOB, job_id)
        raise JobError(f"job {job_id}: {error}{other}", error.exit_code) from None
    fields = as_json(job_id, views)
    return Stacks(str(fields["sentence"]), tuple(fields["odd"]), StackText(views).text(), fields)
