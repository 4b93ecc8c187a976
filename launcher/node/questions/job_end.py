"""The question `end_job`: end what a job has left on this machine, and tell what that was."""

from __future__ import annotations

from ..machine.job_processes import JobEnder
from .answers import NodeAnswers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...control.job_messages import EndedJob, EndJob
    from .answers import QuestionContext


class JobEndAnswers(NodeAnswers):
    """Ends jobs as `JobEnder` does."""

    def __init__(self, context: QuestionContext) -> None:
        super().__init__(context)
        self._endings: list[JobEnder] = []

    def ask(self, ask: EndJob, reply: Callable[[EndedJob], None], /) -> None:
        ending = JobEnder(self.context.loop, ask, reply)
        self._endings.append(ending)
        ending.start()

    def close(self) -> None:
        super().close()
        while self._endings:
            self._endings.pop().close()
