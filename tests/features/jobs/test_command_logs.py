"""What dsrun-job logs prints, as text and as JSON."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import DsrunError, UsageError
from dsrun.launcher.features.jobs.command_logs import show
from dsrun.launcher.features.jobs.command_names import NamedSocket

from ...support import schemas
from ...support.jobs import HOSTILE
from ...support.local_control import serving

if TYPE_CHECKING:
    from dsrun.launcher.features.jobs.runner_server import LocalCaller, Message


def logs(caller: LocalCaller, request: Message, _fds: list[int]) -> Message | None:
    """Send what a job sends; to a follower more, and then the end."""
    hosts = {"0": "n0", "3": HOSTILE}
    caller.event({"event": "rank", "rank": 0, "host": hosts["0"]})
    caller.event({"event": "rank", "rank": 3, "host": hosts["3"]})
    caller.event({"event": "from a newer version"})
    for rank, stream, data in (
        (0, 1, b"one\ntw"),
        (3, 2, b"other\n"),
        (0, 1, b"o\n\xff\x1b[2Jthree"),
    ):
        caller.chunk(struct.pack("!IB", rank, stream) + data)
    if request.get("ranks") == [9]:
        raise UsageError("there is no rank 9")
    if request.get("follow"):
        caller.event({"event": "skipped", "bytes": 12})
        caller.event({"event": "rank", "rank": 0, "host": "n7"})
        caller.answer({}, request)
        caller.chunk(struct.pack("!IB", 0, 1) + b"late\n", caller.close)
        return None
    return {}


def printed(capfd: pytest.CaptureFixture[str], **more: Any) -> tuple[str, str]:
    arguments: dict[str, Any] = {"ranks": None, "follow": False, "as_json": False} | more
    with serving({"logs": logs}) as server:
        assert show(NamedSocket("job", server.name), **arguments) == 0
    out, err = capfd.readouterr()
    return out, err


def test_lines_are_labelled_with_host_and_rank(capfd: pytest.CaptureFixture[str]) -> None:
    out, err = printed(capfd)
    lines = out.split("\n")
    assert lines[0] == "n0:0| one"
    assert lines[1].endswith(":3| other")
    assert lines[1].isprintable(), "the name of a host is escaped"
    assert lines[2] == "n0:0| two"
    assert lines[3].startswith("n0:0| ")
    assert lines[3].endswith("three")
    assert err == ""


def test_who_follows_reads_until_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    out, err = printed(capfd, follow=True)
    assert out.endswith("three\nn7:0| late\n")
    assert err == "dsrun-job: 12 bytes omitted here\n"


def test_every_line_is_an_object_of_json(capfd: pytest.CaptureFixture[str]) -> None:
    out, _ = printed(capfd, as_json=True)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [schemas.faults("jobs", row, "line") for row in rows] == [[]] * 4
    assert rows[0] == {
        "format": 1,
        "role": "",
        "host": "n0",
        "rank": 0,
        "stream": 1,
        "line": "one",
    }
    assert [(row["rank"], row["stream"]) for row in rows] == [(0, 1), (3, 2), (0, 1), (0, 1)]
    assert rows[3]["line"] == "\ufffd\x1b[2Jthree"


def test_a_refusal_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DsrunError, match="there is no rank 9"):
        printed(capfd, ranks=[9])


def of_roles(caller: LocalCaller, _request: Message, _fds: list[int]) -> Message:
    """Send what a job of roles sends if all are meant."""
    for role, host, data in (
        ("server", "n0", b"GET"),
        ("trainer", "n1", b"step 1\n"),
        ("server", "n0", b" 200\n"),
        (HOSTILE, "n2", b"x\n"),
    ):
        caller.event({"event": "role", "role": role})
        caller.event({"event": "rank", "rank": 0, "host": host})
        caller.chunk(struct.pack("!IB", 0, 1) + data)
    return {}


def test_roles_are_told_apart(capfd: pytest.CaptureFixture[str]) -> None:
    with serving({"logs": of_roles}) as server:
        assert show(NamedSocket("job", server.name), None, follow=False, as_json=False) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[:2] == ["trainer/n1:0| step 1", "server/n0:0| GET 200"]
    assert lines[2].endswith("/n2:0| x")
    assert lines[2].isprintable()
