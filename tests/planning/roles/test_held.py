"""A job of several roles on held nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import NodeError, UsageError
from dsrun.launcher.planning.held import HeldNodes
from dsrun.launcher.planning.roles.file import parsed
from dsrun.launcher.planning.roles.held import held_roles
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.roles import RolesSpec

ROLES = b"""\
[[role]]
name = "server"
hosts = ["n2"]
slots = "0-0"
command = ["serve"]
ends = "never"

[[role]]
name = "trainer"
nodes = 1
module = "train"
ends = "job"
"""

SETTINGS = BackendSettings(python="/the/hold's/python")


def planned(*words: str, lost: dict[str, str] | None = None) -> RolesSpec:
    hosts = [Host(f"n{at}", (0, 1)) for at in (1, 2)]
    held = HeldNodes("lab", "ssh", hosts, lost or {}, SETTINGS)
    return held_roles(parse(["--on", "lab", *words], {}), parsed("rl.toml", ROLES), held)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_roles_are_placed_on_the_nodes_of_the_hold(folder: Path) -> None:
    spec = planned("--report_file", "r.json")
    places = {one.name: [node.host for node in one.job.plan.nodes] for one in spec.roles}
    assert places == {"server": [Host("n2", (0,))], "trainer": [Host("n1", (0, 1))]}
    for job in (spec.job, *(one.job for one in spec.roles)):
        assert (job.backend, job.held, job.plan.launcher) == (SETTINGS, True, "ssh")
        assert job.environ
    assert spec.job.output.report_file == str(folder / "r.json")


def test_nodes_that_are_lost_are_left_out() -> None:
    with pytest.raises(UsageError, match="nodes: 1 wanted, no node free"):
        planned(lost={"n1": "gone"})
    with pytest.raises(NodeError, match="lost n1: gone; n2: gone"):
        planned(lost={"n1": "gone", "n2": "gone"})
