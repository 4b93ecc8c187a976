"""What dsrun-job asks a job of roles, of all roles together and of one."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import frames
from dsrun.launcher.features.jobs.runner_requests import LogReader
from dsrun.launcher.features.jobs.runner_socket import verbs_of
from dsrun.launcher.head.doors import VERBS, JobVerb, RoleRule

from ...support.fake_roles import FakeRoles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def roles() -> Iterator[FakeRoles]:
    made = FakeRoles()
    yield made
    made.close()


class Heard:
    """A caller that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.on_close: list[Callable[[], None]] = []
        self.pending = 0

    def event(self, fields: dict[str, object]) -> None:
        self.sent.append({name: what for name, what in fields.items() if name != "event"})

    def chunk(self, data: bytes) -> None:
        self.sent.append(data[5:])


def asked(roles: FakeRoles, do: str, caller: Any, **fields: object) -> Any:
    """Return the answer to a request of a caller."""
    verbs = verbs_of(roles.job, roles.job.requests(), {**VERBS, **WHOM})
    return verbs[do](caller, fields, [])


def ask(roles: FakeRoles, do: str, **fields: object) -> Any:
    """Return the answer to a request."""
    answer = asked(roles, do, None, **fields)
    roles.step()
    return answer


def test_the_status_of_all_has_the_state_of_each_role(roles: FakeRoles) -> None:
    roles.run_all()
    told = ask(roles, "status")
    assert told["program"] == "server (ready), trainer (ready)"
    assert (told["state"], told["running"], told["world_size"]) == ("running", 6, 6)
    assert [node["host"] for node in told["nodes"]] == ["n0", "n1", "n2"]


def test_the_status_of_one_role_is_that_of_its_run(roles: FakeRoles) -> None:
    roles.run_all()
    told = ask(roles, "status", role="server")
    assert (told["running"], [node["host"] for node in told["nodes"]]) == (2, ["n0"])


def test_a_signal_reaches_all_roles_or_one(roles: FakeRoles) -> None:
    roles.run_all()
    assert ask(roles, "signal", number=int(signal.SIGUSR1)) == {"ranks": 6}
    assert [roles.got(name, frames.SIGNAL) for name in ("server", "trainer")] == [1, 2]
    assert ask(roles, "signal", number=int(signal.SIGUSR1), role="server") == {"ranks": 2}
    assert [roles.got(name, frames.SIGNAL) for name in ("server", "trainer")] == [2, 2]


def test_a_role_that_runs_is_started_again(roles: FakeRoles) -> None:
    roles.run_all()
    assert ask(roles, "restart", role="server") == {}
    assert roles.states() == {"server": "restarting", "trainer": "ready"}
    with pytest.raises(UsageError, match="server is not running: it is restarting"):
        ask(roles, "restart", role="server")


def test_a_stop_ends_all_roles_in_order(roles: FakeRoles) -> None:
    roles.run_all()
    assert ask(roles, "stop", number=int(signal.SIGTERM))["grace"] > 0
    assert (roles.got("trainer", frames.STOP), roles.got("server", frames.STOP)) == (2, 0)


def test_the_report_tells_how_each_role_does(roles: FakeRoles) -> None:
    roles.run_all()
    told = ask(roles, "report")
    assert told["text"].splitlines()[1:] == [
        "  server: ready, 2 of 2 ranks",
        "  trainer: ready, 4 of 4 ranks",
    ]
    assert told["roles"] == {"server": "never", "trainer": "job"}
    known = told["report"]
    assert (known["exit_code"], known["cause"]) == (None, "none")
    assert known["roles"]["trainer"]["report"]["world_size"] == 4
    assert ask(roles, "report", role="server")["report"]["world_size"] == 2


def test_a_role_that_waits_has_no_ranks(roles: FakeRoles) -> None:
    told = ask(roles, "report")
    assert "  trainer: waiting" in told["text"]
    assert told["report"]["roles"]["trainer"]["started"] is False


