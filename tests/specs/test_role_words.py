"""What the roles of a job are told about each other."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.specs.role_words import (
    FILE,
    Peers,
    Placeholder,
    document,
    fill,
    is_variable,
    placeholders,
    texts,
    variables,
)

from ..support.properties import same_examples

PEERS = {
    "rollout": Peers(("10.0.0.3", "fe80::4"), (8000, 8001)),
    "trainer": Peers(("10.0.0.1",)),
}


class Files(dict[str, str]):
    """Files by their names; all are in one folder."""

    def write(self, name: str, text: str) -> str:
        self[name] = text
        return f"/tmp/job/{name}"


TEXTS = texts(PEERS, Files().write)


def test_a_list_has_an_item_for_each_node() -> None:
    assert TEXTS == {
        "rollout.hosts": "10.0.0.3,fe80::4",
        "rollout.addrs": "10.0.0.3:8000,[fe80::4]:8001",
        "trainer.hosts": "10.0.0.1",
        "trainer.addrs": "",
    }


@pytest.mark.parametrize(
    ("word", "filled"),
    [
        ("{port.http}", "8000"),
        ("--url=http://{rollout.addrs}/v1", "--url=http://10.0.0.3:8000,[fe80::4]:8001/v1"),
        ("{trainer.hosts}:{port.http}", "10.0.0.1:8000"),
        ('{"port": {"a": 1}}', '{"port": {"a": 1}}'),
        ("${port.http}", "$8000"),
        ("{}", "{}"),
        ("{port}", "{port}"),
        ("{port.grpc}", "{port.grpc}"),
        ("{reward.addrs}", "{reward.addrs}"),
        ("{rollout.ports}", "{rollout.ports}"),
        ("{ rollout.addrs }", "{ rollout.addrs }"),
        ("{Rollout.addrs}", "{Rollout.addrs}"),
        ("model.${oc.env:HOME}", "model.${oc.env:HOME}"),
        ("{{port.http}}", "{8000}"),
    ],
)
def test_only_placeholders_are_filled_in(word: str, filled: str) -> None:
    assert fill([word], {"http": 8000}, TEXTS) == (filled,)


def test_what_is_filled_in_is_not_read_again() -> None:
    assert fill(["{a.hosts}"], {}, {"a.hosts": "{b.hosts}", "b.hosts": "x"}) == ("{b.hosts}",)


@given(st.lists(st.text()))
@same_examples
def test_words_without_placeholders_stay(words: list[str]) -> None:
    if not list(placeholders(words)):
        assert fill(words, {"http": 1}, TEXTS) == tuple(words)


def test_variables_of_a_worker() -> None:
    assert variables({"http": 8000, "dist_init": 7}, TEXTS, "/tmp/job/roles.json") == {
        "DSRUN_PORT_HTTP": "8000",
        "DSRUN_PORT_DIST_INIT": "7",
        "DSRUN_ROLLOUT_HOSTS": "10.0.0.3,fe80::4",
        "DSRUN_ROLLOUT_ADDRS": "10.0.0.3:8000,[fe80::4]:8001",
        "DSRUN_TRAINER_HOSTS": "10.0.0.1",
        FILE: "/tmp/job/roles.json",
    }
    assert FILE not in variables({}, TEXTS)


def test_every_variable_is_known_as_one() -> None:
    assert all(map(is_variable, variables({"http": 8000, "dist_init": 7}, TEXTS, "/x")))
    assert not any(map(is_variable, ("DSRUN_HOST", "DSRUN_ADDRS", "DSRUN_PORT", "ROLLOUT_HOSTS")))


def test_a_long_list_is_in_a_file() -> None:
    many = Peers(tuple(f"10.0.{at >> 8}.{at & 255}" for at in range(1 << 14)))
    assert len(",".join(many.hosts)) > 128 << 10
    files = Files()
    made = texts({**PEERS, "rollout": many}, files.write)
    assert made["rollout.hosts"] == "@/tmp/job/rollout.hosts"
    assert files == {"rollout.hosts": ",".join(many.hosts) + "\n"}
    assert made["trainer.hosts"] == "10.0.0.1"
    assert fill(["{rollout.hosts}"], {}, made) == ("@/tmp/job/rollout.hosts",)


def test_the_length_of_a_list_is_in_bytes() -> None:
    peers, files = {"a": Peers(("ä" * 3,))}, Files()
    assert texts(peers, files.write, longest=6) == {"a.hosts": "äää", "a.addrs": ""}
    assert files == {}
    assert texts(peers, files.write, longest=5)["a.hosts"] == "@/tmp/job/a.hosts"


def test_the_document_has_every_list() -> None:
    assert json.loads(document(PEERS)) == {
        "rollout": {
            "hosts": ["10.0.0.3", "fe80::4"],
            "addrs": ["10.0.0.3:8000", "[fe80::4]:8001"],
        },
        "trainer": {"hosts": ["10.0.0.1"], "addrs": []},
    }


def test_placeholders_in_their_order() -> None:
    words = ["{port.http}/{rollout.addrs}", "{x}", "{trainer.hosts}"]
    found = [Placeholder("http", "port"), Placeholder("rollout", "addrs")]
    assert list(placeholders(words)) == [*found, Placeholder("trainer", "hosts")]
    assert list(map(str, placeholders(words))) == [
        "{port.http}",
        "{rollout.addrs}",
        "{trainer.hosts}",
    ]
