"""What a role prints goes to the console of the whole job."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dsrun.launcher.features.roles.runner_console import APART, RoleConsole

from ...support.fake_fleet import FakeConsole


def consoles() -> tuple[FakeConsole, RoleConsole, RoleConsole]:
    shared = FakeConsole()
    shared.flush = lambda then: then()  # type: ignore[attr-defined]
    console = cast("Any", shared)
    return shared, RoleConsole(console, "server", 0), RoleConsole(console, "trainer", 1)


def test_ranks_of_roles_are_apart() -> None:
    shared, server, trainer = consoles()
    server.label(0, "server/n0:0| ", {1})
    trainer.label(0, "trainer/n1:0| ", {1, 2})
    trainer.feed(0, 1, b"hi\n", lambda: None)
    assert shared.labels == {0: ("server/n0:0| ", {1}), APART: ("trainer/n1:0| ", {1, 2})}
    assert shared.printed == [(APART, 1, b"hi\n")]


def test_messages_name_the_role() -> None:
    shared, server, _ = consoles()
    server.log("lost n0", "warning")
    assert shared.said == [("warning", "server: lost n0")]
    assert server.shows("info")
    assert not server.shows("debug")


def test_the_console_of_the_job_stays_open_and_shows_one_report() -> None:
    shared, server, _ = consoles()
    ends: list[str] = []
    server.print_report("a report")
    server.status("0/1 hosts")
    server.fold(8, lambda _ranks: "")
    server.finish(lambda: ends.append("finished"))
    server.close()
    assert (shared.said, shared.state, ends) == ([], "0/1 hosts", ["finished"])
    assert not server.has_lost_output
    assert not server.folds
    server.on_broken_pipe()


def test_the_end_of_a_role_ends_no_line_of_others() -> None:
    """To ask the console what it still shows ends all lines that have begun."""
    shared, server, _ = consoles()
    shared.still_shows = lambda _: pytest.fail("asked")  # type: ignore[attr-defined]
    assert not server.still_shows(["x"])
