"""A job as one value: made without a command line, run, printed, and held against its plan."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.environment import ForwardedEnv
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec, new_job_id
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import (
    BindingPolicy,
    DebugPolicy,
    ElasticPolicy,
    OutputPolicy,
    Streams,
    SupervisionPolicy,
    WorkerPolicy,
)
from dsrun.launcher.specs.program import Program

from ..support.limits import HANG

IMPORTS = Path(__file__).resolve().parents[1] / "import"
PLAN = Plan(lay_out([Host("w0", (0, 1)), Host("w1", (0,))]), Program("x.py"), "ssh", None, None)
SPEC = JobSpec("j", PLAN, "/work")

BY_HAND = """
import sys
from dsrun.launcher.head.job.start import launch
from dsrun.launcher.specs.environment import ForwardedEnv
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec, new_job_id
from dsrun.launcher.specs.policies import OutputPolicy
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program

program = Program("x.py", ("7",), local_rank=False)
spec = JobSpec(
    job_id=new_job_id(),
    plan=Plan(lay_out([Host("localhost", (0, 1))]), program, "local", None, None),
    workdir={folder!r},
    travel=ForwardedEnv({{"A": "two words"}}),
    output=OutputPolicy(prefix="{{rank}}: ", level="error"),
)
code = launch(spec)
assert not [name for name in sys.modules if name.startswith("dsrun.launcher.cli")]
sys.exit(code)
"""


def test_a_program_runs_a_job_without_a_command_line(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(
        "import os, sys\nprint(os.environ['RANK'], os.environ['A'], sys.argv[1:], flush=True)\n"
        "sys.exit(3 if os.environ['RANK'] == '1' else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", BY_HAND.format(folder=str(tmp_path))],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(IMPORTS)},
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "1: 1 two words ['7']" in done.stdout
    assert "rank 1" in done.stderr


def test_it_is_printed_without_secrets() -> None:
    travel = ForwardedEnv({"HF_TOKEN": "hush", "A": "1"}, ("K_KEY",), frozenset({"HF_TOKEN"}))
    shown = repr(SPEC._replace(travel=travel))
    assert "hush" not in shown
    assert "'A': '1'" in shown
    assert "'HF_TOKEN': '***'" in shown


def test_it_is_frozen_and_two_of_the_same_are_equal() -> None:
    assert JobSpec("j", PLAN, "/work", backend=BackendSettings()) == SPEC
    with pytest.raises(AttributeError):
        SPEC.job_id = "k"  # type: ignore[misc]


def test_a_backend_keeps_to_the_policies() -> None:
    spec = SPEC._replace(
        supervision=SupervisionPolicy(connect_timeout=3.0, heartbeat_timeout=6.0),
        binding=BindingPolicy("core"),
        elastic=ElasticPolicy(1, 2, 0),
    )
    assert SPEC.settings == BackendSettings()
    assert spec.settings == BackendSettings(
        connect_timeout=3.0, keepalive=2.0, bind=True, elastic=True
    )


def test_ranks_to_be_debugged_that_are_not_there() -> None:
    spec = SPEC._replace(debug=DebugPolicy(frozenset({1, 7})))
    assert spec.misfit(PLAN, bare=False) == "--debug 7: the ranks of this job are 0 to 2"
    assert SPEC._replace(debug=DebugPolicy()).misfit(PLAN, bare=False) == ""


def test_ids_are_unlike(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(os, "urandom", lambda size: next(numbers).to_bytes(size, "big"))
    assert len({new_job_id() for _ in range(99)}) == 99


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (OutputPolicy(), ""),
        (OutputPolicy(console_ranks=frozenset({0, 2})), ""),
        (
            OutputPolicy(console_ranks=frozenset({7, 3})),
            "--console_ranks 3: the ranks of this job are 0 to 2",
        ),
        (
            OutputPolicy(local_ranks=frozenset({0, 2})),
            "--local_ranks_filter 2: the local ranks of this job are 0 to 1",
        ),
    ],
)
def test_ranks_to_be_shown_that_are_not_there(output: OutputPolicy, problem: str) -> None:
    spec = SPEC._replace(output=output)
    assert spec.misfit(PLAN, bare=False) == problem
    # Those of an elastic job may yet come, as may those of hosts whose slots are not known.
    assert spec._replace(elastic=ElasticPolicy(1, 2, 0)).misfit(PLAN, bare=False) == ""
    unknown = PLAN._replace(nodes=lay_out([Host("w0"), Host("w1")]))
    assert spec.misfit(unknown, bare=False) == ""


def test_accelerators_that_are_asked_for_by_name() -> None:
    spec = SPEC._replace(workers=WorkerPolicy(needs_devices="--nproc_per_node gpu"))
    assert spec.misfit(PLAN, bare=False) == ""
    assert spec.misfit(PLAN, bare=True) == (
        "--nproc_per_node gpu: the hosts have no accelerator; give a number of workers"
    )
    assert SPEC.misfit(PLAN, bare=True) == ""


def test_streams_by_torchruns_numbers() -> None:
    streams = Streams(2, ((0, 3), (1, 0)))
    assert [streams.of(rank) for rank in range(3)] == [{1, 2}, set(), {2}]
    assert (str(Streams()), str(streams)) == ("0", "2,0:3,1:0")
