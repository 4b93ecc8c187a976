"""The recipes of docs/programs.md on real hosts, with stand-ins that tell each of their words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from .command import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun

PAGE = (CHECKOUT / "docs/programs.md").read_text()
RECIPES = {
    name: text
    for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for name in re.findall(r'^name = "(\w+)"', text, re.MULTILINE)
}

PARALLEL = "--tensor-parallel-size 8 --pipeline-parallel-size 2"
MASTER = "--master-addr n1 --master-port P"
WORDS = {
    "vllm": [
        f"serve MODEL {PARALLEL} --nnodes 2 --node-rank 0 {MASTER}",
        f"serve MODEL {PARALLEL} --nnodes 2 --node-rank 1 {MASTER} --headless",
    ],
    "sglang": [
        f"serve --model-path MODEL --tp 16 --dist-init-addr n1:P --nnodes 2 --node-rank {rank}"
        for rank in (0, 1)
    ],
    "ray": [
        "start --block --head --node-ip-address n1 --port P",
        "start --block --address n1:P",
    ],
}


@pytest.mark.parametrize("name", WORDS)
def test_a_recipe_gives_each_node_its_words(dsrun: Dsrun, tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    program.write_text('#!/bin/sh\necho "$(hostname): $*"\n')
    program.chmod(0o755)
    text = RECIPES[name].replace(f'command = ["{name}"', f'command = ["{program}"')
    (tmp_path / "roles.toml").write_text(text)
    (tmp_path / "hosts").write_text("n1 slots=8\nn2 slots=8\n")
    words = ("--prefix", "", "--accelerator", "cpu")
    ended = dsrun("--hostfile", "hosts", *words, "--roles", "roles.toml")
    assert ended.returncode == 0, ended
    named = re.sub(r"\b10\.77\.\d+\.\d+", "n1", ended.stdout)
    told = sorted(re.sub(r"(n1:|--port |--master-port )(?=\d)\d+", r"\1P", named).splitlines())
    assert told == [f"n{at}: {line}" for at, line in enumerate(WORDS[name], 1)], ended
