"""The real `dsrun-topo`, here: this machine as a tree, and what binding its workers would get."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.common.cpu_list import kernels_list
from dsrun.launcher.features.binding.node_topology import numa_nodes, read_topology

from ...support import schemas
from ...support.checkout import BIN
from ...support.limits import HANG
from ...support.needs import need

TOPO = (sys.executable, str(BIN / "dsrun-topo"))
CPUS = os.sched_getaffinity(0)
NAME = os.uname().nodename
TWO_GPUS = {"DSRUN_ACCELERATOR": "cuda", "CUDA_VISIBLE_DEVICES": "0,1"}
"""Two devices by name, on whatever machine."""

OURS = ("DSRUN_", "DS_", "CUDA_", "OMP_", "SLURM_")


def run(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command without variables that have a say here, but these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return subprocess.run(
        argv, env={**kept, **environ}, capture_output=True, text=True, check=False, timeout=HANG
    )


def shown(*words: str, **environ: str) -> str:
    """What it prints, with a good end and nothing on stderr."""
    done = run(*TOPO, *words, **{"DSRUN_ACCELERATOR": "cpu", **environ})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def refused(*words: str, **environ: str) -> str:
    """The one line with which it refuses."""
    done = run(*TOPO, *words, **{"DSRUN_ACCELERATOR": "cpu", **environ})
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def table(text: str) -> list[dict[str, str]]:
    """The rows of its table, which are the indented lines at its end, by column."""
    head, *rows = [line.strip() for line in text.partition("bound by")[2].splitlines()[1:]]
    names = re.split(r" {2,}", head)
    split = [re.split(r" {2,}", row) for row in rows]
    return [dict(zip(names, row, strict=True)) for row in split if len(row) == len(names)]


def drawn(text: str) -> set[int]:
    """All cpus in the tree."""
    return {
        cpu for one in re.findall(r"cores?: cpus (\S+)$", text, re.M) for cpu in kernels_list(one)
    }


# What it shows


def test_the_machine_is_drawn_and_a_worker_for_each_numa_node() -> None:
    text, read = shown(), read_topology()
    assert text.startswith(f"{NAME}: ")
    summary = text.partition("\n")[0]
    assert f", {len(read.cores)} core" in summary
    assert summary.endswith("no accelerators") or "not to be used" in summary
    assert drawn(text) == CPUS
    rows = table(text)
    assert [row["rank"] for row in rows] == [str(rank) for rank in range(numa_nodes(read))]
    assert {cpu for row in rows for cpu in kernels_list(row["cpus"])} == CPUS
    assert f"\n\n{len(rows)} worker{'s' * (len(rows) > 1)}, bound by 'core':\n" in text


def test_so_many_workers_as_asked_for() -> None:
    rows = table(shown("--num_gpus", "3"))
    assert [(row["host"], row["rank"], row["device"]) for row in rows] == [
        (NAME, "0", "cpu"),
        (NAME, "1", "cpu"),
        (NAME, "2", "cpu"),
    ]
    assert all(kernels_list(row["cpus"]) <= CPUS for row in rows)


def test_too_many_workers_are_told() -> None:
    cores = len(read_topology().cores)
    text = shown("--num_gpus", str(2 * cores))
    assert len(table(text)) == 2 * cores
    assert re.search(rf"\n  {2 * cores} workers share {cores} cores?\n", text)


@pytest.mark.parametrize(
    ("words", "way"),
    [
        ((), "core"),
        (("--bind_cores_to_rank",), "core"),
        (("--bind_to", "numa"), "numa"),
        (("--numa_binding=node",), "numa"),
        (("--bind-to=socket",), "socket"),
        (("--numa_binding", "exclusive"), "exclusive"),
        (("--numa_binding", "core-complex"), "core-complex"),
        (("--bind_to", "none"), "none"),
    ],
)
def test_bound_by_the_way_asked_for(words: tuple[str, ...], way: str) -> None:
    text = shown("--num_gpus", "1", *words)
    assert f"\n1 worker, bound by '{way}':\n" in text
    assert ("cpus" in table(text)[0]) == (way != "none")


@pytest.mark.parametrize("form", ["{cpu}", "{name}:{cpu}"])
def test_only_the_listed_cpus(form: str) -> None:
    cpu = max(CPUS)
    text = shown("--num_gpus", "2", "--bind_core_list", form.format(cpu=cpu, name=NAME))
    assert [row["cpus"] for row in table(text)] == [str(cpu)] * 2
    # The machine is drawn whole all the same.
    assert drawn(text) == CPUS


def test_a_core_list_in_the_environment_counts_too() -> None:
    text = shown(DSRUN_BIND_CORE_LIST=f"{min(CPUS)}", DSRUN_NUM_GPUS="2")
    assert [row["cpus"] for row in table(text)] == [str(min(CPUS))] * 2


def test_a_narrowed_process_sees_its_part_and_that_there_is_more() -> None:
    need("taskset")
    cpu = min(CPUS)
    done = run("taskset", "-c", str(cpu), *TOPO, "--num_gpus", "2", DSRUN_ACCELERATOR="cpu")
    assert done.returncode == 0, done.stderr
    summary = done.stdout.partition("\n")[0]
    assert ", 1 NUMA node, 1 core, " in summary
    if hidden := (os.cpu_count() or 1) - 1:
        plural = "s" if hidden > 1 else ""
        assert summary.endswith(f", {hidden} cpu{plural} not available to dsrun")
    assert drawn(done.stdout) == {cpu}
    assert [row["cpus"] for row in table(done.stdout)] == [str(cpu)] * 2


def test_devices_are_drawn_and_have_a_worker_each() -> None:
    text = shown(**TWO_GPUS)
    assert ", NVIDIA GPUs: 2" in text.partition("\n")[0]
    for device in ("cuda 0", "cuda 1"):
        assert re.search(rf"─ {device}\b", text)
    assert [row["device"] for row in table(text)] == ["cuda 0", "cuda 1"]


def test_devices_are_in_the_order_of_the_mask() -> None:
    text = shown(**{**TWO_GPUS, "CUDA_VISIBLE_DEVICES": "5,3,1"}, DSRUN_NUM_GPUS="2")
    assert re.findall(r"─ (cuda \d)\b", text) == ["cuda 5", "cuda 3", "cuda 1"]
    assert [row["device"] for row in table(text)] == ["cuda 5", "cuda 3"]


# Help, and what is refused


@pytest.mark.parametrize("words", [("-h",), ("--help",), ("--num_gpus", "2", "-h")])
def test_help_is_all_that_is_printed(words: tuple[str, ...]) -> None:
    text = shown(*words)
    assert text.startswith("usage: dsrun-topo [options]\n")
    assert NAME not in text.split()
    assert len(text.splitlines()) < 25
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--bogus",), "--bogus: unknown option; see dsrun-topo --help"),
        (("--num_gpu", "2"), "(did you mean --num_gpus?)"),
        (("--num_gpus", "two"), "--num_gpus: expected 1 to 4096"),
        (("--num_gpus", "0"), "--num_gpus"),
        (("--bind_to", "hat"), "--bind_to: expected one of none, core, numa, socket, not 'hat'"),
        (("--bind_to", "numa", "--numa_binding", "socket"), "give one of them"),
        (("--bind_cores_to_rank", "--bind_to", "numa"), "give one of them"),
        (("--bind_to", "none", "--bind_smt", "no"), "--bind_smt no: has no effect without binding"),
        (("--bind_core_list", "99999"), "cpu 99999 may not be used here"),
        (("--bind_core_list", "0-"), "--bind_core_list: '0-': expected cpu numbers"),
        (("--bind_core_list", "elsewhere:0"), "expected cpus, or host:cpus for one of: "),
        (("--numa_binding", "exclusive", "--num_gpus", "4000"), "start fewer"),
        (("--accelerator", "abacus"), "no accelerator 'abacus' (known: cuda, "),
        (
            ("-H", "hosts"),
            "-H: dsrun-topo shows this machine; for others write dsrun -H ... --num_gpu",
        ),
        (("--host=n1",), "--host: dsrun-topo shows this machine"),
        (("train.py",), "dsrun-topo: unexpected argument 'train.py'"),
        (("--num_gpus", "2", "./train.py", "--lr", "1"), "unexpected argument './train.py'"),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], text: str) -> None:
    assert text in refused(*words)


def test_more_workers_than_devices_are_refused() -> None:
    line = refused("--num_gpus", "3", **TWO_GPUS)
    assert "no slot 2 (visible: slots 0-1), limited by CUDA_VISIBLE_DEVICES=0,1" in line


def test_an_output_that_is_full_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(TOPO, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (74, 1)
    assert "no space left on device" in done.stderr


# Start-up


@pytest.mark.parametrize("words", [(), ("-h",)])
def test_nothing_heavy_is_loaded_without_devices(words: tuple[str, ...]) -> None:
    python, topo = TOPO
    done = run(python, "-X", "importtime", topo, *words, DSRUN_ACCELERATOR="cpu")
    assert done.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "dsrun.launcher.features.binding.command" in loaded
    assert ("dsrun.launcher.features.binding.command_plan" in loaded) == (not words)
    heavy = {"torch", "paramiko", "rich", "psutil", "pynvml", "ssl", "asyncio", "cryptography"}
    assert not loaded & heavy


def test_json_says_the_same_as_the_table() -> None:
    value = json.loads(shown("--json", "--num_gpus", "2", **TWO_GPUS))
    assert schemas.faults("topo", value) == []
    assert {cpu for core in value["cores"] for cpu in core["cpus"]} == CPUS
    rows = table(shown("--num_gpus", "2", **TWO_GPUS))
    assert [row["cpus"] for row in rows] == [one["cpus"] for one in value["workers"]]
    assert [one["device"] for one in value["workers"]] == ["0", "1"]
