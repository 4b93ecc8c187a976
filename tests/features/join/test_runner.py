"""A job whose node launchers dial in: where, with what, who may, and what is said of others."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import closing, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from dsrun.launcher.backends.base import Part
from dsrun.launcher.common.errors import NodeError, UsageError
from dsrun.launcher.common.network import addresses_towards, own_addresses
from dsrun.launcher.common.secret import WARNING
from dsrun.launcher.control import auth, frames, messages, tls
from dsrun.launcher.control.stream import StreamClosed
from dsrun.launcher.features.join import runner as dial_in
from dsrun.launcher.specs.backend import DialIn
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import ElasticPolicy
from dsrun.launcher.specs.program import Program

from ...support.clock import Clock
from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsrun.launcher.control.stream import FrameStream

HERE = "127.0.0.1"


class Job:
    """A job of nodes here, of which all but the last dial in.

    Attributes:
        admitted: the ranks that have entered.
        misplaced: nodes that their engine has put elsewhere.
        said: lines for the user, by level.
    """

    def __init__(self, *hosts: str, **spec: Any) -> None:
        plan = Plan(
            lay_out([Host(one, (0,)) for one in hosts]), Program("x.py"), "openmpi", None, None
        )
        self.clock = Clock()
        self.loop = self.clock.loop
        self.spec = JobSpec("job", plan, "/", **spec)
        self.admitted: list[int] = []
        self.misplaced: list[tuple[int, str]] = []
        self.called_off: list[str] = []
        self.said: list[tuple[str, str]] = []
        self.on_token: Callable[[int, str, str], None] = lambda _rank, _name, _token: None
        backends: list[Any] = [SimpleNamespace(transport=one) for one in ("dial", "stdio")]
        self.parts = [Part(backends[0], plan.nodes[:-1]), Part(backends[1], plan.nodes[-1:])]
        self.fleet: Any = self
        self.run: Any = self
        self.plan = plan

    def on_stream(self, rank: int, line: FrameStream) -> None:
        """Take a line over."""
        self.admitted.append(rank)
        line.close()

    def on_session_end(self, rank: int, cause: str) -> None:
        """Note it."""
        self.misplaced.append((rank, cause))

    def call_off(self, reason: str) -> None:
        """Note it."""
        self.called_off.append(reason)

    def log(self, text: str, level: str = "info") -> None:
        """Note it."""
        self.said.append((level, text))

    @property
    def console(self) -> Any:
        """What lines are said on."""
        return self

    def listen(self) -> Any:
        """Listen for the nodes."""
        return dial_in.announced(self.fleet, self.parts, self.spec, self.console)


def knock(job: Job, target: str, credentials: auth.Credentials, pin: str = "") -> None:
    """Dial in, if somebody listens; say who this is, and wait for an answer or the line's end."""

    def call() -> None:
        with suppress(tls.CannotDial, StreamClosed):
            line, _ = tls.dial([host_of(target)], port_of(target), pin, 10.0)
            with closing(line):
                line.send(messages.pack(frames.AUTH, credentials))
                line.wait_for_one(10.0)

    caller = threading.Thread(target=call)
    caller.start()
    while caller.is_alive():
        job.clock.go(0.0)
        caller.join(0.002)


def host_of(target: str) -> str:
    """Return the first address that a target names."""
    return target.rpartition(":")[0].partition(",")[0]


def port_of(target: str) -> int:
    """Return the port that a target names."""
    return int(target.rpartition(":")[2])


def test_nodes_enter_with_the_tokens_that_their_engine_shows() -> None:
    job = Job("a", "b", HERE)
    with job.listen() as dial:
        assert dial.target == f"{','.join(addresses_towards(['a', 'b']))}:{port_of(dial.target)}"
        job.on_token(0, "0@a", "first")
        job.on_token(1, "1@b", "second")
        job.on_token(2, "2@127.0.0.1", "of a node that does not dial")
        for credentials in (("1@b", "second"), ("0@a", "first")):
            knock(job, dial.target, auth.Credentials(*credentials), dial.pin)
    assert job.admitted == [1, 0]
    assert job.said == []


def test_who_is_here_before_its_token_waits_for_it() -> None:
    job = Job("a", HERE)
    with job.listen() as dial:
        job.loop.call_later(1.0, lambda: job.on_token(0, "0@a", "token"))
        caller = threading.Thread(
            target=knock, args=(Job("x"), dial.target, auth.Credentials("0@a", "token"))
        )
        caller.start()
        while caller.is_alive():
            job.clock.go(0.01)
            caller.join(0.002)
    assert job.admitted == [0]


