"""The program `network`, as two processes on this machine."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control.messages import from_fields
from dsrun.launcher.features.full_check.messages import Link, Listen, Listening, MeasureLink
from dsrun.launcher.node.programs import command_line

from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKENS = ("a" * 32, "b" * 32)


class Program:
    """One process of the program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, do: str, request: Listen | MeasureLink) -> dict[str, Any]:
        """Return the answer to a request."""
        assert self._process.stdin
        assert self._process.stdout
        line = json.dumps({"id": 1, "do": do, "with": request._asdict()})
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def program() -> Iterator[Program]:
    argv = [os.fsdecode(word) for word in command_line("network")]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Program(process)
            assert process.stdin
            process.stdin.close()
            assert process.wait(HANG) == 0
        finally:
            process.kill()


@pytest.fixture(scope="module")
def caller() -> Iterator[Program]:
    with program() as caller:
        yield caller


@pytest.fixture(scope="module")
def door() -> Iterator[Listening]:
    with program() as other:
        answer = other.ask("listen", Listen(TOKENS[0], ("localhost",)))
        yield from_fields(Listening, answer["reply"])


def request(door: Listening, *addresses: str, token: str = TOKENS[0], port: int = 0) -> MeasureLink:
    return MeasureLink(addresses or door.addresses, port or door.port, token, 5, 1, 0.01)


def test_a_link_is_measured(caller: Program, door: Listening) -> None:
    link = from_fields(Link, caller.ask("measure", request(door))["reply"])
    assert 0 < link.best_s <= link.median_s < 1
    assert min(link.out, link.back) > 1e5
    assert min(link.sent, link.back_sent) > 0


def test_addresses_are_tried_in_order(caller: Program, door: Listening) -> None:
    with_port = request(door, "255.255.255.255", "127.0.0.1")
    assert caller.ask("measure", with_port)["reply"]["address"] == "127.0.0.1"


def test_an_address_at_which_another_node_answers_is_none(caller: Program, door: Listening) -> None:
    answer = caller.ask("measure", request(door, "127.0.0.1", token=TOKENS[1]))
    assert answer["error"].startswith("127.0.0.1: ")


def test_each_address_that_does_not_answer_is_named(caller: Program, door: Listening) -> None:
    answer = caller.ask("measure", request(door, "127.0.0.1", "127.0.0.2", port=1))
    refused = "connection refused"
    assert answer["error"] == f"127.0.0.1: {refused}; 127.0.0.2: {refused}"
    assert caller.ask("measure", MeasureLink((), 1, TOKENS[0], 1, 1, 0.0)) == {
        "id": 1,
        "error": "it has no address",
    }
