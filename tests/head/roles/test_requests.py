"""What dsrun-job asks a job of roles, of all roles together and of one."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import frames
from dsrun.launcher.head.roles.verbs import of_roles

from ...support.fake_roles import FakeRoles
from .test_roles_log import Heard

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def roles() -> Iterator[FakeRoles]:
    made = FakeRoles()
    yield made
    made.close()


def ask(roles: FakeRoles, do: str, **fields: object) -> Any:
    """Return the answer to a request."""
    caller: Any = None
    answer = of_roles(roles.job)[do](caller, fields, [])
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
    of_roles(roles.job)["logs"](one, {"follow": True}, [])
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
    of_roles(roles.job)["logs"](one, {"follow": True, "role": "server"}, [])
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