def test_a_node_that_was_lost_may_come_again_in_an_elastic_job() -> None:
    token = auth.Credentials("0@a", "token")
    for elastic, ranks in ((None, [0]), (ElasticPolicy(1, 2, 0), [0, 0])):
        job = Job("a", HERE, elastic=elastic)
        with job.listen() as dial:
            job.on_token(0, "0@a", "token")
            knock(job, dial.target, token)
            dial.again(0)
            job.on_token(0, "0@a", "token")
            knock(job, dial.target, token)
        assert job.admitted == ranks


def test_a_start_that_fails_tells_of_who_was_rejected() -> None:
    job = Job("a", HERE)

    def start() -> None:
        with job.listen() as dial:
            job.on_token(0, "0@a", "token")
            knock(job, dial.target, auth.Credentials("0@a", "forged"))
            raise NodeError("a: not there")

    with pytest.raises(NodeError) as caught:
        start()
    calls = f"1 connection from {addresses_towards(['a'])[0]}"
    assert str(caught.value) == f"a: not there\n  rejected during the start: {calls}"
    assert job.said == [("warning", f"rejected {calls} in the last second: no proof")]
    with pytest.raises(NodeError, match=r"^b: not there$"), Job("a", HERE).listen():
        raise NodeError("b: not there")


def test_the_port_is_let_go() -> None:
    job = Job("a", HERE)
    with job.listen() as dial:
        port = port_of(dial.target)
    with socket.create_server((HERE, port)):
        pass
    assert not job.called_off


def test_a_port_that_is_taken_is_the_users_to_change() -> None:
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        job = Job("a", HERE, dial_in=DialIn(port=port))
        with pytest.raises(UsageError) as caught, job.listen():
            pass
        job.spec = job.spec._replace(dial_in=DialIn(port=port, first=HERE))
        with (
            pytest.raises(UsageError) as alone,
            dial_in.shared(job.fleet, job.spec, job.console, job.run),
        ):
            pass
    said = f"control port {port}: address already in use; choose another with --control_port"
    assert str(caught.value) == said
    assert str(alone.value) == f"{said} (with --no_ssh only one process may have --node_rank 0)"


@pytest.fixture
def kept_port() -> Iterator[int]:
    """A port that nobody is given meanwhile, and that a job can still listen on (socket(7))."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("", 0))
        yield one.getsockname()[1]


@pytest.mark.parametrize(("secret", "said"), [("", [("warning", WARNING)]), ("open sesame", [])])
def test_nodes_that_share_a_secret_enter_at_the_known_port(
    monkeypatch: pytest.MonkeyPatch, kept_port: int, secret: str, said: list[tuple[str, str]]
) -> None:
    monkeypatch.setenv("DSRUN_TOKEN", secret)
    job = Job(HERE, "b", dial_in=DialIn(port=kept_port, first=HERE))
    looked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(dial_in, "look_for_another", lambda *given: looked.append(given))

    with dial_in.shared(job.fleet, job.spec, job.console, job.run):
        ((*_, pin),) = looked
        target = f"{HERE}:{job.spec.dial_in.port}"
        knock(job, target, auth.credentials("1", secret, pin, job.plan), pin)
    assert (job.admitted, job.called_off) == ([1], [])
    assert job.said == said


def test_a_signal_is_not_kept_waiting_by_a_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is heard of once the loop runs; the addresses are those that are known without names."""
    asked, done, heard, late = threading.Event(), threading.Event(), list[int](), list[str]()

    def resolve(*_: object, **_more: object) -> NoReturn:
        asked.set()
        if not done.wait(HANG):
            late.append("somebody waits")
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    def interrupt() -> None:
        asked.wait(HANG)
        os.kill(os.getpid(), signal.SIGUSR1)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    job = Job("no-such-host", HERE)
    job.loop.on_signals([signal.SIGUSR1], heard.append)
    user = threading.Thread(target=interrupt)
    user.start()
    with job.listen() as dial:
        assert dial.target.rpartition(":")[0].split(",") == [*(own_addresses() or (HERE,))]
        job.clock.settle()
    done.set()
    user.join()
    assert (late, heard) == ([], [signal.SIGUSR1])
