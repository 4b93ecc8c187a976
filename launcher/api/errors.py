"""The errors of a Python program's job."""

from __future__ import annotations

from ..common.errors import LOST, USAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .report import Report


class JobError(Exception):
    """A job ended badly without a failed rank: it was stopped, or lost a node.

    Attributes:
        exit_code: the exit code that the command `dsrun` would have had.
        report: the report of the job; None if unknown.
    """

    def __init__(self, text: str, exit_code: int = LOST, report: Report | None = None) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.report = report


class LaunchError(JobError):
    """A job could not be started; nothing is left running. The message is the command's."""

    def __init__(self, text: str, exit_code: int = USAGE) -> None:
        super().__init__(text, exit_code)


class RankError(JobError):
    """A rank has failed. Its `__cause__` is the exception of its function, if it could be sent.

    Attributes:
        host: the name of its node.
        role: the role, in a job of several; "" in any other.
        traceback: the traceback of the function there, as text; "" without an exception.
    """

    def __init__(
        self,
        text: str,
        exit_code: int = 1,
        report: Report | None = None,
        place: tuple[int, str] = (0, ""),
        traceback: str = "",
        role: str = "",
    ) -> None:
        """Make the error of a rank; `place` is the rank and the name of its node.

        The text alone is enough to unpickle one, as its attributes are restored afterwards.
        """
        super().__init__(text, exit_code, report)
        self.rank, self.host = place
        self.traceback, self.role = traceback, role
