"""Commands on held nodes, as a client asks for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.features.hold.runner import HoldPhase

from ...support.exec_nodes import asked, exits, fed, prints, was_sent

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_hold import Client, FakeHold

    HoldOf = Callable[..., FakeHold]


def events(fake: FakeHold, client: Client) -> list[dict[str, Any]]:
    """Return the events that a client has been sent."""
    fake.job.step()
    client.answer_to(0)
    return [message for kind, message in client.got if kind == frames.EVENT]


def chunks(client: Client) -> list[tuple[int, int, bytes]]:
    """Return the output that it has been sent: place, stream, data."""
    return [frames.unpack_output(body) for kind, body in client.got if kind == frames.CHUNK]


def begin(client: Client, *hosts: str, **more: Any) -> dict[str, Any]:
    answer = client.ask("exec", argv=["ls", "-l"], hosts=list(hosts), **more)
    assert answer is not None
    return answer


def test_output_and_ends_go_to_the_client(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1", "n2").ready()
    client = fake.client()
    assert begin(client, "n2", "n0", workdir="/w")["ok"]
    assert asked(fake.job.node("n1")) == []
    n2, n0 = fake.job.nodes("n2", "n0")
    assert asked(n2)[0]["workdir"] == "/w"
    prints(n0, b"out")
    prints(n2, b"err", stream=2)
    exits(n0, 0)
    exits(n2, -15)
    ends = events(fake, client)
    assert sorted((end["host"], end["code"]) for end in ends) == [("n0", 0), ("n2", 143)]
    assert sorted(chunks(client)) == [(0, 2, b"err"), (1, 1, b"out")]


def test_a_missing_node_has_failed_and_the_others_run(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1").ready()
    fake.job.node("n1").leaves()
    fake.job.step()
    client = fake.client()
    assert begin(client, "n0", "n1")["ok"]
    (failed,) = events(fake, client)
    assert (failed["event"], failed["host"], failed["began"]) == ("failed", "n1", False)
    fake.job.node("n0").leaves()
    lost = events(fake, client)[-1]
    assert (lost["event"], lost["host"], lost["began"]) == ("failed", "n0", True)


def test_input_comes_from_a_pipe(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1").ready()
    client = fake.client()
    read, write = os.pipe()
    assert begin(client, "n0", "n1", readers=["n1"], fds=[read])["ok"]
    os.close(read)
    os.write(write, b"abc")
    fake.job.step()
    os.close(write)
    fake.job.step()
    assert fed(fake.job.node("n0")) == []
    assert fed(fake.job.node("n1")) == [b"abc", b""]


def test_the_end_of_the_client_ends_its_command_alone(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1").ready()
    client, other = fake.client(), fake.client()
    begin(client, "n0")
    begin(other, "n1")
    client.leave()
    fake.job.step()
    assert was_sent(fake.job.node("n0"), frames.EXEC_STOP)
    assert not was_sent(fake.job.node("n1"), frames.EXEC_STOP)
    exits(fake.job.node("n0"), -15)
    fake.job.step()
    assert other.ask("exec_stop") == {"ok": True, "id": 2}
    assert was_sent(fake.job.node("n1"), frames.EXEC_STOP)


def test_a_command_keeps_the_nodes_from_an_idle_release(hold_of: HoldOf) -> None:
    fake = hold_of("n0", idle_timeout=60.0).ready()
    begin(fake.client(), "n0")
    fake.job.go(100.0)
    phases = [fake.hold.phase]
    exits(fake.job.node("n0"), 0)
    fake.job.go(100.0)
    assert [*phases, fake.hold.phase] == [HoldPhase.SERVING, HoldPhase.ENDING]


def test_a_release_ends_commands(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    begin(fake.client(), "n0")
    fake.hold.stop(0)
    fake.job.step()
    assert was_sent(fake.job.node("n0"), frames.EXEC_STOP)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"argv": []}, "invalid request"),
        ({"argv": "ls"}, "invalid request"),
        ({"argv": [1]}, "invalid request"),
        ({"argv": ["a\0b"]}, "invalid request"),
        ({"hosts": []}, "invalid request"),
        ({"hosts": ["n0", "n0"]}, "invalid request"),
        ({"hosts": ["n7"]}, "n7: not held by lab, which has n0"),
        ({"readers": ["n0"]}, "invalid request"),
        ({"readers": ["n1"]}, "invalid request"),
        ({"workdir": 3}, "invalid request"),
        ({"workdir": "/a\0b"}, "invalid request"),
    ],
)
def test_bad_requests_are_refused(fields: dict[str, object], message: str, hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    answer = fake.client().ask("exec", **{"argv": ["ls"], "hosts": ["n0"], **fields})  # type: ignore[arg-type]
    assert answer is not None
    assert (answer["ok"], answer["code"]) == (False, 2)
    assert message in answer["error"]
    assert asked(fake.job.node("n0")) == []


def test_a_hold_that_ends_begins_no_command(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    begin(client, "n0")
    fake.hold.stop(0)
    answer = client.ask("exec", argv=["ls"], hosts=["n0"])
    assert answer is not None
    assert "hold lab is ending" in answer["error"]
