"""dsrun-job against jobs that a test serves, each under a name of its own."""

from __future__ import annotations

import json
import re
import signal
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common import entry
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import local
from dsrun.launcher.features.jobs import command
from dsrun.launcher.features.jobs import command_read as job_read
from dsrun.launcher.features.jobs.runner_server import LocalCaller

from ...support import schemas
from ...support.jobs import status, verbs
from ...support.limits import HANG
from ...support.local_control import serving
from ...support.own_names import own_names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["own_names"]

pytestmark = pytest.mark.usefixtures("own_names", "own_state")


@pytest.fixture
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep detached jobs in a folder of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Ran:
    """A job that is served, and the command that is run against it."""

    def __init__(self, name: str, capfd: pytest.CaptureFixture[str]) -> None:
        self.name = name
        self.asked: list[dict[str, Any]] = []
        self._capfd = capfd

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run the command; return exit code, standard output and standard error."""
        self._capfd.readouterr()
        code = entry.main(command.run, words)
        out, err = self._capfd.readouterr()
        return code, out, err


@contextmanager
def served(capfd: pytest.CaptureFixture[str], kind: str = local.JOB, **more: Any) -> Iterator[Ran]:
    asked: list[dict[str, Any]] = []
    known = verbs(status(), asked) | more
    with serving(known, kind) as server:
        # Statuses tell the name by which the job can be asked.
        known |= {"status": verbs(status(job_id=server.name), asked)["status"]} | more
        ran = Ran(server.name, capfd)
        ran.asked = asked
        yield ran


@pytest.fixture
def one(capfd: pytest.CaptureFixture[str]) -> Iterator[Ran]:
    """A running job."""
    with served(capfd) as ran:
        yield ran


@pytest.fixture
def hold(capfd: pytest.CaptureFixture[str]) -> Iterator[Ran]:
    """A hold."""
    told = {
        "name": "cosy",
        "version": "1",
        "since": 5.0,
        "state": "serving",
        "launcher": "ssh",
        "hosts": [],
        "runs": [],
        "last": "holding",
    }

    def release(caller: LocalCaller, _request: Any, _fds: Any) -> dict[str, Any]:
        caller._connection._loop.call_later(0.05, caller.close)
        return {"runs": 0}

    more = {
        "status": lambda *_: told,
        "release": release,
        "logs": lambda *_: {"lines": ["holding \x1b[2J", "lost n1"]},
    }
    with served(capfd, local.HOLD, **more) as ran:
        yield ran


# -- list -----------------------------------------------------------------------------------------


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for all answers; all that are asked will answer."""
    monkeypatch.setattr(job_read, "read", partial(job_read.read, patience=HANG))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("words", [(), ("list",)])
def test_jobs_are_listed(one: Ran, words: tuple[str, ...]) -> None:
    code, out, err = one.run(*words)
    assert (code, err) == (0, "")
    rows = out.splitlines()
    assert " ".join(rows[0].split()) == "NAME STATE NODES RANKS SINCE PROGRAM LAST LINE"
    (row,) = [row for row in rows if one.name in row]
    assert re.search(r"running +2 +4 +\w+ +train.py --lr 1 +0\| step 7$", row)


@pytest.mark.usefixtures("own_names", "patient", "hold")  # in this order
def test_jobs_are_listed_as_json(one: Ran) -> None:
    code, out, _ = one.run("--json")
    assert code == 0
    listed = json.loads(out)
    assert schemas.faults("jobs", listed) == []
    assert one.name in [row["job_id"] for row in listed["jobs"]]
    assert "cosy" in [row["name"] for row in listed["holds"]]


# -- control --------------------------------------------------------------------------------------


def test_a_signal_is_passed_on(one: Ran) -> None:
    for word in ("usr1", "SIGUSR1", "10"):
        code, out, _ = one.run("signal", one.name, word)
        assert (code, out) == (0, f"dsrun-job: job {one.name}: all ranks were sent SIGUSR1\n")
    assert [asked["number"] for asked in one.asked] == [signal.SIGUSR1] * 3


