"""Each part through the real commands, on a made-up GPU: all pass, and each fails for a fault."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from ..support.limits import HANG, wait_for
from . import parts
from .__main__ import LOOK
from .checks import Outcome, check
from .desk import LAST, NotSeen, OverLimit
from .made_up_gpu import MadeUpGpu
from .parts import PARTS, WHOLE, gathered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .checks import Check

PATIENCE = "5"
"""Times the limits of a machine with a GPU: this one may be busy with other tests."""

made_up = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files up")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> MadeUpGpu:
    return MadeUpGpu(tmp_path_factory.mktemp("machine"))


def tried(
    machine: MadeUpGpu, folder: Path, *names: str, fault: str = ""
) -> tuple[int, dict[str, Any]]:
    """Return the exit code, and what was written of each part by its name."""
    options = ("--report", folder, "--patience", PATIENCE)
    ran = machine.run("-m", "tests.gpu", *options, *names, fault=fault)
    assert "Traceback" not in ran.stderr, ran.stderr
    written = json.loads((folder / "report.json").read_text())
    text = (folder / "report.txt").read_text()
    assert text.splitlines()[-1] in ran.stdout
    return ran.returncode, {one["name"]: one for one in written["parts"]}


def unpassed(part: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the checks of a part that have not passed."""
    rows = ((one["outcome"], one["what"], one["seen"]) for one in part["checks"])
    return [row for row in rows if row[0] != "passed"]


@made_up
@pytest.mark.tier("ci")
def test_all_parts_pass_on_a_good_machine(machine: MadeUpGpu, tmp_path: Path) -> None:
    code, known = tried(machine, tmp_path)
    assert [*known] == ["torch", *(one.name for one in PARTS)]
    wrong = {name: unpassed(one) for name, one in known.items() if one["outcome"] != "passed"}
    assert wrong == {}
    assert code == 0
    assert all(one["commands"] for one in known.values())


FAULTS = {
    "detection": ("count", "counts the devices"),
    "names": ("name", "agree on the name"),
    "masks": ("mask", "the job fails"),
    "numbers": ("idle", "is busy"),
    "binding": ("place", "where the device is"),
    "nccl": ("broadcast", "right values"),
    "flight recorder": ("recorder", "has an all_reduce"),
    "preload": ("thread", "was preloaded"),
    "hang": ("stuck", "can use the device"),
    "memory": ("endless", "the job fails"),
    "illegal access": ("silent", "the job fails"),
    "device assert": ("silent", "the job fails"),
    "shared device": ("shared", "the job fails"),
    "leftover": ("endless", "the job fails"),
}
"""What is wrong with the stand-ins (`stand_ins/`), and a check of the part that fails for it."""


@made_up
@pytest.mark.tier("ci")
@pytest.mark.parametrize("name", FAULTS)
def test_a_part_fails_for_a_fault(name: str, machine: MadeUpGpu, tmp_path: Path) -> None:
    fault, words = FAULTS[name]
    code, known = tried(machine, tmp_path, name, fault=fault)
    assert (code, known["torch"]["outcome"], known[name]["outcome"]) == (1, "passed", "failed")
    wrong = unpassed(known[name])
    assert any(kind == "failed" and words in what for kind, what, _ in wrong), wrong


def test_every_part_is_shown_to_fail() -> None:
    assert [*FAULTS] == [one.name for one in PARTS]


@made_up
@pytest.mark.tier("ci")
def test_what_is_not_installed_is_named(tmp_path: Path) -> None:
    """As on a machine with torch, and little else."""
    bare = MadeUpGpu(tmp_path, without={"pynvml", "rich", "py_spy"})
    code, known = tried(bare, tmp_path / "new" / "report", "names", "numbers", "flight recorder")
    assert code == 0
    assert known["numbers"]["outcome"] == "skipped"
    ((_, _, why),) = unpassed(known["numbers"])
    assert "No module named 'pynvml'" in why
    assert "No module named 'pynvml'" in unpassed(known["names"])[0][2]
    assert {one["outcome"] for one in known["flight recorder"]["checks"]} <= {"passed", "skipped"}
    written = json.loads((tmp_path / "new" / "report" / "report.json").read_text())
    assert {"pynvml", "rich", "paramiko", "py_spy"} <= {
        *written["surroundings"]["not installed"].split()
    }


@made_up
@pytest.mark.tier("ci")
def test_a_sandbox_that_hides_the_driver_hides_little(tmp_path: Path) -> None:
    """dsrun-check knows by NVML alone what the device is, and who uses it."""
    code, known = tried(
        MadeUpGpu(tmp_path, hidden=True), tmp_path / "report", "names", "binding", "leftover"
    )
    assert code == 0
    counts = {name: len(unpassed(one)) for name, one in known.items()}
    assert counts == {"torch": 0, "names": 1, "binding": 2, "leftover": 0}
    assert "/proc/driver/nvidia/gpus is missing" in unpassed(known["names"])[0][2]


@made_up
def test_a_device_that_torch_cannot_use_fails_and_the_rest_is_skipped(
    machine: MadeUpGpu, tmp_path: Path
) -> None:
    code, known = tried(machine, tmp_path, fault="driver")
    assert code == 1
    assert known.pop("torch")["outcome"] == "failed"
    assert {one["outcome"] for one in known.values()} == {"skipped"}
    assert "Found no NVIDIA driver" in (tmp_path / "report.txt").read_text()


@made_up
def test_what_is_interrupted_leaves_its_report_and_nothing_else(
    machine: MadeUpGpu, tmp_path: Path
) -> None:
    options = ("--report", tmp_path, "--patience", PATIENCE)
    with machine.start("-m", "tests.gpu", *options, "numbers") as started:
        wait_for(machine.users, "a worker that uses the GPU")
        started.terminate()
        started.communicate(timeout=HANG)
    assert started.returncode == 128 + signal.SIGTERM
    wait_for(lambda: not machine.users(), "the end of the worker")
    (torch,) = json.loads((tmp_path / "report.json").read_text())["parts"]
    assert (torch["name"], torch["outcome"]) == ("torch", "passed")


def test_all_parts_fit_into_the_time_together() -> None:
    assert LOOK + sum(one.seconds for one in PARTS) <= WHOLE + LAST <= 8 * 60


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OverLimit("x did not end"), "x did not end"),
        (NotSeen("x ended without y"), "x ended without y"),
        (KeyError("devices"), "KeyError: 'devices'"),
    ],
)
def test_what_goes_wrong_in_a_part_is_a_failed_check_of_it(error: Exception, words: str) -> None:
    def some() -> Iterator[Check]:
        yield check("before", True)
        raise error

    first, last = gathered(some())
    assert (first.outcome, last.outcome) == (Outcome.PASSED, Outcome.FAILED)
    assert words in last.seen


def test_cpus_near_a_device_that_the_kernel_does_not_know() -> None:
    assert parts._cpus_near("") is None
    assert parts._cpus_near("ffff:ff:1f.7") is None
