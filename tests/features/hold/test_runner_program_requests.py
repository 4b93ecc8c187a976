"""Programs of dsrun on held nodes, as a client asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import LOST
from dsrun.launcher.control import frames
from dsrun.launcher.features.hold.runner import HoldPhase

from ...support.exec_nodes import asked, exits, fed, prints, was_sent

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_hold import Client, FakeHold

    HoldOf = Callable[..., FakeHold]


def begin(client: Client, host: str, *arguments: str, **more: Any) -> dict[str, Any]:
    fields = {"program": "facts", "host": host, "arguments": list(arguments), **more}
    answer = client.ask("program", **fields)
    assert answer is not None
    return answer


def ends(fake: FakeHold, client: Client) -> list[tuple[int, int, str]]:
    """Return the ends that a client has been told: number, code, reason."""
    fake.job.step()
    client.answer_to(0)
    events = [message for kind, message in client.got if kind == frames.EVENT]
    assert {one["event"] for one in events} <= {"program_ended"}
    return [(one["program"], one["code"], one["why"]) for one in events]


def test_programs_have_arguments_input_and_ends_of_their_own(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1").ready()
    client = fake.client()
    assert begin(client, "n0", "--listen") == {"ok": True, "id": 1}
    assert begin(client, "n1", "--dial", "x") == {"ok": True, "id": 2}
    n0, n1 = fake.job.nodes("n0", "n1")
    ((first,), (second,)) = asked(n0), asked(n1)
    assert (first["program"], first["argv"], first["stdin"]) == ("facts", ["--listen"], True)
    assert second["argv"] == ["--dial", "x"]
    assert client.ask("program_input", program=2, data="go\n\udcff") == {"ok": True, "id": 3}
    assert (fed(n0), fed(n1)) == ([], [b"go\n\xff"])
    prints(n1, b"out\n")
    exits(n1, -15)
    exits(n0, 0)
    assert sorted(ends(fake, client)) == [(1, 0, ""), (2, 143, "")]
    chunks = [frames.unpack_output(body) for kind, body in client.got if kind == frames.CHUNK]
    assert chunks == [(2, 1, b"out\n")]


def test_only_the_caller_stops_and_feeds_a_program(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client, other = fake.client(), fake.client()
    begin(client, "n0")
    assert other.ask("program_stop", program=1) == {"ok": True, "id": 1}
    assert other.ask("program_input", program=1, data="x") == {"ok": True, "id": 2}
    node = fake.job.node("n0")
    assert not was_sent(node, frames.EXEC_STOP)
    assert fed(node) == []
    client.ask("program_stop", program=1)
    assert was_sent(node, frames.EXEC_STOP)


def test_a_program_ends_with_its_caller_and_with_the_hold(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1", idle_timeout=60.0).ready()
    client, other = fake.client(), fake.client()
    begin(client, "n0")
    begin(other, "n1")
    client.leave()
    fake.job.go(100.0)
    n0, n1 = fake.job.nodes("n0", "n1")
    assert (was_sent(n0, frames.EXEC_STOP), was_sent(n1, frames.EXEC_STOP)) == (True, False)
    assert fake.hold.phase is HoldPhase.SERVING, "a program keeps the nodes from an idle release"
    fake.hold.stop(0)
    fake.job.step()
    assert was_sent(n1, frames.EXEC_STOP)


def test_a_lost_node_and_a_missing_one(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    begin(client, "n0")
    fake.job.node("n0").leaves()
    ((number, code, why),) = ends(fake, client)
    assert (number, code) == (1, LOST)
    assert why
    answer = begin(client, "n0")
    assert (answer["ok"], answer["code"]) == (False, 69)
    fake.job.go(100.0)
    assert len(ends(fake, client)) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"program": ""},
        {"program": 3},
        {"host": ["n0"]},
        {"host": "n7"},
        {"arguments": "x"},
        {"arguments": [1]},
    ],
)
def test_bad_requests_are_refused(fields: dict[str, object], hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    answer = client.ask("program", **{"program": "facts", "host": "n0"} | fields)  # type: ignore[arg-type]
    assert answer is not None
    assert (answer["ok"], answer["code"]) == (False, 2)
    assert asked(fake.job.node("n0")) == []
    assert client.ask("program_input", program=1, data=3)["code"] == 2  # type: ignore[index]


def test_a_hold_that_ends_starts_none(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    begin(client, "n0")
    fake.hold.stop(0)
    assert "hold lab is ending" in begin(client, "n0")["error"]
