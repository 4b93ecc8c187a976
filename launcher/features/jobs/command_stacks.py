"""`dsrun-job stacks JOB`: where all ranks are in their code, and which one the others wait for."""

from __future__ import annotations

import json
import os

from ...common import entry
from ...head.output.terminal import may_move
from ..stacks import runner_collect as collect
from ..stacks import runner_view_messages as view_messages
from ..stacks.runner_show import StackText
from ..stacks.runner_show import as_json as fields
from .command_names import named_in_errors, open_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .command_names import NamedSocket


def show(place: NamedSocket, request: dict[str, object], *, whole: bool, as_json: bool) -> int:
    """Print the stacks of a job's ranks; return the exit code.

    Raises:
        DsrunError: the job refuses, does not answer, or has ended.
    """
    patience = collect.NATIVE_PATIENCE if request["native"] else collect.LONGEST
    with open_place(place) as client, named_in_errors(place):
        views = view_messages.ask(client, request, patience)
    if as_json:
        entry.write(f"{json.dumps(fields(place.name, views))}\n")
    else:
        colour = os.isatty(1) and may_move("auto", os.environ)
        entry.write(f"{StackText(views, colour=colour).text(whole=whole)}\n")
    return 0