def test_a_job_is_resized(one: Ran) -> None:
    code, out, _ = one.run("scale", one.name, "3", "--json")
    done = json.loads(out)
    assert (code, done["done"], one.asked[0]["nodes"]) == (0, "rounds of at most 3 nodes", 3)
    assert schemas.faults("jobs", done, "done") == []


def test_kill_waits_for_the_end(one: Ran) -> None:
    assert one.run("kill", one.name) == (0, f"dsrun-job: job {one.name}: has ended\n", "")
    assert one.run("kill", one.name, "--now")[0] == 0
    assert [asked.get("now") for asked in one.asked] == [None, True]
    assert {asked["number"] for asked in one.asked} == {signal.SIGTERM}


def test_a_hold_is_released_and_tells_its_messages(hold: Ran) -> None:
    assert hold.run("kill", hold.name)[1] == f"dsrun-job: hold {hold.name}: has ended\n"
    assert hold.run("logs", hold.name) == (0, "holding \\x1b[2J\nlost n1\n", "")


@pytest.mark.parametrize("words", [("signal", "USR1"), ("scale", "3"), ("top", "")])
def test_a_hold_is_no_job(hold: Ran, words: tuple[str, str]) -> None:
    verb, last = words
    code, _, err = hold.run(verb, hold.name, *filter(None, [last]))
    assert code == 2
    assert err.endswith(f"dsrun-job {verb}: {hold.name} is a hold; name one of its jobs\n")


def test_what_a_job_refuses(capfd: pytest.CaptureFixture[str]) -> None:
    from dsrun.launcher.common.errors import UsageError

    def refuse(*_: object) -> None:
        raise UsageError("no \x1b[2J way")

    with served(capfd, scale=refuse, status=refuse) as job:
        for words in (("scale", job.name, "3"), ("top", job.name, "--role", "server")):
            code, _, err = job.run(*words)
            assert (code, err) == (2, f"dsrun: dsrun-job: job {job.name}: no \\x1b[2J way\n")


# -- the command line -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("no",),
            "dsrun-job: expected one of list, top, logs, wait, report, forget, stacks, signal,",
        ),
        (
            ("stop", "x"),
            "dsrun-job: expected one of list, top, logs, wait, report, forget, stacks, signal,"
            " scale, restart, kill, not 'stop' (did you mean kill?)",
        ),
        (("list", "x"), "dsrun-job list: unexpected 'x'"),
        (("kill", "x", "y"), "dsrun-job kill: unexpected 'y'"),
        (("list", "--follow"), "--follow: not with list, only with logs"),
        (("logs", "--now"), "--now: not with logs, only with kill"),
        (("top", "-H", "x"), "--hostfile: not with top, only with kill"),
        (("--num_gpus", "2"), "--num_gpus: an option of dsrun"),
        (
            ("signal",),
            "dsrun-job signal: the signal is missing; expected: dsrun-job signal [JOB] USR1",
        ),
        (
            ("signal", "x", "99"),
            "dsrun-job signal: '99' is not a signal; expected: dsrun-job signal [J",
        ),
        (("kill", "all"), "dsrun-job kill all: name each job; running: "),
        (("--version",), "--version: not an option of this command; write dsrun --version"),
        (("signal", "FOO"), "dsrun-job signal: 'FOO' is not a signal; expected"),
        (
            ("signal", "USR1", "x"),
            "dsrun-job signal: the signal comes last: dsrun-job signal x",
        ),
        (("signal", "x", "-9"), "-9: the signal comes last: dsrun-job signal [JOB] 9"),
        (
            ("signal", "-USR1", "x"),
            "-USR1: the signal comes last: dsrun-job signal [JOB] USR1",
        ),
        (("top", "--job", "x"), "--job: a job is given without an option: dsrun-job top JOB"),
        (
            ("kill", "--job_id=x"),
            "--job_id=x: a job is given without an option: dsrun-job kill JOB",
        ),
        (("scale", "x"), "dsrun-job scale: expected a number of nodes last, not 'x'"),
        (("scale", "x", "12345678"), "dsrun-job scale: expected a number of nodes last"),
        (("kill", "--grace", "5"), "--grace: only with hosts, such as -H FILE"),
        (("kill", "-H", "x"), "dsrun-job kill: with hosts, the whole id of the job is needed: "),
        (("list", "x"), "dsrun-job list: unexpected 'x'; about one job: dsrun-job report x"),
        (("scale",), "dsrun-job scale: expected a number of nodes last: dsrun-job scale [JOB] 4"),
        (("kill", "abc", "--host", "n1"), "dsrun-job kill: with hosts, expected the whole id"),
        (("logs", "--ranks", "x"), "--ranks 'x': expected ranks such as 0,8-15"),
        (("logs", "no-such-job"), "dsrun-job: no job no-such-job on this machine; running: "),
        (("scale", "no-such-job", "1"), "dsrun-job: no job no-such-job on this machine"),
    ],
)
def test_a_bad_command_line_is_refused(
    words: tuple[str, ...], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = Ran("", capfd).run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"dsrun: {why}")


