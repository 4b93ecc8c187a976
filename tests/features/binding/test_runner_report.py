"""--report_bindings: the table and its JSON, and that they say what the workers themselves see."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import pytest

from dsrun.launcher.common.cpu_list import format_cpus
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.messages import NodeBindings, WorkerBinding
from dsrun.launcher.features.binding import runner_report as bindings
from dsrun.launcher.features.binding.node_topology import numa_nodes, read_topology

from ...support.bindings import numactl
from ...support.checkout import BIN, IMPORTABLE
from ...support.limits import HANG
from ...support.needs import need
from ...support.reports import report as report_of

if TYPE_CHECKING:
    from dsrun.launcher.head.report.json_types import Binding

__all__ = ["numactl"]


LOCAL = ("--launcher", "local", "--no_local_rank")
CPUS = os.sched_getaffinity(0)
BOTH = min(2, len(read_topology().cores))
"""Workers that can have a core each."""


def gpu(rank: int, **more: Any) -> WorkerBinding:
    """A worker as it comes over the line."""
    return WorkerBinding(
        rank, 100 + rank, **{"device": f"{rank}", "address": "", "node": None, **more}
    )


def over_the_line(bound: NodeBindings) -> NodeBindings:
    """What the runner has of a node's message."""
    ((kind, body),) = frames.Decoder().feed(messages.pack(frames.BINDINGS, bound))
    assert kind == frames.BINDINGS
    return messages.unpack(NodeBindings, body)


def fields(bound: NodeBindings) -> list[Binding]:
    """What the report of a job on one host says of it."""
    return bindings.fields(report_of(bound=(("n1", bound),)))["bindings"]


FULL = NodeBindings(
    "cuda",
    (
        gpu(0, address="0000:17:00.0", node=0, cpus="0-3", memory="bind:0", nic="mlx5_0"),
        gpu(1, address="0000:ca:00.0", node=1, cpus="4-7", memory="0-1"),
    ),
)


def test_the_table_has_a_line_for_each_worker() -> None:
    assert bindings.table([("n1", FULL)]).splitlines() == [
        "bindings, as reported by each node's kernel:",
        "  host  rank  device  PCI address   its node  cpus  memory  NIC",
        "  n1    0     cuda 0  0000:17:00.0  0         0-3   bind:0  mlx5_0",
        "  n1    1     cuda 1  0000:ca:00.0  1         4-7   0-1     -",
    ]


def test_columns_that_say_nothing_are_left_out() -> None:
    bare = NodeBindings("cpu", (gpu(9, device="", cpus="0"), gpu(10, device="")))
    assert bindings.table([("worker-1", bare)], "plan:").splitlines() == [
        "plan:",
        "  host      rank  device  cpus",
        "  worker-1  9     cpu     0",
        "  worker-1  10    cpu     -",
    ]


def test_every_host_has_its_own_kind_of_device() -> None:
    seen = [
        ("n1", NodeBindings("cpu", (gpu(0, device=""),))),
        ("n2", NodeBindings("cuda", (gpu(1, device="7"),))),
    ]
    assert bindings.table(seen).splitlines()[2:] == ["  n1    0     cpu", "  n2    1     cuda 7"]


def test_nodes_without_workers_are_a_bare_head() -> None:
    assert (
        bindings.table([("n1", NodeBindings("cpu", ()))], "none:") == "none:\n  host  rank  device"
    )
    assert fields(NodeBindings("cpu", ())) == []


def test_the_json_has_all_of_it() -> None:
    first, second = fields(FULL)
    assert first == {
        "host": "n1",
        "accelerator": "cuda",
        "rank": 0,
        "pid": 100,
        "device": "0",
        "address": "0000:17:00.0",
        "node": 0,
        "cpus": "0-3",
        "memory": "bind:0",
        "nic": "mlx5_0",
    }
    assert second.keys() == first.keys()


def test_it_comes_over_the_line_whole() -> None:
    came = over_the_line(FULL)
    assert came.workers == FULL.workers
    assert bindings.table([("n1", came)]) == bindings.table([("n1", FULL)])
    assert fields(came) == fields(FULL)


ROW = [0, 7, "", "", None, "0", "0", ""]


@pytest.mark.parametrize(
    "row",
    [
        ROW[:-1],
        [*ROW, ""],
        "0,7,,,,0,0,"[:8],
        ["0", *ROW[1:]],
        [*ROW[:2], 0, *ROW[3:]],
        [*ROW[:4], "0", *ROW[5:]],
        [*ROW[:5], None, *ROW[6:]],
        [*ROW[:7], ["mlx5_0"]],
    ],
)
def test_a_row_of_another_shape_is_no_message(row: object) -> None:
    body = json.dumps({"accelerator": "cpu", "workers": [ROW, row]}).encode()
    with pytest.raises(frames.BadFrame, match="workers"):
        messages.unpack(NodeBindings, body)


# The real thing

