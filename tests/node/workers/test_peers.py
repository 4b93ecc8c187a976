"""What the workers of a role are told about others, and the files that have it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from dsrun.launcher.node.workers.peers import PeerPlaceholders
from dsrun.launcher.specs.role_words import LONGEST, Peers

from ...support.leaks import open_files

SERVER = Peers(("10.0.0.3",), (8000,))


def test_nothing_is_known_but_the_own_ports() -> None:
    with closing(PeerPlaceholders({"http": 7000})) as peers:
        assert peers.filled(["--port", "{port.http}", "{server.addrs}"]) == (
            "--port",
            "7000",
            "{server.addrs}",
        )
        assert peers.variables() == {"DSRUN_PORT_HTTP": "7000"}


def test_words_and_variables_have_what_is_known() -> None:
    with closing(PeerPlaceholders({})) as peers:
        peers.update({"server": SERVER})
        assert peers.filled(["{server.addrs}"]) == ("10.0.0.3:8000",)
        values = {"URL": "http://{server.addrs}/", "JSON": '{"a": 1}'}
        assert peers.filled_values(values) == {**values, "URL": "http://10.0.0.3:8000/"}
        variables = peers.variables()
        assert variables["DSRUN_SERVER_ADDRS"] == "10.0.0.3:8000"
        told = json.loads(Path(variables["DSRUN_ROLES_FILE"]).read_text())
        assert told == {"server": {"hosts": ["10.0.0.3"], "addrs": ["10.0.0.3:8000"]}}


def test_a_file_is_replaced_at_once_and_closed_at_the_end() -> None:
    before = open_files()
    with closing(PeerPlaceholders({})) as peers:
        peers.update({"server": SERVER})
        path = Path(peers.variables()["DSRUN_ROLES_FILE"])
        with path.open() as old:
            peers.update({"server": Peers(("10.0.0.3",), (9000,))})
            assert "8000" in old.read()
        assert peers.variables()["DSRUN_ROLES_FILE"] == str(path)
        assert "9000" in path.read_text()
    assert open_files() == before


def test_a_list_that_is_too_long_for_an_argument_is_in_a_file() -> None:
    hosts = tuple(f"host-{number}" for number in range(LONGEST // 6))
    with closing(PeerPlaceholders({})) as peers:
        peers.update({"server": Peers(hosts)})
        (word,) = peers.filled(["{server.hosts}"])
        assert word == peers.variables()["DSRUN_SERVER_HOSTS"]
        assert Path(word.removeprefix("@")).read_text() == ",".join(hosts) + "\n"
