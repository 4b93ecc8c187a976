"""The real `dsrun-elastic`, and the real `dsrun --elastic_config`, here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.specs.plan import encode_world

from ...cluster.command import own_lines
from ...support import schemas
from ...support.checkout import BIN, IMPORTABLE
from ...support.limits import HANG

SMALL = {"max_train_batch_size": 64, "micro_batch_sizes": [4, 6], "max_gpus": 4, "version": 0.1}
PAIRS = {
    "max_train_batch_size": 400, "micro_batch_sizes": [2, 5], "max_gpus": 16,
    "num_gpus_per_node": 4, "model_parallel_size": 2,
}  # fmt: skip
NONE_WHOLE = {**PAIRS, "max_gpus": 3, "num_gpus_per_node": 8}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    """A user's folder: configs, hosts that are nowhere, and a script that says that it ran."""
    for name, block in {"small": SMALL, "pairs": PAIRS, "none": NONE_WHOLE}.items():
        config = {"train_batch_size": 8, "elasticity": {"enabled": True, **block}}
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    (tmp_path / "broken.json").write_text('{\n  "elasticity": {"enabled" true}\n}\n')
    (tmp_path / "latin.json").write_bytes(b'{\n"a":\n"\xe4"}')
    (tmp_path / "twice.json").write_text('{"elasticity": {"enabled": true, "enabled": false}}')
    (tmp_path / "deep.json").write_text("[" * 200000)
    (tmp_path / "empty.json").touch()
    (tmp_path / "other.json").write_text('{"elastic": {}}')
    (tmp_path / "hosts").write_text("nowhere-1 slots=4\nnowhere-2 slots=3\n")
    (tmp_path / "x.py").write_text("import os; print('ran', os.environ['WORLD_SIZE'])\n")
    return tmp_path