SEE = """
import json, os, sys, time
from pathlib import Path
status = Path("/proc/self/status").read_text().splitlines()
seen = {
    "rank": int(os.environ["RANK"]),
    "pid": os.getpid(),
    "cpus": sorted(os.sched_getaffinity(0)),
    "memory": next(line.split()[1] for line in status if line.startswith("Mems_allowed_list")),
    "mask": os.environ.get("CUDA_VISIBLE_DEVICES"),
}
with open(f"seen-{seen['rank']}", "w") as file:
    json.dump(seen, file)
late = time.monotonic() + LATE
while "TITLE" not in Path("errors").read_text():
    if time.monotonic() > late:
        sys.exit("no table came")
    time.sleep(0.01)
sys.exit(int(os.environ.get("END", "0")))
""".replace("TITLE", bindings.TITLE).replace("LATE", f"{HANG}")
"""A worker's program: it ends when the table is there, as nothing is known of one that ended."""


class Outcome(NamedTuple):
    """How a job ended, and what of its bindings was told, in the order of the ranks.

    Attributes:
        table: the rows that were printed, by column.
        written: those in the JSON.
        seen: what each worker has seen of itself.
    """

    code: int
    errors: str
    table: list[dict[str, str]]
    written: list[dict[str, Any]]
    seen: list[dict[str, Any]]


