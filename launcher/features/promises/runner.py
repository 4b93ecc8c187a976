"""Plays the rows of `dsrun-check --promises`: starts jobs, strikes, and looks at the nodes."""

from __future__ import annotations

import json
import secrets
import tempfile
from contextlib import ExitStack
from functools import partial

from ...backends.own_module import module_argv
from ...common.errors import NodeError
from ...common.records import NamedTuple
from ...common.text import plain, read_json
from ...head.fleet.hosts import by_cause
from .messages import WORKER, LookAsk
from .runner_job import RunningJob
from .runner_rows import ACT, ALL_UP, CLIENT, LINES, SOON
from .runner_verdict import RowResult, Seen, judged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from ...common.loop import Loop
    from ..exec.runner_programs import NodePrograms
    from .runner_rows import PromiseRow

    Over: TypeAlias = Callable[[], None]
    Causes: TypeAlias = Callable[[], Mapping[str, str]]
    Until: TypeAlias = Callable[[Callable[[Over], object]], None]

LATE = 15.0
"""Seconds that a row may exceed its bound, so that its real time can be measured."""

APART = 0.5
"""Seconds between two strikes."""

EXPLAINED = 0.5
"""Seconds for the backend to explain the end of a session."""

STAND_INS = (
    *("--accelerator", "cpu", "--no_check", "--no_local_rank", "--prefix", "{host}:{rank}| "),
)
"""Options for stand-ins: they need no devices, and versions of torch may differ."""


class Wait:
    """Waits on the loop, with a limit."""

    def __init__(self, loop: Loop, until: Until) -> None:
        """Use a function that runs the loop until the function that it passes on is called."""
        self.loop, self._until = loop, until

    def wait(self, begin: Callable[[Over], object], seconds: float) -> bool:
        """Wait until `begin`'s argument is called; return False after this number of seconds."""
        outcome: list[bool] = []

        def start(over: Over) -> None:
            def finish(in_time: bool) -> None:
                if not outcome:
                    outcome.append(in_time)
                    timer.cancel()
                    over()

            timer = self.loop.call_later(seconds, lambda: finish(False))
            begin(lambda: finish(True))

        self._until(start)
        return outcome == [True]


class Looks:
    """The program on each node that has the folder of the stand-ins, and looks at processes."""

    def __init__(self, programs: NodePrograms, wait: Wait, folder: str, causes: Causes) -> None:
        """Start the program; `causes` returns the known reasons for lost nodes.

        Raises:
            NodeError: the program cannot run on a node.
        """
        self._hosts, self._wait = list(programs.names), wait
        self._answers: dict[str, list[str]] = {}
        self._failed: dict[str, str] = {}
        self._over: Over = lambda: None
        words = dict.fromkeys(self._hosts, (folder,))
        self._running = programs.start("promises", words, self._on_line, self._on_end)
        answered = wait.wait(self._await_answers, ALL_UP)
        if self._failed or not answered:
            wait.wait(lambda _: None, EXPLAINED)
            silent = [host for host in self._hosts if host not in self._answers]
            why = {**dict.fromkeys(silent, "no answer"), **self._failed, **causes()}
            raise NodeError("\n".join(by_cause(why)))

    def ask(self, ask: LookAsk) -> dict[str, list[str]] | None:
        """Return the processes left on each node; None if a node does not answer."""
        self._answers = {}
        for host in self._hosts:
            self._running.send(host, json.dumps(ask._asdict()).encode() + b"\n")
        answered = self._wait.wait(self._await_answers, ask.seconds + LATE)
        return self._answers if answered and not self._failed else None

    def close(self) -> None:
        """Have the folders removed."""
        for host in self._hosts:
            if host not in self._failed:
                self._running.send(host, b"")
        self._wait.wait(self._await_ends, SOON)

    def _await_answers(self, over: Over) -> None:
        self._over = over
        self._advance()

    def _await_ends(self, over: Over) -> None:
        self._answers = {}
        self._await_answers(over)

    def _on_line(self, host: str, line: bytes) -> None:
        try:
            self._answers[host] = [plain(str(one)) for one in read_json(line).get("left", ())]
        except (ValueError, AttributeError, TypeError):
            self._failed[host] = "its answer is not valid"
        self._advance()

    def _on_end(self, host: str, _code: int, why: str) -> None:
        self._failed[host] = plain(why) or "the program has ended"
        self._advance()

    def _advance(self) -> None:
        if all(host in self._answers or host in self._failed for host in self._hosts):
            self._over()


class Site(NamedTuple):
    """The place of the jobs.

    Attributes:
        options: the options of every job.
        launcher: the name of the backend.
        folder: the folder of the stand-ins, on each node.
    """

    options: tuple[str, ...]
    launcher: str
    folder: str

    def words(self, row: PromiseRow, report: str) -> list[str]:
        """Return the words behind dsrun in the command of a row."""
        openssh = CLIENT in row.strikes and self.launcher == "ssh"
        own = ("--launcher", "openssh") if openssh else ()
        # Before --workdir, which the user may have set, too, for these options count last.
        options = (*own, *row.options, "--workdir", self.folder, "--report_file", report)
        script = [f"{self.folder}/{WORKER}", row.act, str(LINES)]
        return [*self.options, *options, *(script if row.act else [f"{self.folder}/missing.py"])]

    def skip(self, row: PromiseRow) -> str:
        """Return why a row is impossible here, or ""."""
        if CLIENT in row.strikes and self.launcher == "pdsh":
            return "pdsh may die: the nodes have connections of their own"
        if CLIENT in row.strikes and self.launcher == "local":
            return "all workers run on this machine, without ssh or an engine"
        return ""


