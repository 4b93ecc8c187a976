"""What a picture says of the job itself."""

from __future__ import annotations

import shlex

import pytest

from dsrun.launcher.features.picture.runner_about import PictureHead, masked
from dsrun.launcher.specs.program import Program, command_lines


def test_what_is_not_known_is_left_out() -> None:
    assert PictureHead().facts == {}
    assert PictureHead("/w/my\x1b.py --lr 1").facts == {
        "program": "my\\x1b.py",
        "command line": "/w/my\\x1b.py --lr 1",
    }


def test_each_role_has_its_program() -> None:
    programs = {
        "server": Program("/w/serve.py", ("--api_key", "geheim")),
        "trainer": Program("train it.py", ("--lr", "1; rm")),
    }
    facts = PictureHead(command_lines(programs)).facts
    assert facts["program"] == "serve.py, train it.py"
    line = "server: /w/serve.py --api_key ***; trainer: 'train it.py' --lr '1; rm'"
    assert facts["command line"] == line


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--lr", "1", "--name=x"], None),
        (["--api_key=geheim"], "--api_key=***"),
        (["--api-key=geheim", "--lr=1"], "--api-key=*** --lr=1"),
        (["--wandb_api_key", "geheim", "x"], "--wandb_api_key *** x"),
        (["--token", "geheim"], "--token ***"),
        (["--hf-token", "it's geheim", "x"], "--hf-token *** x"),
        (["--password=geheim und mehr"], "--password=***"),
        (["--token=a\nb", "x"], "--token=*** x"),
        (["--password", "--lr", "1"], None),
        (["HF_TOKEN=geheim", "python"], "HF_TOKEN=*** python"),
        (["+trainer.wandb.api_key=geheim"], "+trainer.wandb.api_key=***"),
        (["--db", "postgres://me:geheim@host/db"], "--db postgres://me:***@host/db"),
        (["--url=http://host:80/x@y"], None),
        (["--max_tokens", "5", "--monkey=1", "--tokenizer", "gpt"], None),
        (["token", "geheim"], None),
    ],
)
def test_values_of_secrets_are_masked(words: list[str], shown: str | None) -> None:
    command = shlex.join(["train.py", *words])
    assert masked(command) == (command if shown is None else f"train.py {shown}")


@pytest.mark.parametrize("text", ["", "'", "a 'b", '"', "x.py ' --token=geheim", ";", ": ;"])
def test_any_text_may_be_a_command(text: str) -> None:
    facts = PictureHead(text).facts
    assert "geheim" not in str(facts)
