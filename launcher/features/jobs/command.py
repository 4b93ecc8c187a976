"""dsrun-job: list this user's jobs and holds on this machine, watch and control them."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress

from ...cli import tool_options
from ...cli.option import named
from ...cli.options import Options, shared
from ...cli.parser import from_environment, key_of, repeated, take
from ...common import entry
from ...common.errors import UsageError
from ...common.records import NamedTuple
from ...common.text import plain
from ...control import local
from ...resources.ranges import parse_ranks
from . import command_names as job_names
from .command_names import NamedSocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .json_types import DoneJson

OWN = tool_options.OWN["dsrun-job"]
SHARED = shared("job")
HOSTS = SHARED.keys() - {"grace"}
"""Options of dsrun that name hosts, or say how to reach them, for `kill`."""

END_WAIT = 60.0
"""Seconds beyond the grace for a job to end."""


class JobCommand(NamedTuple):
    """A parsed command line.

    Attributes:
        words: the words after the verb, without options.
        own: the value of each of dsrun-job's own options.
        options: the options shared with dsrun.
        given: names of the options on the command line.
    """

    verb: str
    words: tuple[str, ...]
    own: Mapping[str, Any]
    options: Options
    given: frozenset[str]

    @property
    def json(self) -> bool:
        """True to print JSON."""
        return bool(self.own["json"])


class Verb(NamedTuple):
    """One verb.

    Attributes:
        act: carries it out; returns the exit code.
        words: for each word that may follow, the kinds of values that completion offers, joined by
            commas, or "". All words but the last one may be left out.
    """

    act: Callable[[JobCommand], int]
    words: tuple[str, ...]
    options: tuple[str, ...]


def run(words: list[str]) -> int:
    """Run the command with these arguments; return the exit code.

    Raises:
        UsageError: an argument is invalid, or there is no such job.
        DsrunError: the job refuses, or does not answer.
    """
    if {"-h", "--help"} & {*words} or words[:1] == ["help"]:
        from ...cli.help.pages import of_tool

        entry.write(of_tool("dsrun-job"))
        return 0
    given = _parse(words)
    return VERBS[given.verb].act(given)


def start() -> None:
    """Run the command `dsrun-job` and exit."""
    entry.start(run)


def _parse(words: Sequence[str]) -> JobCommand:
    """Return the parsed command line: the first word that is not an option is the verb."""
    ours = named(SHARED)
    names = ours | named(OWN)
    values: dict[str, Any] = {}
    rest, at, typed = list[str](), 0, dict[str, list[str]]()
    while at < len(words):
        word = words[at]
        if word[:1] == "-":
            _check_word(word, rest)
            at += take(word, words[at + 1 : at + 2], names, values, typed, "dsrun-job --help")
        else:
            rest.append(word)
            at += 1
    verb, *rest = rest or ["list"]
    _check(verb, rest, values)
    entry.note(repeated(typed, names))
    own = {name: values.pop(name, option.default) for name, option in OWN.items()}
    known = from_environment("DSRUN_", os.environ, ours)
    return JobCommand(verb, tuple(rest), own, Options(**{**known, **values}), frozenset(values))


def _check_word(word: str, rest: Sequence[str]) -> None:
    """Check that an option is not a job or a signal, which are words without a dash."""
    verb = rest[0] if rest and rest[0] in VERBS else "top"
    if key_of(word.partition("=")[0]) in {"job", "job_id", "id", "jobid", "name", "-j"}:
        raise UsageError(f"{word}: a job is given without an option: dsrun-job {verb} JOB")
    name = word.lstrip("-")
    if verb == "signal" and (name.isdecimal() or name in _signals()):
        raise UsageError(f"{word}: the signal comes last: dsrun-job signal [JOB] {name}")


def _signals() -> dict[str, int]:
    """Return the number of each signal by its name, with and without SIG."""
    numbers = {one.name: int(one) for one in signal.Signals}
    return {**numbers, **{name.removeprefix("SIG"): one for name, one in numbers.items()}}


def _check(verb: str, rest: Sequence[str], values: Mapping[str, Any]) -> None:
    """Check that there is such a verb, and that it takes these words and options."""
    if verb not in VERBS:
        raise UsageError(
            f"dsrun-job: expected one of {', '.join(VERBS)}, not {verb[:40]!r}{_meant(verb)}"
        )
    takes = VERBS[verb]
    for name in values:
        if name not in takes.options:
            able = [one for one, known in VERBS.items() if name in known.options]
            raise UsageError(f"--{name}: not with {verb}, only with {', '.join(able)}")
    most = len(takes.words)
    if len(rest) > most:
        word = rest[most][:40]
        about = f"; about one job: dsrun-job report {word}" if verb == "list" else ""
        raise UsageError(f"dsrun-job {verb}: unexpected {word!r}{about}")


def _meant(verb: str) -> str:
    if verb in MEANT:
        return f" (did you mean {MEANT[verb]}?)"
    from ..detached.runner_job_folder import JOB_ID
    from .command_kept import folders

    if re.fullmatch(JOB_ID, verb):
        return f"; a verb comes before the job: dsrun-job report {verb}"
    running = any(verb in one.name for one in job_names.places()) or verb == job_names.LAST
    if len(verb) > 3 and (running or any(verb in one.about.job_id for one in folders())):
        return f" (did you mean {'top' if running else 'report'} {verb}?)"
    from ...cli.parser import nearest

    close = nearest(verb, VERBS)
    return f" (did you mean {close}?)" if close else ""


# -- list -----------------------------------------------------------------------------------


def _list(given: JobCommand) -> int:
    import shutil
    import sys
    import time

    from . import command_read as job_read
    from .command_read import as_json, read

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    if given.own["ended"]:
        from .command_ended import show

        show(as_lines=not given.json, width=width)
        return 0
    known = read(job_names.places())
    if given.json:
        entry.write(f"{as_json(known)}\n")
        return 0
    now = time.time()
    rows = [job_read.of_hold(one, now) for one in known.holds]
    rows += [job_read.of_job(one, now) for one in known.jobs]
    rows += [job_read.of_silent(name) for name in known.silent]
    rows += [job_read.of_unread(one) for one in known.unread]
    if rows:
        entry.write(job_read.table(rows, width))
    return 0


# -- control --------------------------------------------------------------------------------


def _kill(given: JobCommand) -> int:
    """Stop a job, and wait until it has ended; with hosts, end its remaining processes there."""
    if given.given & HOSTS:
        return _kill_on_hosts(given)
    if "grace" in given.given:
        raise UsageError("--grace: only with hosts, such as -H FILE; jobs have their own")
    place = _place(given, given.words)
    request: dict[str, object] = {"do": "stop", "number": int(signal.SIGTERM)}
    if place.kind == local.HOLD:
        request = {"do": "release"}
    elif given.own["now"]:
        request["now"] = True
    with job_names.open_place(place) as client, job_names.named_in_errors(place):
        answer = client.ask(request, seconds=job_names.PATIENCE)
        grace = answer.get("grace")
        _wait_for_end(client, (grace if isinstance(grace, (int, float)) else 0.0) + END_WAIT)
    _wait_for_report(place)
    return _done(given, place, "has ended")


def _wait_for_end(client: Any, seconds: float) -> None:
    """Wait until the other end closes the connection."""
    for _ in client.frames(seconds):
        pass


def _wait_for_report(place: NamedSocket) -> None:
    """Wait until it is written how a detached job has ended."""
    from ..detached.runner_job_folder import Damage, folder_of
    from .command_wait import settled

    with suppress(Damage):
        if folder := folder_of(os.environ, place.name):
            settled(folder)


def _kill_on_hosts(given: JobCommand) -> int:
    from ...control.job_messages import EndJob
    from ..detached.runner_job_folder import JOB_ID
    from .command_cleanup import stop_on_hosts

    (job,) = given.words or ("",)
    if not re.fullmatch(JOB_ID, job):
        raise UsageError(
            f"dsrun-job kill: with hosts, expected the whole id of the job, such as"
            f" 20261122-101112-abcdef, not {job[:40]!r}"
            if job
            else "dsrun-job kill: with hosts, the whole id of the job is needed:"
            " dsrun-job kill JOB --host n1,n2"
        )
    grace = 0.0 if given.own["now"] else given.options.grace
    order = EndJob(job, int(signal.SIGTERM), grace)
    return stop_on_hosts(given.options, given.given, order, as_json=given.json)


def _signal(given: JobCommand) -> int:
    *job, name = given.words or ("",)
    if job and name.upper() not in _signals() and job[0].upper() in _signals():
        raise UsageError(
            f"dsrun-job signal: the signal comes last: dsrun-job signal {name} {job[0]}"
        )
    number = _number(name)
    place = _job(given, job)
    job_names.ask(place, {"do": "signal", "number": number})
    return _done(given, place, f"all ranks were sent {signal.Signals(number).name}")


def _number(name: str) -> int:
    """Return the number of a signal, given as `USR1`, `SIGUSR1` or `10`."""
    known, text = _signals(), name.upper()
    found = known.get(text)
    if found is None and text.isascii() and text.isdigit() and len(text) < 3:
        found = int(text) if int(text) in known.values() else None
    if found is None:
        what = f"{name[:40]!r} is not a signal" if name else "the signal is missing"
        raise UsageError(f"dsrun-job signal: {what}; expected: dsrun-job signal [JOB] USR1")
    return found


def _scale(given: JobCommand) -> int:
    *job, number = given.words or ("",)
    if not re.fullmatch("[0-9]{1,7}", number):
        found = f", not {number[:40]!r}" if number else ""
        raise UsageError(
            f"dsrun-job scale: expected a number of nodes last{found}: dsrun-job scale [JOB] 4"
        )
    place = _job(given, job)
    answer = job_names.ask(place, {"do": "scale", "nodes": int(number)})
    return _done(given, place, str(answer.get("words")))


def _done(given: JobCommand, place: NamedSocket, words: str) -> int:
    if given.json:
        import json

        from ...common.formats import versioned

        done: DoneJson = {"kind": place.kind, "name": place.name, "done": words}
        entry.write(f"{json.dumps(versioned('jobs', done))}\n")
    else:
        named = f"{place.kind} {place.name}: " if place.name else ""
        entry.write(f"dsrun-job: {named}{plain(words)}\n")
    return 0


def _restart(given: JobCommand) -> int:
    if not given.own["role"]:
        raise UsageError("dsrun-job restart: --role NAME is missing; name the role to start again")
    place = _job(given, given.words)
    job_names.ask(place, {"do": "restart"})
    return _done(given, place, f"starting its role {place.role} again")


def _place(given: JobCommand, words: Sequence[str]) -> NamedSocket:
    """Return the requested job or hold, and the role of the job.

    Raises:
        UsageError: there is no match, or more than one.
    """
    from .command_read import newest, running_programs

    word, places = words[0] if words else None, job_names.places()
    if word == "all":
        raise UsageError(
            f"dsrun-job {given.verb} all: name each job; running: {job_names.named(places)}"
        )
    if word and not any(word in one.name for one in places):
        reads = READ in VERBS[given.verb].words
        word = job_names.by_program(given.verb, word, places, running_programs, reads=reads)
    if word and word != job_names.LAST and not any(word in one.name for one in places):
        from .command_kept import check_not_ended

        check_not_ended(word)
    place = job_names.choose(word, places, newest)
    return place._replace(role=given.own["role"])


def _job(given: JobCommand, words: Sequence[str]) -> NamedSocket:
    """Return the requested job, and its role.

    Raises:
        UsageError: the word means a hold.
    """
    place = _place(given, words)
    if place.kind == local.HOLD:
        raise UsageError(f"dsrun-job {given.verb}: {place.name} is a hold; name one of its jobs")
    return place


# -- output and the live view ---------------------------------------------------------------


def _logs(given: JobCommand) -> int:
    from .command_kept import find
    from .command_logs import show, show_kept

    ranks = sorted(parse_ranks("--ranks", given.own["ranks"])) or None
    found, how = find(given.words), {"follow": given.own["follow"], "as_json": given.json}
    role = given.own["role"]
    if found.folder is None:
        return show(found.place._replace(role=role), ranks, **how)
    return show_kept(found.folder, role, ranks, **how)


# -- detached jobs --------------------------------------------------------------------------


def _wait(given: JobCommand) -> int:
    from .command_kept import find
    from .command_wait import wait

    return wait(find(given.words), as_json=given.json)


def _report(given: JobCommand) -> int:
    from .command_kept import find
    from .command_report import show

    return show(find(given.words), as_json=given.json, html=given.own["html"])


def _forget(given: JobCommand) -> int:
    from .command_ended import forget

    name, words = forget(given.words, everything=given.own["all"])
    return _done(given, NamedSocket(local.JOB, name), words)


def _stacks(given: JobCommand) -> int:
    from .command_stacks import show

    ranks = sorted(parse_ranks("--ranks", given.own["ranks"]))
    request = {"ranks": ranks, "native": given.own["native"], "save": given.own["save"]}
    place = _job(given, given.words)
    return show(place, request, whole=given.own["all_threads"], as_json=given.json)


def _top(given: JobCommand) -> int:
    from .command_top import as_json, once, watch

    chosen = _job(given, given.words) if given.words or given.own["role"] else None
    if chosen is not None and chosen.role:
        job_names.ask(chosen, {"do": "status"})  # refuses a role that is not there
    if given.json:
        return as_json(chosen)
    _check_rich()
    return watch(chosen) if os.isatty(0) and os.isatty(1) else once(chosen)


def _check_rich() -> None:
    """Check that the package for the live view is installed."""
    from importlib.util import find_spec

    if find_spec("rich") is None:
        from ...common.packages import lacks

        ways = ["use `dsrun-job list` or `dsrun-job top --json`"]
        raise UsageError(f"dsrun-job top: {lacks('rich', instead=ways)}")


MEANT = {
    **dict.fromkeys(("ps", "ls", "jobs", "squeue", "running"), "list"),
    **dict.fromkeys(("ended", "history", "sacct"), "list --ended"),
    **dict.fromkeys(("stop", "cancel", "scancel", "end", "abort", "quit", "terminate"), "kill"),
    **dict.fromkeys(("rm", "delete", "clean", "remove", "prune"), "forget"),
    **dict.fromkeys(("status", "show", "watch", "info", "describe", "monitor", "stat"), "top"),
    **dict.fromkeys(("log", "output", "cat", "stdout", "print"), "logs"),
    **dict.fromkeys(("tail", "follow", "attach"), "logs --follow"),
    **dict.fromkeys(("stack", "trace", "traceback", "backtrace", "pstack", "py-spy"), "stacks"),
    **dict.fromkeys(("result", "exit", "summary"), "report"),
    **dict.fromkeys(("join", "await"), "wait"),
    **dict.fromkeys(("resize", "grow", "shrink"), "scale"),
    "send": "signal",
}
"""Other programs' words for verbs, and ours."""

READ, KEPT = "jobs,programs", "jobs,programs,ended"
"""Candidates of completion for a verb that changes nothing: running jobs, or also ended ones. Such
a verb accepts the name of a job's program, too."""

VERBS = {
    "list": Verb(_list, (), ("json", "ended")),
    "top": Verb(_top, (READ,), ("json", "role")),
    "logs": Verb(_logs, (KEPT,), ("json", "follow", "ranks", "role")),
    "wait": Verb(_wait, (KEPT,), ("json",)),
    "report": Verb(_report, (KEPT,), ("json", "html")),
    "forget": Verb(_forget, ("ended",), ("json", "all")),
    "stacks": Verb(_stacks, (READ,), ("json", "ranks", "native", "all_threads", "save", "role")),
    "signal": Verb(_signal, ("jobs", "signals"), ("json", "role")),
    "scale": Verb(_scale, ("jobs", ""), ("json", "role")),
    "restart": Verb(_restart, ("jobs",), ("json", "role")),
    "kill": Verb(_kill, ("jobs,holds",), ("json", "now", "grace", *HOSTS)),
}
"""All verbs."""


if __name__ == "__main__":
    start()
