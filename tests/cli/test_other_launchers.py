"""Options of other launchers: whose each is, and what to write, which dsrun has."""

from __future__ import annotations

import re

import pytest

from dsrun.launcher.cli.options import table
from dsrun.launcher.cli.other_launchers import PROGRAMS, SHORT, words
from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import UsageError

from ..support.checkout import CHECKOUT

KEYS = [key for known in PROGRAMS.values() for key in known]

SAMPLES = {"NAME=VALUE": "A=b", "OMP_NUM_THREADS=N": "A=2", "NCCL_SOCKET_IFNAME=NAME": "A=b"}
"""Values in place of those that only have a name."""


def typed(key: str) -> str:
    return f"{'-' if len(key) == 1 else '--'}{key}"


@pytest.mark.parametrize("key", KEYS)
def test_what_it_says_can_be_typed(key: str) -> None:
    said = words(typed(key), f"{typed(key)} 2", table())
    assert said.isprintable()
    for match in re.finditer(r"(?<!')--(\w+)(?: ([A-Za-z0-9_=/:.,]+))?", said):
        name, text = match.groups("")
        field, row = table()[name]
        value = SAMPLES.get(text) or (row.choices[-1] if row.choices else "2")
        command = parse([f"--{name}", *([] if row.kind == "bool" else [value]), "train.py"], {})
        assert field in command.given
        assert command.program == ("train.py",)


@pytest.mark.parametrize(
    ("shown", "value", "said"),
    [
        ("--gres", "--gres=gpu:2", "Slurm's: --num_gpus N, or with --launcher slurm, --launch"),
        ("--time", "--time 60", "Slurm's: with --launcher slurm, --launcher_args '--time 60'"),
        ("-p", "-p a100", "Slurm's: with --launcher slurm, --launcher_args '-p a100'"),
        ("-c", "-c 4", "Slurm's: with --launcher slurm, --launcher_args '-c 4'"),
        ("-c", "-c import x", "the program is a file; to run a line: --no_python python3 -c '...'"),
        ("--num_processes", "", "accelerate's: a total; --num_gpus N is the number per host"),
        ("--num-processes", "", "accelerate's: a total; "),
        ("--config_file", "", "accelerate's: set it in "),
        ("--mixed-precision", "", "accelerate's: set it in "),
        ("--strategy", "", "Lightning's: an argument of the script's Trainer(...)"),
        ("--multirun", "", "Hydra's: after the script: "),
        ("--mca", "", "mpirun's: with --launcher openmpi, --launcher_args '--mca NAME VALUE'"),
        ("-ppn", "", "mpirun's: --num_gpus N"),
        ("-j", "-j 2x4", "torchx's: --num_nodes N --num_gpus M for NxM"),
        ("--world_size", "", "it follows from hosts and workers: "),
        ("--batch_size", "", ""),
    ],
)  # fmt: skip
def test_whose_an_option_is(shown: str, value: str, said: str) -> None:
    found = words(shown, value, table())
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_no_words_name_an_option_that_the_command_lacks() -> None:
    assert words("--num_processes", "", ["hostfile"]) == ""


def test_nothing_that_is_an_option_of_dsrun_is_explained_away() -> None:
    assert not {*KEYS} & {*table()}
    assert not {f"-{letter}" for letter in SHORT} & {*table()}
    assert {*SHORT.values()} <= {*KEYS}
    for key in KEYS:
        with pytest.raises(UsageError, match="unknown option"):
            parse([f"-{key}" if key == "np" else typed(key), "2", "train.py"], {})


@pytest.mark.parametrize("key", KEYS)
def test_the_pages_that_are_named_exist(key: str) -> None:
    for page, part in re.findall(r"docs/(\w+\.md)(?:#([\w-]+))?", words(typed(key), "", table())):
        text = (CHECKOUT / "docs" / page).read_text().lower()
        assert not part or f"\n## {part.replace('-', ' ')}\n" in text