def printed(roles: FakeRoles, host: str, text: str) -> None:
    roles.node(host).prints(0, text)
    roles.step()


def test_the_output_of_all_roles_is_sent_with_their_names(roles: FakeRoles) -> None:
    roles.run_all()
    printed(roles, "n0", "serves\n")
    printed(roles, "n1", "step 1\n")
    one: Any = Heard()
    asked(roles, "logs", one, follow=True)
    assert [data for data in one.sent if type(data) is bytes] == [b"serves\n", b"step 1\n"]
    del one.sent[:]
    printed(roles, "n1", "step 2\n")
    printed(roles, "n0", "GET\n")
    assert one.sent == [b"step 2\n", {"role": "server"}, b"GET\n"]


def record_of(roles: FakeRoles) -> object:
    """Return the record of the server's run."""
    run = roles.job.roles["server"].view
    assert run is not None
    return run.record


def test_who_follows_a_role_follows_its_next_run(roles: FakeRoles) -> None:
    roles.run_all()
    one: Any = Heard()
    asked(roles, "logs", one, follow=True, role="server")
    before = record_of(roles)
    ask(roles, "restart", role="server")
    roles.ends("server")
    roles.clock.now += 60.0
    roles.step()
    roles.are_fit("server")
    assert record_of(roles) is not before
    printed(roles, "n0", "again\n")
    assert one.sent[1:] == [b"again\n"]
    for leave in one.on_close:
        leave()
    printed(roles, "n0", "more\n")
    assert one.sent[1:] == [b"again\n"]


def test_the_role_is_named_before_its_output() -> None:
    one: Any = Heard()
    reader = LogReader(one, {0})
    reader.feed(0, "n0", 1, b"a", "server")
    reader.feed(0, "n0", 1, b"b", "server")
    reader.feed(1, "n1", 1, b"of a rank that is not wanted", "trainer")
    reader.feed(0, "n1", 1, b"c", "trainer")
    reader.feed(0, "n0", 2, b"d", "server")
    first, second = {"rank": 0, "host": "n0"}, {"rank": 0, "host": "n1"}
    server, trainer = {"role": "server"}, {"role": "trainer"}
    assert one.sent == [server, first, b"a", b"b", trainer, second, b"c", server, b"d"]


def whom(asked: Any, _caller: object, _request: object, _fds: object) -> str:
    """Answer as a verb: of which role, or of which job."""
    return str(asked.view().spec.role if hasattr(asked, "view") else asked.spec.job.job_id)


WHOM = {rule.name: JobVerb(f"{__name__}:whom", rule, f"{__name__}:whom") for rule in RoleRule}


@pytest.mark.parametrize("do", ["stacks", "scale", "restart", "ONE"])
def test_what_needs_a_role_names_them(roles: FakeRoles, do: str) -> None:
    roles.run_all()
    with pytest.raises(UsageError, match=r"--role NAME: expected one of server, trainer$"):
        ask(roles, do)


@pytest.mark.parametrize(
    ("rule", "role", "of"),
    [
        ("ONE", "server", "server"),
        ("ONE_OR_ALL", "trainer", "trainer"),
        ("ONE_OR_ALL", None, "all"),
        ("ALL", None, "all"),
        ("ALL", "server", "all"),
    ],
)
def test_a_row_says_whom_a_verb_asks(
    roles: FakeRoles, rule: str, role: str | None, of: str
) -> None:
    roles.run_all()
    expected = roles.job.spec.job.job_id if of == "all" else of
    assert ask(roles, rule, role=role) == expected


@pytest.mark.parametrize("role", ["helper", 7])
def test_a_role_that_there_is_not(roles: FakeRoles, role: object) -> None:
    roles.run_all()
    with pytest.raises(UsageError, match=f"no role {role}; its roles are server, trainer"):
        ask(roles, "status", role=role)


def test_a_role_that_has_not_started(roles: FakeRoles) -> None:
    with pytest.raises(UsageError, match=r"^trainer has not started$"):
        ask(roles, "ONE", role="trainer")
