"""The socket at which a running job takes the requests of dsrun-job.

What serves them is imported for the first caller: most jobs have none.
"""

from __future__ import annotations

from ...control import local
from .seen import Seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

    from ..local.server import LocalServer
    from .run import Run


class JobSocket:
    """Listens for one run until it is closed.

    Attributes:
        seen: what was seen of the run.
    """

    def __init__(self, run: Run) -> None:
        """Observe a run, and listen; without a socket it goes on all the same."""
        self.seen = Seen()
        self._run = run
        self._server: LocalServer | None = None
        self._listener: socket | None = None
        run.observe(self.seen.on_event)
        try:
            self._listener = local.listener(local.JOB, run.spec.job_id)
        except OSError as error:
            run.log(f"dsrun-job cannot reach this job: {error.strerror or error}", "debug")
        else:
            run.loop.add_reader(self._listener.fileno(), self._serve)

    def _serve(self) -> None:
        """Serve the first caller, and all that follow."""
        from ..local.job_requests import JobRequests
        from ..local.server import LocalServer

        listener, self._listener = self._listener, None
        assert listener is not None
        self._run.loop.remove(listener.fileno())
        verbs = JobRequests(self._run, self.seen).verbs
        self._server = LocalServer(self._run.loop, listener, verbs, self._run.log)

    def close(self) -> None:
        """Stop listening, and end all connections."""
        if self._listener is not None:
            self._run.loop.remove(self._listener.fileno())
            self._listener.close()
            self._listener = None
        if self._server is not None:
            self._server.close()