def run(
    command: str, folder: Path, *words: str, stderr: int | IO[str] = subprocess.PIPE, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours in this folder, without variables that have a say."""
    ours = ("DSRUN_", "DS_", "CUDA_", "OMP_", "SLURM_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [sys.executable, str(BIN / command), *words], cwd=folder, text=True, timeout=2 * HANG,
        env={**kept, "DSRUN_ACCELERATOR": "cpu", **environ}, check=False,
        stdout=subprocess.PIPE, stderr=stderr,
    )  # fmt: skip


def report(folder: Path, *words: str, workers: int = BOTH, **environ: str) -> Outcome:
    """Run a job with --report_bindings: by default of workers that tell what they see."""
    (folder / "see.py").write_text(SEE)
    options = (*LOCAL, "--num_gpus", f"{workers}", "--report_bindings", "--report_file", "F")
    program = () if "--no_python" in words else ("see.py",)
    with (folder / "errors").open("w") as errors:
        done = run("dsrun", folder, *options, *words, *program, stderr=errors, **environ)
    told = (folder / "errors").read_text()
    seen = sorted(folder.glob("seen-*"))
    return Outcome(
        done.returncode,
        told,
        rows(told),
        json.loads((folder / "F").read_text()).get("bindings", []),
        [json.loads(path.read_text()) for path in seen],
    )


def rows(text: str) -> list[dict[str, str]]:
    """The rows of a table, by column: those below its head with as many columns."""
    lines = [re.split(r" {2,}", line.removeprefix("dsrun:").strip()) for line in text.splitlines()]
    heads = [at for at, line in enumerate(lines) if line[:3] == ["host", "rank", "device"]]
    if not heads:
        return []
    head = lines[heads[0]]
    return [
        dict(zip(head, line, strict=True))
        for line in lines[heads[0] + 1 :]
        if len(line) == len(head)
    ]


def agree(outcome: Outcome) -> None:
    """Table, JSON and workers say the same."""
    seen = [(one["rank"], format_cpus(one["cpus"]), one["memory"]) for one in outcome.seen]
    assert seen
    shown = [(int(row["rank"]), row["cpus"], row["memory"]) for row in outcome.table]
    assert shown == seen, outcome.errors
    assert [(row["rank"], row["cpus"], row["memory"]) for row in outcome.written] == seen
    assert [row["pid"] for row in outcome.written] == [one["pid"] for one in outcome.seen]
    assert {(row["host"], row["accelerator"], row["device"]) for row in outcome.written} == {
        ("localhost", "cpu", "")
    }


WAYS: list[tuple[str, ...]] = [
    ("--bind_to", "core"),
    ("--bind_cores_to_rank", "--bind_smt", "no"),
    ("--bind_to", "numa"),
    ("--bind_to", "socket"),
    ("--numa_binding", "exclusive"),
    ("--numa_binding", "core-complex"),
    ("--bind_core_list", f"{max(CPUS)}"),
    ("--bind_to", "none"),
    (),
]


@pytest.mark.parametrize("words", WAYS, ids=" ".join)
def test_the_report_says_what_the_workers_see(tmp_path: Path, words: tuple[str, ...]) -> None:
    outcome = report(tmp_path, *words)
    assert outcome.code == 0, outcome.errors
    assert len(outcome.seen) == BOTH
    agree(outcome)
    if words and words[-1] != "none":
        planned = rows(run("dsrun-topo", tmp_path, "--num_gpus", f"{BOTH}", *words).stdout)
        assert [row["cpus"] for row in planned] == [row["cpus"] for row in outcome.table]


def test_without_smt_each_core_has_its_first_thread(tmp_path: Path) -> None:
    outcome = report(tmp_path, "--bind_to", "core", "--bind_smt", "no")
    bound = {cpu for one in outcome.seen for cpu in one["cpus"]}
    assert bound == {core.cpus[0] for core in read_topology().cores}


def test_devices_are_told_by_the_names_of_the_mask(tmp_path: Path) -> None:
    gpus = {"DSRUN_ACCELERATOR": "cuda", "CUDA_VISIBLE_DEVICES": "5,3"}
    outcome = report(tmp_path, "--bind_to", "core", workers=2, **gpus)
    assert outcome.code == 0, outcome.errors
    assert [row["device"] for row in outcome.table] == ["cuda 5", "cuda 3"]
    assert [(row["accelerator"], row["device"]) for row in outcome.written] == [
        ("cuda", "5"),
        ("cuda", "3"),
    ]
    assert [one["mask"] for one in outcome.seen] == ["5,3"] * 2
    # With one node there is nothing to know.
    unknown = "the NUMA nodes of the devices are not known"
    assert (unknown in outcome.errors) == (numa_nodes(read_topology()) > 1)


@pytest.fixture
def patient(tmp_path: Path) -> dict[str, Any]:
    """Variables with which a node waits for workers' own programs for as long as they take."""
    folder = tmp_path / "patient"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(  # the node is a fork of what reads it
        "from dsrun.launcher.features.binding import node_observed_affinity as observed_affinity\n"
        f"observed_affinity.PATIENCE = {HANG}\n"
    )
    return {"PYTHONPATH": f"{folder}:{IMPORTABLE['PYTHONPATH']}"}


def test_the_report_waits_for_the_workers_own_program(
    tmp_path: Path, numactl: str, patient: dict[str, Any]
) -> None:
    """Until then, each has what dsrun gave it."""
    need("taskset")
    cpu = max(CPUS)
    words = f"sleep 0.2; taskset -cp {cpu} $$ >&2; exec {sys.executable} see.py"
    outcome = report(tmp_path, "--bind_to", "core", "--no_python", numactl, "-c", words, **patient)
    assert outcome.code == 0, outcome.errors
    assert [one["cpus"] for one in outcome.seen] == [[cpu]] * BOTH
    agree(outcome)


def test_the_report_tells_the_real_numactls_memory(tmp_path: Path, patient: dict[str, Any]) -> None:
    need("numactl")
    node = str(min(read_topology().memory_nodes))
    probe = subprocess.run(["numactl", "-m", node, "true"], capture_output=True, check=False)
    if b"not permitted" in probe.stderr:
        pytest.skip("set_mempolicy(2) is forbidden here, as in a container without CAP_SYS_NICE")
    cpu = max(CPUS)
    words = ("--no_python", "numactl", "-m", node, "-C", f"{cpu}", "--", sys.executable, "see.py")
    outcome = report(tmp_path, *words, **patient)
    assert outcome.code == 0, outcome.errors
    assert [(row["cpus"], row["memory"]) for row in outcome.table] == [
        (f"{cpu}", f"bind:{node}")
    ] * BOTH
    assert [row["memory"] for row in outcome.written] == [f"bind:{node}"] * BOTH


def test_workers_that_end_at_once_are_listed(tmp_path: Path) -> None:
    outcome = report(tmp_path, "--bind_to", "core", "--no_python", "true")
    assert outcome.code == 0, outcome.errors
    assert [row["rank"] for row in outcome.table] == [str(rank) for rank in range(BOTH)]
    assert [row["rank"] for row in outcome.written] == list(range(BOTH))
    assert all(row["pid"] > 1 for row in outcome.written)


def test_a_job_that_fails_has_its_bindings_too(tmp_path: Path) -> None:
    outcome = report(tmp_path, "--bind_to", "core", END="3", workers=1)
    assert outcome.code == 3
    agree(outcome)
    assert outcome.errors.index("dsrun: bindings, as") < outcome.errors.index("dsrun: rank 0 (")


def test_a_program_that_cannot_be_executed_has_none(tmp_path: Path) -> None:
    program = tmp_path / "no-program"
    program.write_bytes(b"\x7fELF".ljust(64, b"\0"))  # of a machine that there is not
    program.chmod(0o700)
    outcome = report(tmp_path, "--bind_to", "core", "--no_python", "./no-program")
    assert (outcome.code, outcome.table, outcome.written) == (126, [], [])
    assert "Traceback" not in outcome.errors
    assert "not started" in outcome.errors


def test_nothing_is_told_unless_asked_for(tmp_path: Path) -> None:
    words = (*LOCAL, "--num_gpus", "1", "--bind_to", "core", "--report_file", "F", "--no_python")
    done = run("dsrun", tmp_path, *words, "true")
    assert done.returncode == 0
    assert "bindings" not in done.stderr
    assert "bindings" not in json.loads((tmp_path / "F").read_text())