def new_folder() -> str:
    """Return the path of a folder that no node has."""
    return f"/tmp/dsrun-promises-{secrets.token_hex(8)}"


def results(
    rows: Sequence[PromiseRow], site: Site, programs: NodePrograms, until: Until, causes: Causes
) -> Iterator[RowResult]:
    """Play the rows, one after another, and yield the verdicts.

    Raises:
        NodeError: a node cannot have the folder of the stand-ins.
    """
    with ExitStack() as stack:
        own = stack.enter_context(tempfile.TemporaryDirectory(prefix="dsrun-promises-"))
        wait = Wait(programs.loop, until)
        looks = Looks(programs, wait, site.folder, causes)
        stack.callback(looks.close)
        player = Player(site, wait, looks, own)
        for row in rows:
            why = site.skip(row)
            yield RowResult(row, "skipped", (why,)) if why else judged(row, player.play(row))


class Player:
    """Plays one row at a time."""

    def __init__(self, site: Site, wait: Wait, looks: Looks, folder: str) -> None:
        """Keep the jobs' own files in this folder."""
        self._site, self._wait, self._looks, self._folder = site, wait, looks, folder
        self._count = 0

    def play(self, row: PromiseRow) -> Seen:
        """Play a row; return the observations."""
        with ExitStack() as stack:
            other = self._start(row, stack) if row.beside else None
            if other and not self._all_up(other):
                return self._seen(row, other, wrong=("the other job did not start",))
            others = self._look(other) if other else {}
            seen = self._struck(row, self._start(row, stack))
            return seen._replace(wrong=(*seen.wrong, *self._harm(other, others))) if other else seen

    def _start(self, row: PromiseRow, stack: ExitStack) -> RunningJob:
        self._count += 1
        name = f"{row.name}-{self._count}"
        words = self._site.words(row, f"{self._folder}/{name}.json")
        argv = module_argv("dsrun.launcher.runner", *words)
        job = RunningJob(self._wait.loop, argv, self._folder, name)
        stack.callback(job.close)
        return job

    def _all_up(self, job: RunningJob) -> bool:
        """Wait until the stand-ins are up; return whether they are."""
        return self._wait.wait(partial(_call_if, job, lambda: job.is_up), ALL_UP) and job.is_up

    def _struck(self, row: PromiseRow, job: RunningJob) -> Seen:
        clock, began = self._wait.loop.clock, self._wait.loop.clock()
        if row.act:
            if not self._all_up(job):
                return self._seen(row, job, wrong=("the stand-ins did not start",))
            if self._is_blind(job):
                return self._seen(row, job, wrong=("the processes of the job cannot be seen",))
            began = clock()
            if why := self._strike(row, job):
                return self._seen(row, job)._replace(output=(f"-:0| @skip {why}",))
        self._wait.wait(partial(_call_if, job, lambda: False), row.promise.within + LATE)
        ended = clock() - began
        ask = _ask(job, max(1.0, row.promise.within + LATE - ended), end=True)
        left = self._looks.ask(ask) if job.ups else {}
        clean = clock() - began
        return self._seen(row, job)._replace(
            seconds=ended,
            clean=None if left is None or any(left.values()) else clean,
            left=left or {},
            wrong=() if left is not None else ("a node no longer answers",),
        )

    def _strike(self, row: PromiseRow, job: RunningJob) -> str:
        for number, strike in enumerate(row.strikes):
            if number and row.strikes[number - 1] == strike:
                self._wait.wait(partial(_call_if, job, lambda: False), APART)
            if why := job.strike(strike):
                return why
        return ""

    def _is_blind(self, job: RunningJob) -> bool:
        """Return whether a look misses the job while it runs: it could then find nothing later."""
        left = self._look(job)
        return sum(map(len, left.values())) < len(job.ups)

    def _look(self, job: RunningJob) -> dict[str, list[str]]:
        return self._looks.ask(_ask(job)) or {}

    def _harm(self, other: RunningJob, before: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """Yield the harm done to the other job; make it end."""
        after = self._look(other)
        for host, texts in before.items():
            if gone := [one for one in texts if one not in after.get(host, [])]:
                yield f"gone on {host} with the job beside: {', '.join(gone)}"
        if other.ended:
            yield f"the other job has ended with code {other.code}"
            return
        other.strike(ACT)
        self._wait.wait(partial(_call_if, other, lambda: False), SOON + LATE)
        if self._looks.ask(_ask(other, SOON, end=True)) is None:
            yield "a node no longer answers"

    def _seen(self, row: PromiseRow, job: RunningJob, wrong: tuple[str, ...] = ()) -> Seen:
        return Seen(
            code=job.code if job.ended else None,
            seconds=row.promise.within + LATE,
            report=job.report(),
            messages=tuple(map(plain, job.messages())),
            output=job.lines(),
            ups=tuple(job.ups.values()),
            wrong=wrong,
        )


def _ask(job: RunningJob, seconds: float = 0.0, *, end: bool = False) -> LookAsk:
    owners = tuple(dict.fromkeys(one.owners for one in job.ups.values()))
    return LookAsk(job.job_id, owners, seconds, end)


def _call_if(job: RunningJob, holds: Callable[[], bool], over: Over) -> None:
    """Call `over` as soon as the condition holds, or the job has ended."""

    def look() -> None:
        if job.ended or holds():
            over()

    job.on_change(look)


def own_options(shared: Sequence[str], per_node: int | None) -> tuple[str, ...]:
    """Return the options of every job: for the nodes, and for stand-ins, which need no device.

    Args:
        shared: the options for the nodes.
        per_node: workers per node; None if the options say so.
    """
    count = () if per_node is None else ("--num_gpus", str(per_node))
    return (*STAND_INS, *count, *shared)
