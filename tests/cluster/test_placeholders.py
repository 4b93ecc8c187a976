"""The roles files of docs/programs.md on real hosts, with stand-ins that tell their words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from ..support.programs import program

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun

PARALLEL = "--tensor-parallel-size 8 --pipeline-parallel-size 2"
MASTER = "--master-addr n1 --master-port P"
START = "start --block --disable-usage-stats"
WORDS = {
    "vLLM": [
        f"serve MODEL {PARALLEL} --nnodes 2 --node-rank 0 {MASTER}",
        f"serve MODEL {PARALLEL} --nnodes 2 --node-rank 1 {MASTER} --headless",
    ],
    "SGLang": [
        f"serve --model-path MODEL --tp 16 --dist-init-addr n1:P --nnodes 2 --node-rank {rank}"
        for rank in (0, 1)
    ],
    "Ray": [
        f"{START} --head --node-ip-address n1 --port P",
        *[f"{START} --address n1:P"] * 3,
    ],
}

STAND_IN = """#!/bin/sh
echo "$(hostname): $*"
case $1 in
start) touch "up-$(hostname)"; echo Ray runtime started; exec sleep 1200 ;;
esac
"""

DRIVER = """
import glob, time

while len(glob.glob("up-*")) < 4:
    time.sleep(0.01)
"""
"""Ends the job once each stand-in for Ray has said its words."""


@pytest.mark.parametrize("name", WORDS)
def test_a_recipe_gives_each_node_its_words(dsrun: Dsrun, tmp_path: Path, name: str) -> None:
    stand_in = tmp_path / name.lower()
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    (tmp_path / "driver.py").write_text(DRIVER)
    text = program(name).one("toml")
    own = text.replace(f'command = ["{name.lower()}"', f'command = ["{stand_in}"')
    (tmp_path / "roles.toml").write_text(own)
    (tmp_path / "hosts").write_text("n1 slots=8\nn2 slots=8\nn3 slots=8\nn4 slots=8\n")
    words = ("--prefix", "", "--accelerator", "cpu")
    ended = dsrun("--hostfile", "hosts", *words, "--roles", "roles.toml")
    assert ended.returncode == 0, ended
    named = re.sub(r"\b10\.77\.\d+\.\d+", "n1", ended.stdout)
    lines = re.sub(r"(n1:|--port |--master-port )(?=\d)\d+", r"\1P", named).splitlines()
    told = sorted(line for line in lines if line != "Ray runtime started")
    assert told == [f"n{at}: {line}" for at, line in enumerate(WORDS[name], 1)], ended
