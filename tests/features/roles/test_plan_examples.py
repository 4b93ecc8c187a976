"""The examples of files with roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.features.roles.plan_dry_run import order
from dsrun.launcher.features.roles.plan_file import read
from dsrun.launcher.features.roles.plan_spec import find_nodes, roles_spec

from ...support.checkout import CHECKOUT

FOLDER = CHECKOUT / "examples" / "roles"

ORDERS = {
    "trl_vllm": [("vllm",), ("trainer",)],
    "ray_verl": [("head",), ("worker",), ("driver",)],
    "evaluator": [("trainer", "evaluator")],
    "parameter_server": [("server",), ("worker",)],
    "prime_rl": [("inference", "trainer"), ("orchestrator",)],
    "dask": [("scheduler",), ("worker",), ("client",)],
}


def test_all_examples_are_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == ORDERS.keys()


@pytest.mark.parametrize("name", ORDERS)
def test_an_example_can_be_planned(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = parse(["--host", "h[1-4]:8", "--launcher", "ssh"], {})
    spec = roles_spec(command, read(str(FOLDER / f"{name}.toml")), find_nodes(command))
    assert order(spec) == ORDERS[name]
    assert spec.job.origin.notes == (), "every node has a role"