def run(
    folder: Path, command: str, *words: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours in that folder, without variables of its own but these."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("DSRUN_")}
    return subprocess.run(
        [sys.executable, BIN / command, *words], cwd=folder, env={**ours, **environ},
        capture_output=True, text=True, check=False, timeout=HANG,
    )  # fmt: skip


def shown(folder: Path, *words: str) -> str:
    """What the tool prints, with a good end and nothing on stderr."""
    done = run(folder, "dsrun-elastic", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- the tool -----------------------------------------------------------------------------------


def test_the_table_of_a_plan(folder: Path) -> None:
    assert shown(folder, "-c", "small.json") == (
        "batch size 48 (schema 0.1): 4 world sizes, 1 to 4\n"
        "\n"
        "world size  micro batch  accumulation steps  batch size\n"
        "         1            6                   8          48\n"
        "         2            6                   4          48\n"
        "         3            4                   4          48\n"
        "         4            6                   2          48\n"
    )


def test_a_world_size_outside_the_nodes_has_a_batch_of_its_own(folder: Path) -> None:
    assert shown(folder, "-c", "pairs.json", "-w", "6") == (
        "batch size 360 (schema 0.2): 4 world sizes, 4 to 16\n"
        "every 2 ranks share one copy of the model (model_parallel_size)\n"
        "world size 6 is not among them; its batch size differs (schema 0.2)\n"
        "\n"
        "world size  micro batch  accumulation steps  batch size\n"
        "         6            2                  66         396\n"
    )


@pytest.mark.parametrize(
    "words", [("-w4",), ("-w", "4"), ("--world-size=4",), ("--world_size", "4")]
)
def test_json_has_the_names_of_a_config(folder: Path, words: list[str]) -> None:
    assert json.loads(shown(folder, "--config=small.json", *words, "--json")) == {
        "format": 1,
        "version": "0.1",
        "valid": [1, 2, 3, 4],
        "shares": [
            {
                "world_size": 4,
                "train_micro_batch_size_per_gpu": 6,
                "gradient_accumulation_steps": 2,
                "train_batch_size": 48,
            }
        ],
    }


def test_json_of_a_whole_plan_has_a_share_for_each_size(folder: Path) -> None:
    told = json.loads(shown(folder, "-cpairs.json", "--json"))
    assert schemas.faults("elastic_plan", told) == []
    assert schemas.faults("elastic_plan", {**told, "more": 1}) != []
    assert [share["world_size"] for share in told["shares"]] == told["valid"] == [4, 8, 12, 16]


def test_a_plan_without_whole_nodes_still_serves_one_size(folder: Path) -> None:
    assert shown(folder, "-c", "none.json", "-w", "2").splitlines()[-1].split() == (
        ["2", "5", "80", "400"]
    )


@pytest.mark.parametrize("words", [("-h",), ("--help",), ("-c", "small.json", "-h")])
def test_help(folder: Path, words: tuple[str, ...]) -> None:
    text = shown(folder, *words)
    assert text.startswith("usage: dsrun-elastic -c FILE")
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "dsrun-elastic: no config; expected -c FILE, see dsrun-elastic -h"),
        (("-c",), "-c: expected FILE after it"),
        (("--world_size",), "--world_size: expected N after it"),
        (
            ("small.json",),
            "dsrun-elastic: unexpected argument 'small.json'; write -c small.json; see"
            " dsrun-elastic -h",
        ),
        (("-c", "a", "--config=b"), "--config: is given twice; give it once"),
        (("--conf", "x"), "dsrun-elastic: unknown option '--conf'; see dsrun-elastic -h"),
        (("--json=1",), "--json: takes no value, not '1'"),
        (("-csmall.json", "-w", "0"), "--world_size: expected 1 or more, not '0'"),
        (("-csmall.json", "-w", "-1"), "--world_size: expected 1 or more, not '-1'"),
        (("-csmall.json", "-w", "²"), "--world_size: expected 1 or more, not '²'"),
        (("-c", "nope"), "--config nope: no such file or directory"),
        (("-c", "."), "--config .: is a directory"),
        (("-c", "/dev/zero"), "--config /dev/zero: is a device, not a file"),
        (("-c", "empty.json"), "empty.json:1: column 1: not JSON: expecting value"),
        (("-c", "broken.json"), "broken.json:2: column 28: not JSON: expecting ':' delimiter"),
        (("-c", "latin.json"), "latin.json:3: not UTF-8"),
        (("-c", "twice.json"), "twice.json: key 'enabled' is repeated in an object"),
        (("-c", "deep.json"), "deep.json: nested too deeply"),
        (("-c", "other.json"), 'other.json: expected a block "elasticity": {...}'),
        (("-c", "none.json"), "none.json: elasticity: no number of whole nodes has min_gpus"),
        (
            ("-c", "small.json", "-w", "7"),
            "small.json: world size 7 is not in the elastic plan: min_gpus is 1, max_gpus is 4;"
            " nearest valid: 4\n",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(folder: Path, words: tuple[str, ...], line: str) -> None:
    done = run(folder, "dsrun-elastic", *words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith(f"dsrun: {line}")
    assert done.stderr.count("\n") == 1


# -- dsrun --elastic_config ---------------------------------------------------------------------


def test_a_job_of_a_valid_size_runs(folder: Path) -> None:
    done = run(folder, "dsrun", "--num_gpus=2", "--elastic_config=small.json", "x.py")
    assert (done.returncode, done.stdout.count("ran 2\n")) == (0, 2), done.stderr


@pytest.mark.parametrize("more", [(), ("--dry_run",)])
def test_a_size_that_does_not_fit_is_refused_before_any_host_is_reached(
    folder: Path, more: tuple[str, ...]
) -> None:
    words = ("-H", "hosts", "--elastic_config", "small.json", *more, "x.py")
    done = run(folder, "dsrun", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "dsrun: --elastic_config small.json: world size 7 is not in the elastic plan: min_gpus is"
        " 1, max_gpus is 4; nearest valid: 4\n"
    )


def test_a_size_that_the_nodes_tell_is_refused_before_the_start(folder: Path) -> None:
    five = {"DSRUN_ACCELERATOR": "cuda", "CUDA_VISIBLE_DEVICES": "0,1,2,3,4"}
    done = run(folder, "dsrun", "x.py", DSRUN_ELASTIC_CONFIG="small.json", **five)
    assert (done.returncode, done.stdout) == (69, "")
    assert own_lines(done.stderr) == [
        "dsrun: the job cannot start; nothing was left running:",
        "dsrun:   DSRUN_ELASTIC_CONFIG: world size 5 is not in the elastic plan: min_gpus is 1,"
        " max_gpus is 4; nearest valid: 4",
    ]


def test_a_node_by_hand_is_held_to_it_too(folder: Path) -> None:
    world = encode_world({"localhost": range(5)})
    words = (f"--world_info={world}", "--elastic_config", "small.json", "x.py")
    command = [sys.executable, "-m", "dsrun.launcher.launch", *words]
    imports = {**os.environ, **IMPORTABLE}
    done = subprocess.run(
        command, cwd=folder, env=imports, capture_output=True, text=True, check=False, timeout=HANG
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "small.json: world size 5 is not in the elastic plan" in done.stderr


def test_a_config_that_is_broken_is_told_at_once(folder: Path) -> None:
    done = run(folder, "dsrun", "--elastic_config", "broken.json", "x.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "dsrun: broken.json:2: column 28: not JSON: expecting ':' delimiter"
    )
    missing = run(folder, "dsrun", "--elastic_config", "nope", "x.py")
    assert missing.stderr == "dsrun: --elastic_config nope: no such file or directory\n"