def test_what_is_meant_by_a_word_that_is_no_verb(capfd: pytest.CaptureFixture[str]) -> None:
    for words in command.MEANT.values():
        verb, *options = words.split()
        assert verb in command.VERBS
        assert not {one.lstrip("-") for one in options} - {*command.VERBS[verb].options}
    assert Ran("", capfd).run("tail")[2].endswith("not 'tail' (did you mean logs --follow?)\n")
    assert Ran("", capfd).run("stakcs")[2].endswith("not 'stakcs' (did you mean stacks?)\n")


def test_the_id_of_a_job_without_a_verb(capfd: pytest.CaptureFixture[str]) -> None:
    job = "20261122-101112-abcdef"
    said = Ran("", capfd).run(job)[2]
    assert said.endswith(f"not '{job}'; a verb comes before the job: dsrun-job report {job}\n")


def test_a_job_without_a_verb(one: Ran) -> None:
    assert one.run(one.name)[2].endswith(f"not {one.name[:40]!r} (did you mean top {one.name}?)\n")


def test_each_verb_has_a_line_in_the_help(capfd: pytest.CaptureFixture[str]) -> None:
    lines = Ran("", capfd).run("-h")[1].splitlines()
    shown = [line.split()[0] for line in lines if line[:3].strip() and line[:2] == "  "]
    assert [one for one in shown if one in command.VERBS] == shown[: len(command.VERBS)]
    assert {*shown} >= {*command.VERBS}


@pytest.mark.usefixtures("patient")
def test_a_job_is_named_by_its_program_where_nothing_is_changed(one: Ran) -> None:
    code, out, err = one.run("top", "train.py", "--json")
    assert (code, err) == (0, ""), out
    refused = f"dsrun: dsrun-job signal: train.py is run by {one.name}; name the job\n"
    assert one.run("signal", "train.py", "USR1") == (2, "", refused)


@pytest.mark.parametrize("words", [("--json", "list"), ("list", "--json"), ("--json",)])
def test_options_may_stand_before_the_verb(one: Ran, words: tuple[str, ...]) -> None:
    code, out, err = one.run(*words)
    assert (code, err) == (0, "")
    assert one.name in [row["job_id"] for row in json.loads(out)["jobs"]]


def test_an_option_with_a_value_before_the_verb_keeps_it(one: Ran) -> None:
    code, _, err = one.run("--ranks", "x", "logs", one.name)
    assert (code, err[:39]) == (2, "dsrun: --ranks 'x': expected ranks such")


def test_what_is_given_twice_is_joined_or_named(capfd: pytest.CaptureFixture[str]) -> None:
    words = ("kill", "x", "--host", "n1,", "--host", "n2", "--grace=5", "--grace=6")
    code, _, err = Ran("", capfd).run(*words)
    assert (code, err.count("\n")) == (2, 2)
    assert err.startswith("dsrun: --grace is given 2 times; only the last one counts\ndsrun: ")


def test_help_is_printed_for_every_verb(capfd: pytest.CaptureFixture[str]) -> None:
    for verb in command.VERBS:
        assert Ran("", capfd).run(verb, "-h")[1].startswith("usage: dsrun-job")


def test_a_job_for_which_too_many_wait_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("48 others already wait for its end")

    with served(capfd, wait=refuse) as one:
        says = f"dsrun: dsrun-job: job {one.name}: 48 others already wait for its end\n"
        assert one.run("wait", one.name) == (2, "", says)
