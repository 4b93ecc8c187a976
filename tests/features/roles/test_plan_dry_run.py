"""A job of several roles as it is shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.features.roles.plan_dry_run import as_json, as_table, order
from dsrun.launcher.features.roles.plan_file import parsed
from dsrun.launcher.features.roles.plan_spec import find_nodes, roles_spec
from dsrun.launcher.specs.roles import RolesSpec

from ...support import schemas

ROLES = """\
[[role]]
name = "rollout"
nodes = 2
workers = 1
devices = 4
ports = ["http"]
command = ["serve", "{port.http}"]
ready = "http:/health"
ends = "never"
on_failure = "restart"

[[role]]
name = "trainer"
nodes = 2
script = "train.py"
args = ["{rollout.addrs}"]
after = ["rollout"]
ends = "job"
max_restarts = 1
workdir = "/"

[[role]]
name = "judge"
beside = "trainer"
slots = 0
script = "judge.py"
ends = "wait"
ready = 'line:up (\\d+)'
ready_timeout = 60
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def planned(hosts: str = "h[1-3]:4,h4:2", text: str = ROLES) -> RolesSpec:
    command = parse(["--host", hosts, "--launcher", "ssh"], {})
    return roles_spec(command, parsed("rl.toml", text.encode()), find_nodes(command))


def test_the_table_has_a_row_for_each_role() -> None:
    lines = as_table(planned(), []).split("\n")
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[:6]]
    assert rows == [
        ["role", "nodes", "slots", "workers", "ports", "after", "ready", "ends", "on failure"],
        ["rollout", "h1, h2", "0+1+2+3", "2", "http", "-", "http:http/health in 600 s", "never",
         "restart, 3 times"],
        ["trainer", "h3", "0-3", "6", "-", "rollout", "started", "job", "the job fails"],
        ["h4", "0-1"],
        ["judge", "h3, h4", "none", "2", "-", "-", "line:up (\\d+) in 60 s", "wait",
         "the job fails"],
        [],
    ]  # fmt: skip


def test_the_table_says_what_is_planned_for_each_role() -> None:
    text = as_table(planned(), [])
    assert "\norder     rollout and judge, then trainer\n" in text
    trainer = text.partition("role trainer:\n")[2].partition("\n\n")[0]
    program = "  program  python -u train.py '{rollout.addrs}'\n"
    assert f"{program}  python   {sys.executable} (dsrun's own)\n  folder   /\n" in trainer
    assert "  elastic  2 nodes; 1 restart;" in trainer
    assert text.count("stop ") == 1, "what is the same for all is written once"


def test_nodes_with_many_kinds_of_slots_are_counted() -> None:
    hosts = ",".join(f"h{at}:{at}" for at in range(1, 8))
    text = as_table(
        planned(hosts, '[[role]]\nname = "a"\nnodes = 7\nscript = "a.py"\nends = "job"'), []
    )
    assert "... and 4 more groups (--json shows all)" in text
    assert "a     h1" in text


def test_slots_that_are_not_known() -> None:
    text = as_table(
        planned("h1,h2", '[[role]]\nname = "a"\nnodes = 2\nscript = "a.py"\nends = "job"'), []
    )
    assert "a     h1, h2  all    ?" in text


def test_the_order_is_in_groups() -> None:
    assert order(planned()) == [("rollout", "judge"), ("trainer",)]


def test_json_is_as_its_schema_says() -> None:
    document = json.loads(as_json(planned(), []))
    assert schemas.faults("dry_run_roles", document) == []
    rollout, trainer, judge = document["roles"]
    assert (rollout["name"], rollout["ports"]) == ("rollout", ["http"])
    assert rollout["ready"] == {"kind": "http", "port": "http", "what": "/health", "timeout": 600}
    assert [node["devices"] for node in rollout["job"]["nodes"]] == [["0+1+2+3"], ["0+1+2+3"]]
    assert [node["devices"] for node in judge["job"]["nodes"]] == [["none"], ["none"]]
    assert trainer["job"]["elastic"]["restarts"] == 1
    assert document["order"] == [["rollout", "judge"], ["trainer"]]
    assert [node["host"] for node in document["job"]["nodes"]] == ["h1", "h2", "h3", "h4"]
    del document["roles"][0]["ends"]
    assert schemas.faults("dry_run_roles", document)
