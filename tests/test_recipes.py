"""The recipes of docs/recipes.md on this machine, run as the page has them.

Others need hosts (`tests/cluster/test_recipes.py`) or a notebook (`tests/api/test_notebook.py`).
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

import pytest

from .support.checkout import CHECKOUT
from .support.desk import lay_out
from .support.needs import need, need_modules
from .support.recipes import LONG, recipe, recipes, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

every = pytest.mark.tier("all")

TITAN = """\
import argparse, os, torch, torch.distributed as dist
parser = argparse.ArgumentParser()
for name in ("module", "config", "training.steps"):
    parser.add_argument(f"--{name}", required=True)
options = parser.parse_args()
dist.init_process_group("gloo")
total = torch.tensor(int(os.environ["RANK"]) + 1)
dist.all_reduce(total)
print(f"{options.module} {options.config}, sum {total.item()}", flush=True)
dist.destroy_process_group()
"""
"""A stand-in for torchtitan, which needs GPUs: its arguments, and all ranks together."""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder that looks like a checkout."""
    return lay_out(tmp_path)


def test_each_recipe_of_the_page_is_run() -> None:
    texts = [path.read_text() for path in (CHECKOUT / "tests").rglob("test_*.py")]
    assert sorted(re.findall(r'\brecipe\("([^"]+)"\)', "".join(texts))) == sorted(recipes())


def test_a_line_that_the_page_shows_must_be_printed_whatever_its_numbers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# X\n\n## A\n\n```sh\na\n```\n\n```text\nloss 0.25\nend\n```\n\n## B\n")
    shown = recipes(page)
    assert (list(shown), shown["A"].one("sh"), shown["B"].blocks) == (["A", "B"], "a\n", ())
    assert shown["A"].not_in("more\nloss 3\n") == ["end"]
    assert shown["A"].not_in("loss 0.1 x\nend\n") == ["loss 0.25"]


@every
def test_accelerate(desk: Path) -> None:
    need_modules("torch", "accelerate")
    printed = run(recipe("Accelerate"), desk)
    assert printed.count("epoch 2") == 1, "all ranks train one model, and one of them tells"


@every
def test_lightning(desk: Path) -> None:
    need_modules("torch", "lightning")
    printed = run(recipe("Lightning"), desk)
    assert printed.count("epoch 2") == 1


@every
def test_the_trainer_of_hugging_face(desk: Path) -> None:
    need_modules("torch", "transformers", "accelerate")
    run(recipe("Hugging Face Trainer"), desk)
    saved = sorted(path.name for path in (desk / "hf_output").glob("checkpoint-*"))
    assert saved == ["checkpoint-12", "checkpoint-4", "checkpoint-8"]


@every
def test_trl(desk: Path) -> None:
    need_modules("torch", "transformers", "trl", "datasets")
    printed = run(recipe("TRL"), desk)
    rewards = [float(found) for found in re.findall(r"'reward': '([\d.]+)'", printed)]
    assert len(rewards) == 2, printed
    assert rewards[0] < rewards[1]


@every
def test_deepspeed(desk: Path) -> None:
    need_modules("torch", "deepspeed")
    need("g++")
    run(recipe("DeepSpeed"), desk, LONG)


@every
def test_the_command_lines_of_torchtitan(desk: Path) -> None:
    need_modules("torch")
    (desk / "torchtitan").mkdir()
    (desk / "torchtitan" / "__init__.py").touch()
    (desk / "torchtitan" / "train.py").write_text(TITAN)
    printed = run(recipe("torchtitan"), desk)
    assert printed.count("| llama3 llama3_debugmodel, sum 3\n") == 2, "rank 0 of both"
    assert "localhost:1| llama3" not in printed


@every
def test_one_run_of_wandb_over_restarts(desk: Path) -> None:
    need_modules("torch", "wandb")
    run(recipe("Weights & Biases offline"), desk)
    files = sorted(desk.glob("wandb/offline-run-*/run-*.wandb"))
    assert len(files) == 2, "one for each round"
    assert len({file.name for file in files}) == 1, "with the id of the run"
    assert [step for file in files for step in steps_in(file)] == list(range(8))


def steps_in(file: Path) -> Iterator[int]:
    """Yield the steps that were logged to a file of wandb."""
    from wandb.proto import wandb_internal_pb2

    reader: Any = wandb_internal_pb2
    for data in records(file.read_bytes()):
        record = reader.Record.FromString(data)
        if record.WhichOneof("record_type") == "history":
            yield from (
                int(item.value_json)
                for item in record.history.item
                if "_step" in (item.key, *item.nested_key)
            )


def records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a log of LevelDB's form, whose blocks count from the file's beginning.

    A part of a record begins with four bytes of a checksum, its length and its kind: 1 is a whole
    record, 4 the last part of one (doc/log_format.md of LevelDB). wandb writes 7 bytes before.
    """
    at, record, block, header = 7, b"", 32768, struct.Struct("<IHB")
    while at + header.size <= len(data):
        left = block - at % block
        if left < header.size:
            at += left
            continue
        _, length, kind = header.unpack_from(data, at)
        at += header.size
        record += data[at : at + length]
        at += length
        if kind in {1, 4}:
            yield record
            record = b""
