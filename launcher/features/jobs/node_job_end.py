"""The question `end_job`: end the leftovers of a job on this machine, and list them."""

from __future__ import annotations

from functools import partial
from itertools import chain

from ...common.entry import load
from ...common.text import read_json
from ...control.job_messages import EndedJob
from ...node.answers import NodeAnswers
from ...node.machine.job_processes import JobEnder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...control.job_messages import EndJob
    from ...node.answers import QuestionContext, QuestionReply

LEFTOVERS = (".containers.node_records:stop",)
"""Functions that end a job's leftovers on this machine, other than processes visible here. Each
gets the job's id and the seconds between SIGTERM and SIGKILL, and returns the names of the ended
leftovers and of those that it could not end. They may block."""

PATIENCE = 90.0
"""Seconds beyond the grace for leftovers that are not processes."""


class JobEndAnswers(NodeAnswers):
    """Ends jobs as `JobEnder` does."""

    def __init__(self, context: QuestionContext) -> None:
        super().__init__(context)
        self._endings: list[JobEnder] = []

    def ask(self, ask: EndJob, reply: QuestionReply, /) -> None:
        ended = reply.bounded(partial(self._stop_others, ask, reply))
        ending = JobEnder(self.context.loop, ask, ended)
        self._endings.append(ending)
        ending.start()

    def _stop_others(self, ask: EndJob, reply: QuestionReply, outcome: EndedJob) -> None:
        """Stop the job's other leftovers in a child; then reply."""

        def heard(data: bytes) -> None:
            ended, left = read_json(data) if data else ([], [])
            reply(EndedJob((*outcome.ended, *ended), (*outcome.left, *left)))

        def others() -> list[list[str]]:
            found = [load(name)(ask.job_id, ask.grace) for name in LEFTOVERS]
            return [[*chain(*(one[which] for one in found))] for which in (0, 1)]

        self.calls.call(others, ask.grace + PATIENCE, reply.bounded(heard))

    def close(self) -> None:
        super().close()
        while self._endings:
            self._endings.pop().close()
