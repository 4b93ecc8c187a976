"""From a command to a `JobSpec`: every policy, and what is refused before anything starts."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.planning import rendezvous
from dsrun.launcher.planning.job import plan_job
from dsrun.launcher.specs.backend import DialIn
from dsrun.launcher.specs.host_updates import HostFilter, HostUpdates
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Origin
from dsrun.launcher.specs.policies import (
    BindingPolicy,
    CheckPolicy,
    OutputPolicy,
    Streams,
    SupervisionPolicy,
    WorkerPolicy,
)

if TYPE_CHECKING:
    from pathlib import Path

REPORT = '{"format": 1, "job_id": "j", "exit_code": 0}'

REMOTE = ("--host", "w0:2,w1:2", "--launcher", "openssh")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, with a script and a hostfile."""
    (tmp_path / "x.py").touch()
    (tmp_path / "hosts").write_text("w0 slots=2\nw1 slots=2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    return tmp_path


def spec(*words: str) -> JobSpec:
    return plan_job(rendezvous.apply(parse([*words, "x.py"], {})))


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        spec(*words)
    return str(caught.value)


def test_without_options_policies_are_what_a_program_gets(folder: Path) -> None:
    made = spec("--num_gpus", "2")
    assert made.workdir == str(folder)
    assert made.workers == WorkerPolicy(expects_devices=True)
    assert made.binding == BindingPolicy()
    assert made.supervision == SupervisionPolicy()
    assert made.output == OutputPolicy()
    assert (made.elastic, made.updates, made.batches, made.only) == (None, None, None, None)
    assert made.dial_in == DialIn(first="localhost")
    assert made.backend.python == sys.executable
    assert made.origin == Origin(
        "this machine (no hostfile)", "local (only this machine)", (), quiet=True
    )


@pytest.mark.parametrize(
    ("before", "restarts", "goes_to"),
    [
        ("r.json", None, "r.json"),
        ("r.json", "0", "r.json"),
        ("r.json", "1", "r.restart1.json"),
        ("r.html", "12", "r.restart12.html"),
        ("report", "2", "report.restart2"),
        ("", "1", "r.json"),
    ],
)
def test_a_requeued_attempt_leaves_the_report_of_the_one_before_alone(
    before: str,
    restarts: str | None,
    goes_to: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = before or "r.json"
    (folder / named).write_text(REPORT if before else "")
    if restarts is not None:
        monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    made = spec("--num_gpus", "2", "--report_file", named)
    assert made.output.report_file == goes_to
    note = f"the report goes to {goes_to}: {named} is from an attempt before the requeue"
    assert made.origin.notes == ((note,) if goes_to != named else ())


@pytest.mark.parametrize("stream", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_requeued_attempt_reports_to_a_stream_as_before(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert spec("--num_gpus", "2", "--report_file", stream).output.report_file == stream


def test_every_option_finds_its_policy(folder: Path) -> None:
    words = (
        *("--venv_script", "x.py", "--role", "r", "--rdzv_id", "id", "--virtual_local_rank"),
        *("--bind_core_list", "w0:0-3@w1:4-7", "--bind_smt", "no", "--log_dir", "l", "--tee", "3"),
        *("--redirects", "0:1", "--console_ranks", "0-2", "--quiet", "--grace", "5"),
        *("--control_port", "7", "--token_file", "t", "--ssh_port", "22", "--launcher_args", "-v"),
        *("--force_multi", "--accept_new_host_keys", "--export", "A=1", "--shard_queue"),
        *("--preload", "torch,re", "--strict", "--health_command", "true"),
    )
    made = spec(*REMOTE, *words)
    assert made.workers == WorkerPolicy(
        str(folder / "x.py"), "r", "id", True, True, ("torch", "re")
    )
    assert made.binding == BindingPolicy("core", smt=False)
    assert made.core_lists == (("w0", "0-3"), ("w1", "4-7"))
    assert made.output == OutputPolicy(
        redirects=Streams(0, ((0, 1),)),
        tee=Streams(3),
        console_ranks=frozenset({0, 1, 2}),
        log_dir="l",
        level="error",
    )
    assert made.supervision == SupervisionPolicy(grace=5.0)
    assert made.checks == CheckPolicy(strict=True, health_command="true")
    assert made.dial_in == DialIn(7, "w0", 0, "t")
    assert made.backend[2:] == (("-v",), 22, 10.0, 5.0, True, "", True, False, False, True, None)
    assert made.settings == made.backend
    assert made.travel.values["A"] == "1"
    assert not made.origin.quiet


def test_an_elastic_job_says_where_further_hosts_come_from() -> None:
    made = spec("-H", "hosts", "--watch_hostfile", "--elastic_training", "--exclude", "w1:1")
    assert made.elastic is not None
    assert (made.elastic.least, made.elastic.restarts) == (1, 100)
    assert made.updates == HostUpdates(hostfile="hosts", hosts=HostFilter(exclude="w1:1"))
    assert made.backend.elastic
    assert made.settings == made.backend


def test_notices_are_a_part_of_the_elastic_policy() -> None:
    made = spec(*REMOTE, "--elastic_training", "--change_notice", "sigusr1")
    assert made.elastic is not None
    assert (made.elastic.notice_by, made.elastic.notice) == ("SIGUSR1", 30.0)


def test_it_is_a_value_without_anything_that_runs() -> None:
    """No callables, no open files: it can be kept, compared and handed to another process."""
    made = spec(*REMOTE, "--elastic_training", "--bind_to", "numa")
    assert pickle.loads(pickle.dumps(made)) == made
    assert "Options" not in repr(made)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--console_ranks", "9"), "--console_ranks 9: the ranks of this job are 0 to 3"),
        (("--local_ranks_filter", "2"), "--local_ranks_filter 2: the local ranks of this job are"),
        (("--report_file", "/nowhere/r"), "--report_file /nowhere/r: no folder /nowhere"),
        (("--requeue_on", "75"), "--requeue_on: only inside a Slurm job"),
        (("--signals_to_handle", "SIGTERM,SIGNO"), "--signals_to_handle: 'SIGNO': no such signal"),
        (("--rank_per_task",), "--rank_per_task: --launcher openssh cannot start ranks"),
        (("--launcher_args", "'"), '--launcher_args "\'": No closing quotation'),
        (("--bind_core_list", "w9:0"), "--bind_core_list: 'w9:0'"),
        (("--warm_workers",), "--warm_workers: only in an elastic job"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], problem: str) -> None:
    assert refused(*REMOTE, *words).startswith(problem)


def test_torchs_rendezvous_decides_on_rounds_itself() -> None:
    made = spec("--rdzv_backend", "c10d", "--nproc_per_node", "2", "--logs_specs", "mine")
    assert made.plan.rendezvous is not None
    assert made.elastic is None


def test_an_entry_point_that_names_log_files_is_given_what_torchrun_gives_it() -> None:
    words = ("--logs_specs", "mine", "--log_dir", "l", "--redirects", "3", "--tee", "0:1")
    made = spec(*REMOTE, *words, "--local_ranks_filter", "1")
    assert made.output.logs_specs == ("mine", "l", "3", "0:1", "1")
    assert (made.output.log_dir, made.output.log_private) == ("", False)


def test_nodes_that_run_the_same_command_are_told_where_node_0_is() -> None:
    words = ("--no_ssh", "--nnodes", "2", "--master_addr", "10.0.0.1", "--local_addr", "10.0.0.2")
    made = spec(*words, "--node_rank", "0", "--num_gpus", "1")
    assert (made.dial_in.first, made.plan.master_addr) == ("10.0.0.1", "10.0.0.2")
    assert made.dial_in.known_port(made.plan.master_port) == 29501


def test_a_host_to_which_others_may_come_is_one_of_several(folder: Path) -> None:
    """So the workers' folder is first on PYTHONPATH from the beginning."""
    (folder / "hosts").write_text("w0 slots=1\n")
    elastic = ("-H", "hosts", "--elastic_training")
    assert spec(*elastic, "--watch_hostfile").plan.program.folder_first
    assert not spec(*elastic).plan.program.folder_first
