"""`dsrun-job top`: jobs as they are now, again and again, until `q` or Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import sys
import termios
import time
import tty
from contextlib import contextmanager, suppress

from ...common import entry
from ...common.errors import DsrunError, UsageError
from ...common.formats import versioned
from ...common.poll import ready
from ...common.stderr import tell
from ...control import frames, local
from ...control.frames import BadFrame
from ...control.versions import differs
from . import command_names as job_names
from .command_names import open_place
from .command_read import job_fields
from .command_view import JobView, cores, usage_of
from .runner_job_status import from_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.live import Live

    from ...control.job_messages import Usage
    from ...control.local_client import LocalClient, Message
    from . import json_types
    from .command_names import NamedSocket
    from .runner_job_status import JobStatus

PAUSE = 1.0
"""Seconds between two questions to a job."""

LOOK = 5.0
"""Seconds between two looks for new jobs, if all are shown."""

SLOW = 4.0
"""Seconds without an answer after which the view says so; devices may take some."""

SAMPLE = 0.5
"""Seconds between the two samples of a single view."""


class WatchedJob:
    """A job that is asked repeatedly, without waiting for answers.

    Attributes:
        ended: whether its runner is gone, or is not understood.
        unread: why the job's answers are not understood; "" if they are.
    """

    def __init__(self, place: NamedSocket, client: LocalClient) -> None:
        self.place = place
        self.ended = False
        self.unread = self._version = ""
        self._client = client
        self._status: JobStatus | None = None
        self._used: dict[str, Usage] = {}
        self._cores: dict[int, float] = {}
        self._asked: dict[int, str] = {}
        self._at = float("-inf")

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._client.fileno()

    def ask(self, now: float) -> None:
        """Ask again, if everything was answered and it is time."""
        if self.ended or self._asked or now - self._at < PAUSE:
            return
        self._at = now
        try:
            for verb in ("status", "usage"):
                request = {"do": verb, "ranks": True}
                self._asked[self._client.send(request)] = verb
        except DsrunError:
            self._finish()

    def read(self) -> None:
        """Read arrived data."""
        try:
            arrived = self._client.receive()
            for one in arrived or ():
                if one.kind == frames.ANSWER:
                    self._answered(one.message)
        except DsrunError:
            arrived = None
        except (BadFrame, LookupError, TypeError, ValueError):
            arrived = None
            self.unread = f"its answer cannot be read{differs(self._version)}"
        if arrived is None:
            self._finish()

    def _answered(self, message: Message) -> None:
        verb = self._asked.pop(int(message["id"]), "")
        if message.get("ok") is not True:
            return
        if verb == "status":
            self._version = str(message.get("version"))
            self._status = from_answer(message)
        elif verb == "usage":
            used = usage_of(message["nodes"])
            self._cores = cores(self._used, used)
            self._used = used

    def _finish(self) -> None:
        self.ended = True
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    @property
    def waits(self) -> bool:
        """True if an answer is expected."""
        return bool(self._asked) and not self.ended

    def view(self, now: float) -> JobView | None:
        """Return the latest view; None before the first answer."""
        if self._status is None:
            return None
        slow = self.waits and now - self._at > SLOW
        problem = "HAS ENDED" if self.ended else "DOES NOT ANSWER" if slow else ""
        return JobView(self._status, self._used, self._cores, problem)


class ShownJobs:
    """The jobs in the view: one, or all there are."""

    def __init__(self, chosen: NamedSocket | None) -> None:
        self._chosen = chosen
        self._watched: dict[NamedSocket, WatchedJob] = {}
        self._looked = float("-inf")

    def refresh(self, now: float) -> None:
        """Look for new jobs, and ask the known ones."""
        if now - self._looked >= LOOK and (self._chosen is None or not self._watched):
            self._looked = now
            places = job_names.places() if self._chosen is None else [self._chosen]
            for place in places:
                if place.kind == local.JOB and place not in self._watched:
                    self._connect(place)
        for one in self._watched.values():
            one.ask(now)

    def _connect(self, place: NamedSocket) -> None:
        with suppress(UsageError):  # it has ended
            self._watched[place] = WatchedJob(place, open_place(place))

    def wait(self, seconds: float, *others: int) -> list[int]:
        """Read frames for this time; return the other descriptors that are readable."""
        fds = {one.fileno(): one for one in self._watched.values() if not one.ended}
        found = ready([*fds, *others], seconds)
        for fd in found:
            if fd in fds:
                fds[fd].read()
        return [fd for fd in found if fd not in fds]

    def views(self, now: float) -> list[JobView]:
        """Return the views of all jobs; an ended job is included only if it was chosen."""
        shown = [one for one in self._watched.values() if self._chosen or not one.ended]
        return [view for one in shown if (view := one.view(now)) is not None]

    @property
    def waits(self) -> bool:
        """True if an answer is expected."""
        return any(one.waits for one in self._watched.values())

    @property
    def unread(self) -> list[str]:
        """The jobs that are not understood, and the reasons."""
        known = self._watched.items()
        return [f"job {place.name}: {one.unread}" for place, one in known if one.unread]

    @property
    def ended(self) -> bool:
        """True if a chosen job has ended."""
        looked = self._chosen is not None and self._looked > float("-inf")
        return looked and all(one.ended for one in self._watched.values())

    def close(self) -> None:
        """End all connections."""
        for one in self._watched.values():
            one.close()


def as_json(chosen: NamedSocket | None) -> int:
    """Print the jobs as they are now, as JSON; return the exit code."""
    fields: json_types.JobsJson = {"jobs": [_job(view) for view in _sampled(chosen, (0.0, 0.0))]}
    entry.write(f"{json.dumps(versioned('jobs', fields))}\n")
    return 0


def once(chosen: NamedSocket | None) -> int:
    """Print the jobs as they are now, as text, of two samples; return the exit code."""
    from rich.console import Console

    from .command_screen import draw

    views = _sampled(chosen, (PAUSE, 0.0))
    console = Console(markup=False, highlight=False)
    rows = sum(len(view.status.nodes) + len(view.status.ranks) + 4 for view in views)
    now = time.strftime("%H:%M:%S")
    console.print(draw(views, time.time(), console.width, len(views) * (rows + 1) + 1, hint=now))
    return 0


def _sampled(chosen: NamedSocket | None, pauses: Sequence[float]) -> list[JobView]:
    """Return views of the jobs after a sample before each of these pauses, in seconds.

    Raises:
        UsageError: the answer of the chosen job is not understood.
    """
    jobs = ShownJobs(chosen)
    for pause in pauses:
        jobs.refresh(time.monotonic())
        last = time.monotonic() + SLOW
        while jobs.waits and time.monotonic() < last:
            jobs.wait(last - time.monotonic())
        time.sleep(pause)
    views = jobs.views(time.monotonic())
    jobs.close()
    _check_read(jobs, chosen)
    return views


def _check_read(jobs: ShownJobs, chosen: NamedSocket | None) -> None:
    """Check that the chosen job is understood; print a line about others that are not."""
    for unread in jobs.unread:
        if chosen is not None:
            raise UsageError(f"dsrun-job: {unread}")
        tell(unread, "dsrun-job")


def _job(view: JobView) -> json_types.JobJson:
    job = job_fields(view.status)
    job["ranks"] = view.status.ranks
    job["used"] = [_used(*one) for one in view.used.items()]
    return job


def _used(host: str, usage: Usage) -> json_types.Used:
    return {
        "host": host,
        "clock": usage.clock,
        "cores": usage.cores,
        "load": usage.load,
        "total": usage.total,
        "used": usage.used,
        "ranks": usage.ranks,
        "devices": usage.devices,
    }


def watch(chosen: NamedSocket | None) -> int:
    """Show the jobs until `q`, Ctrl-C or, if one was chosen, its end; return the exit code."""
    from rich.console import Console
    from rich.live import Live

    jobs, console = ShownJobs(chosen), Console(markup=False, highlight=False)
    try:
        with _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
            _loop(jobs, console, live)
    except KeyboardInterrupt:
        pass
    finally:
        jobs.close()
    _check_read(jobs, chosen)
    if jobs.ended and chosen is not None:
        entry.write(f"dsrun-job: job {chosen.name} has ended\n")
    return 0


def _loop(jobs: ShownJobs, console: Console, live: Live) -> None:
    from .command_screen import draw

    while not jobs.ended:
        now = time.monotonic()
        jobs.refresh(now)
        hint = "  ".join(["dsrun-job top", time.strftime("%H:%M:%S"), "q: leave", *jobs.unread])
        width, height = console.size
        live.update(draw(jobs.views(now), time.time(), width, height, hint=hint), refresh=True)
        end = now + PAUSE / 2
        while (left := end - time.monotonic()) > 0:
            if jobs.wait(left, 0) and os.read(0, 64) in {b"q", b"Q", b""}:
                return


@contextmanager
def _keys() -> Iterator[None]:
    """Read keys at once; restore the terminal however this process ends."""
    before = termios.tcgetattr(0)

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # the terminal would stay in its present mode
    tty.setcbreak(0)
    try:
        yield
    finally:
        sys.stdout.flush()
        termios.tcsetattr(0, termios.TCSADRAIN, before)
