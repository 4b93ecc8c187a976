"""What a machine and its torch tell people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.control.messages import NodeJob
from dsrun.launcher.features.quick_check import node_report as module
from dsrun.launcher.features.quick_check.node_report import report
from dsrun.launcher.node.workers.prepare import NodeSetup
from dsrun.launcher.specs.program import Program

from ...support.node_setup import node_setup

if TYPE_CHECKING:
    from pathlib import Path


def setup_of(folder: Path, python: str) -> NodeSetup:
    program = Program("check", module=True, python=python)
    env = {"DSRUN_ACCELERATOR": "cpu", "PATH": f"{folder}/bin"}
    task = NodeJob(__version__, "j", "n0", program, str(folder), env, None, None)
    return node_setup(task, lambda _text: None)


def script(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_it_has_the_machine_its_tools_and_torch(tmp_path: Path) -> None:
    script(tmp_path / "bin/gcc", "echo 'gcc (x) 12.2.0'; echo 'Copyright 2022'")
    script(
        tmp_path / "bin/nvcc",
        "echo nvcc; echo 'Copyright 2005'; echo ', release 12.1, V1'; echo b 3",
    )
    script(tmp_path / "bin/cmake", "exit 1")
    python = script(
        tmp_path / "py", r"""echo noise; printf '%s' '{"torch.version": "2.4\u001b[31m"}'"""
    )
    found = report(setup_of(tmp_path, python))
    assert found["torch.version"] == "2.4"
    assert (found["gcc"], found["nvcc"]) == ("gcc (x) 12.2.0", ", release 12.1, V1")
    assert "cmake" not in found
    assert found["kernel"].startswith(os.uname().release)
    assert found["cpus"] == str(os.cpu_count())


@pytest.mark.parametrize("does", ["exit 3", "echo 7", "echo '[]'", "yes '[' | head -c 200000"])
def test_a_torch_that_cannot_tell_is_said(tmp_path: Path, does: str) -> None:
    found = report(setup_of(tmp_path, script(tmp_path / "py", does)))
    assert found["torch.import"] == "failed"


def test_a_program_that_hangs_is_given_up(tmp_path: Path) -> None:
    hangs = script(tmp_path / "hangs", "exec /bin/sleep 600")
    assert module._output([hangs], dict(os.environ), 0.2) == ""


def test_network_cards_are_described(tmp_path: Path) -> None:
    card = tmp_path / "sys/class/net/eth0"
    (card / "device").mkdir(parents=True)
    (card / "speed").write_text("25000\n")
    (card / "operstate").write_text("up\n")
    (tmp_path / "sys/class/net/lo").mkdir()
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    (port / "rate").write_text("200 Gb/sec (4X HDR)\n")
    assert dict(module._networks(f"{tmp_path}/")) == {
        "network.eth0": "up, 25000 Mb/s",
        "infiniband.mlx5_0:1": "4: ACTIVE, 200 Gb/sec (4X HDR)",
    }
