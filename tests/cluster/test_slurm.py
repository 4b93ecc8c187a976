"""Jobs in a real Slurm: the allocation is found, filtered and used, and its signals are heard."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from . import tell
from .command import CHECKOUT, COMMAND
from .jobs import HEAD, PATIENT, parent
from .scripts import lines_by_rank
from .tell import told
from .test_program import HOSTILE

if TYPE_CHECKING:
    from .slurm import Ended, Slurm

DSRUN = shlex.join(COMMAND)
HOLD = shlex.join([COMMAND[0], str(CHECKOUT / "bin" / "dsrun-hold")])
SRUN = shutil.which("srun")
WORDS = """
import sys
sys.stdout.buffer.write(bytes(range(256)) + b"a" * 10_000_000 + b"\\nafter\\n")
for number in range(10_000):
    print(f"<{number}>")
"""
PLACE = """
import os
print("at", *(os.environ.get(n) for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK")),
      *(os.environ.get(n) for n in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")))
"""
OTHER_STEP = """
srun --nodes=2 bash -c 'touch up-$SLURM_PROCID; exec sleep 1200' &
until [ -e up-0 -a -e up-1 ]; do sleep 0.1; done
"""


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A script that prints its place in the job, and what Slurm's variables make of it."""
    (tmp_path / "place.py").write_text(PLACE)
    return str(tmp_path / "place.py")


def batch(slurm: Slurm, folder: Path, script: str, *options: str) -> Ended:
    """What has become of a batch script, which runs in this folder."""
    return slurm.wait(slurm.sbatch(script, f"--chdir={folder}", *options))


def places(output: str) -> list[tuple[str, str]]:
    """(host, what was printed) of each worker, in the order of ranks."""
    found = re.findall(r"(?m)^(\w+):(\d+)\| at (.*)$", output)
    return [(host, at) for host, rank, at in sorted(found, key=lambda one: int(one[1]))]


def expected(*workers: tuple[str, int, int]) -> list[tuple[str, str]]:
    """The same for (host, local rank, node rank) of each rank."""
    size = len(workers)
    return [
        (host, f"{rank} {local} {size} {node} {rank} {local} {size}")
        for rank, (host, local, node) in enumerate(workers)
    ]


@pytest.mark.tier("test")
def test_a_batch_script_needs_no_hostfile_and_no_ssh(
    slurm: Slurm, tmp_path: Path, place: str
) -> None:
    ended = batch(slurm, tmp_path, f"{DSRUN} {place}", "--nodes=3", "--gpus-per-node=2")
    assert ended.code == 0, ended.output
    assert places(ended.output) == expected(
        *((host, local, node) for node, host in enumerate(("n1", "n2", "n3")) for local in (0, 1))
    )
    assert "3 nodes from Slurm job " in ended.output


def test_localhost_is_the_one_node_that_a_script_runs_on(
    slurm: Slurm, tmp_path: Path, place: str
) -> None:
    """As the lines of DeepSpeed's users have it."""
    script = f"{DSRUN} --hostfile '' --include localhost:0,1 {place}"
    ended = batch(slurm, tmp_path, script, "--nodes=1", "--gpus-per-node=2")
    assert ended.code == 0, ended.output
    assert places(ended.output) == expected(("n1", 0, 0), ("n1", 1, 0))


def test_filters_choose_among_the_allocation(slurm: Slurm, tmp_path: Path, place: str) -> None:
    script = f"{DSRUN} --exclude n2@n3:0 {place}"
    ended = batch(slurm, tmp_path, script, "--nodes=4", "--gpus-per-node=2")
    some = (("n1", 0, 0), ("n1", 1, 0), ("n3", 0, 1), ("n4", 0, 2), ("n4", 1, 2))
    assert places(ended.output) == expected(*some)


def test_each_node_counts_the_gpus_that_slurm_gave_it(
    slurm: Slurm, tmp_path: Path, place: str
) -> None:
    script = f"DSRUN_ACCELERATOR=cuda {DSRUN} {place}"
    ended = batch(slurm, tmp_path, script, "--nodes=4", "--gpus=10", "--exclusive")
    hosts = [host for host, _ in places(ended.output)]
    assert hosts == ["n1"] * 2 + ["n2"] * 2 + ["n3"] * 2 + ["n4"] * 4, ended.output


def test_gpus_by_the_task_are_all_the_node_launchers(
    slurm: Slurm, tmp_path: Path, place: str
) -> None:
    script = f"DSRUN_ACCELERATOR=cuda {DSRUN} {place}"
    options = ("--nodelist=n1,n2", "--ntasks-per-node=2", "--gpus-per-task=1")
    ended = batch(slurm, tmp_path, script, *options)
    assert [host for host, _ in places(ended.output)] == ["n1", "n1", "n2", "n2"], ended.output


def test_a_heterogeneous_job_is_one_job(slurm: Slurm, tmp_path: Path, place: str) -> None:
    parts = "#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=2 --ntasks-per-node=2\n"
    ended = batch(slurm, tmp_path, f"{parts}{DSRUN} {place}")
    assert [host for host, _ in places(ended.output)] == ["n1", "n2", "n2", "n3", "n3"], ended


def test_ranks_are_in_the_order_of_the_hostfile(slurm: Slurm, tmp_path: Path, place: str) -> None:
    (tmp_path / "hosts").write_text("n3 slots=1\nn1 slots=2\n")
    script = "\n".join(f"{DSRUN} {flag} -H hosts {place}" for flag in ("", "--rank_per_task"))
    ended = batch(slurm, tmp_path, script, "--nodes=3", "--ntasks-per-node=2")
    once = expected(("n3", 0, 0), ("n1", 0, 1), ("n1", 1, 1))
    assert sorted(places(ended.output)) == sorted(once * 2), ended.output


def test_srun_starts_one_dsrun_a_node_and_they_find_each_other(
    slurm: Slurm, tmp_path: Path, place: str
) -> None:
    script = f"DSRUN_TOKEN=secret srun -N3 -n3 {DSRUN} --num_gpus 2 {place}"
    ended = batch(slurm, tmp_path, script, "--nodes=3")
    assert ended.code == 0, ended.output
    assert [host for host, _ in places(ended.output)] == ["n1", "n1", "n2", "n2", "n3", "n3"]


LOOP = """
export DSRUN_TOKEN=secret
for at in 0 1; do
    srun --nodes=1 --ntasks=1 --nodelist=n$((at + 1)) --overlap \\
        {dsrun} --nnodes=2 --node_rank=$at {address} --nproc_per_node=2 {place} &
    started="$started $!"
done
for one in $started; do wait $one || exit; done
"""


@pytest.mark.tier("test")
def test_one_srun_for_each_node_is_one_job(slurm: Slurm, tmp_path: Path, place: str) -> None:
    script = LOOP.format(dsrun=DSRUN, place=place, address="--master_addr=n1")
    ended = batch(slurm, tmp_path, script, "--nodes=2")
    assert ended.code == 0, ended.output
    at = re.findall(r"(?m)^node-\d:\d\| at (\d \d 4 \d) ", ended.output)
    assert sorted(at) == ["0 0 4 0", "1 1 4 0", "2 0 4 1", "3 1 4 1"], ended.output


def test_one_srun_for_each_node_is_no_job_of_its_own(
    slurm: Slurm, tmp_path: Path, place: str
) -> None:
    ended = batch(slurm, tmp_path, LOOP.format(dsrun=DSRUN, place=place, address=""), "--nodes=2")
    assert ended.code == 2, ended.output
    assert "| at " not in ended.output
    assert "give each of them --nnodes, --node_rank and --master_addr" in ended.output


def test_several_tasks_a_node_are_told_the_fix(slurm: Slurm, tmp_path: Path, place: str) -> None:
    script = f"srun {DSRUN} {place}"
    ended = batch(slurm, tmp_path, script, "--nodes=2", "--ntasks-per-node=2")
    assert ended.code == 2
    assert "use srun --nodes=2 --ntasks=2 dsrun ..., or dsrun without srun" in ended.output


def test_more_agents_of_torch_than_places_are_told(
    slurm: Slurm, tmp_path: Path, place: str
) -> None:
    torchs = "--nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$(hostname):29400"
    script = f"srun {DSRUN} {torchs} {place}"
    ended = batch(slurm, tmp_path, script, "--nodes=2", "--ntasks-per-node=2")
    assert ended.code == 2, ended.output
    assert "srun started dsrun 4 times on 2 nodes, but --nnodes allows only 2 nodes" in ended.output
    assert "| at " not in ended.output


STALE = """
export SLURM_GPUS_PER_NODE=1 SLURM_GRES=gpu:1 SLURM_STDOUTMODE=FILE SLURM_HOSTFILE=/none
export SLURM_TIMELIMIT=1 SLURM_EXPORT_ENV=NONE SLURM_CPU_BIND=mask_cpu:0x1 SLURM_NTASKS=9
export SLURM_HET_SIZE=2
"""
TOLD = """
import os
print("at", *(os.environ.get(n) for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK")),
      *(os.environ.get(f"SLURM_{n}") for n in ("PROCID", "LOCALID", "STEP_NUM_TASKS")))
print("counts", *(os.environ.get(f"SLURM_{n}") for n in (
    "NTASKS", "NTASKS_PER_NODE", "TASKS_PER_NODE", "STEP_TASKS_PER_NODE", "NNODES")),
    os.environ["CUDA_VISIBLE_DEVICES"])
"""


@pytest.mark.tier("test")
def test_variables_of_another_job_change_nothing_and_are_told(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(TOLD)
    script = f"{STALE}\nDSRUN_ACCELERATOR=cuda {DSRUN} {tmp_path}/told.py"
    ended = batch(slurm, tmp_path, script, "--nodes=2", "--nodelist=n1,n2", "--gres=gpu:2")
    assert ended.code == 0, ended.output
    nodes = (("n1", 0), ("n2", 1))
    assert places(ended.output) == expected(*((h, at, n) for h, n in nodes for at in (0, 1)))
    assert ended.output.count("| counts 4 2 2(x2) 2(x2) 2 0,1") == 4, ended.output
    for name, value in (("GPUS_PER_NODE", "1"), ("GRES", "gpu:1")):
        assert (
            ended.output.count(f"SLURM_{name}={value} is not for this job, which has 2 GPUs") == 1
        )
    options = "SLURM_HOSTFILE, SLURM_STDOUTMODE, SLURM_TIMELIMIT"
    assert f"srun takes options only from --launcher_args, not {options}\n" in ended.output


def test_open_mpi_uses_all_nodes_from_a_shell_on_one_of_them(
    slurm: Slurm, tmp_path: Path, place: str
) -> None:
    """`srun --pty bash` in an allocation: both node launchers were on its node, and n2 missing."""
    inner = f"{DSRUN} --launcher openmpi --accelerator cpu --num_gpus 1 {place}"
    words = ("salloc", "-Q", "--nodelist=n1,n2", "srun", "-N1", "-n1", "sh", "-c", inner)
    ran = slurm.run(*words, cwd=tmp_path)
    found = sorted(re.findall(r"(n\d):(\d)\| at", ran.stdout))
    assert found == [("n1", "0"), ("n2", "1")], ran.stderr


def test_a_shell_of_salloc_knows_the_gpus_of_its_job(
    slurm: Slurm, tmp_path: Path, place: str
) -> None:
    inner = f"SLURM_GPUS_PER_NODE=1 DSRUN_ACCELERATOR=cuda {DSRUN} {place}"
    wanted = ("-Q", "--nodelist=n1,n2", "--nodes=2", "--gres=gpu:2")
    ran = slurm.run("salloc", *wanted, "sh", "-c", inner, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert [host for host, _ in places(ran.stdout)] == ["n1", "n1", "n2", "n2"], ran.stdout
    assert "SLURM_GPUS_PER_NODE=1 is not for this job, which has 2 GPUs on n1" in ran.stderr
    inner = f"SLURM_JOB_NODELIST=n1 {DSRUN} {place}"
    ran = slurm.run("salloc", *wanted, "sh", "-c", inner, cwd=tmp_path)
    assert ran.returncode == 2, ran.stderr
    assert "dsrun: SLURM_JOB_NODELIST=n1: this job has n[1-2] (scontrol show" in ran.stderr


@pytest.mark.parametrize("hosts", [(), ("--host", "n1,n2")])
def test_a_job_that_has_ended_is_named(
    slurm: Slurm, tmp_path: Path, place: str, hosts: tuple[str, ...]
) -> None:
    left = {"SLURM_JOB_ID": "99999", "SLURM_JOB_NODELIST": "n[1-2]"}
    ran = slurm.run(*COMMAND, *hosts, place, cwd=tmp_path, env=left)
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    assert re.fullmatch(r"dsrun: SLURM_JOB_ID=99999: .* `unset SLURM_JOB_ID`, .*\n", ran.stderr)


def test_a_task_of_srun_with_pmi_is_none_of_its_workers(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "pmi.py").write_text(
        "import os\nprint('left', [n for n in os.environ if n.startswith('PMI')])\n"
    )
    job = f"{DSRUN} --num_gpus 2 {tmp_path}/pmi.py"
    script = f"DSRUN_TOKEN=secret srun --mpi=pmi2 -N2 -n2 {job}"
    ended = batch(slurm, tmp_path, script, "--nodes=2")
    assert ended.code == 0, ended.output
    assert re.findall(r"left (.*)", ended.output) == ["[]"] * 4, ended.output


def test_an_interactive_shell_in_a_step_may_use_the_whole_allocation(
    slurm: Slurm, tmp_path: Path, place: str
) -> None:
    inner = f"srun --pty --nodes=1 --ntasks=1 {DSRUN} {place}"
    ran = slurm.run("salloc", "-Q", "-N3", "script", "-qec", inner, "/dev/null", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert sorted(re.findall(r"(\d) 0 3 \1 \1 0 3", ran.stdout)) == ["0", "1", "2"], ran.stdout


@pytest.mark.tier("test")
@pytest.mark.parametrize(
    ("first", "last"),
    [
        (f"{HOLD} --name beside --detach", f"{HOLD} --release beside"),
        (OTHER_STEP, "kill %1; wait %1"),
    ],
    ids=["hold", "srun"],
)
def test_a_job_beside_another_step_has_the_nodes_as_if_it_were_alone(
    slurm: Slurm, tmp_path: Path, place: str, first: str, last: str
) -> None:
    script = f"{first}\nDSRUN_ACCELERATOR=cuda {DSRUN} {place}\ncode=$?\n{last}\nexit $code"
    ended = batch(slurm, tmp_path, script, "--nodes=2", "--nodelist=n1,n2", "--gpus-per-node=2")
    assert ended.code == 0, ended.output
    assert places(ended.output) == expected(
        *((host, local, node) for node, host in enumerate(("n1", "n2")) for local in (0, 1))
    )


def test_arguments_and_variables_arrive_byte_for_byte(slurm: Slurm, tmp_path: Path) -> None:
    words = shlex.join([word for word in HOSTILE if "\udcff" not in word])
    (tmp_path / "words.sh").write_text(words)
    exported = "--export 'NCCL_IB_HCA=mlx5_0,mlx5_1' --export 'ODD=a,\"b'"
    options = f"--export TELL={tmp_path} {exported}"
    script = f'eval "set -- $(cat words.sh)"\n{DSRUN} {options} {tell.SCRIPT} "$@"'
    ended = batch(slurm, tmp_path, script, "--nodes=2")
    assert ended.code == 0, ended.output
    for one in told(tmp_path):
        assert one.argv[2:] == [word.encode() for word in HOSTILE if "\udcff" not in word]
        assert (one["NCCL_IB_HCA"], one["ODD"]) == ("mlx5_0,mlx5_1", 'a,"b')


FAILS = "hear('SIGTERM', then=0)\nif rank == 2: say('fails'); os._exit(7)\nrest()"


@pytest.mark.tier("test")
def test_a_failure_ends_the_job_with_its_own_code(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{HEAD}\n{FAILS}\n")
    ended = batch(slurm, tmp_path, f"{DSRUN} --num_gpus 2 {tmp_path}/train.py", "--nodes=2")
    assert ended.code == 7
    assert re.search(r"rank 2 \(n2, local rank 0, pid \d+\) exited with code 7", ended.output)


def heard(folder: Path, ranks: int) -> list[list[str]]:
    """The signals that each rank has heard, of those that have said anything."""
    texts = [folder / f"said-{rank}" for rank in range(ranks)]
    words = [text.read_text().splitlines() for text in texts if text.exists()]
    return [[line.split()[1] for line in lines if line.startswith("hears")] for lines in words]


def up(folder: Path) -> int:
    return len(list(folder.glob("said-*")))


WARNED = """
hear("SIGUSR1", "SIGTERM")
say("is up")
while signal.SIGTERM not in heard:
    time.sleep(0.005)
time.sleep(0.3)
os._exit(0)
"""
"""Goes on after a warning, and ends a while after SIGTERM, so that a second warning is heard."""


@pytest.mark.parametrize(
    ("launch", "scancel"),
    [
        ("", ["--signal=USR1"]),
        ("exec ", ["--batch", "--signal=USR1"]),
        ("exec ", ["--full", "--signal=USR1"]),
    ],
)
def test_a_warning_signal_reaches_every_worker_once(
    slurm: Slurm, tmp_path: Path, launch: str, scancel: list[str]
) -> None:
    (tmp_path / "train.py").write_text(f"{HEAD}\n{WARNED}\n")
    script = f"{launch}{DSRUN} --num_gpus 2 {tmp_path}/train.py"
    job = slurm.sbatch(script, f"--chdir={tmp_path}", "--nodes=2")
    wait_for(lambda: up(tmp_path) == 4, "all workers to be up")
    slurm.run("scancel", *scancel, str(job))
    wait_for(lambda: heard(tmp_path, 4) == [["SIGUSR1"]] * 4, "the signal")
    slurm.run("scancel", str(job))
    assert slurm.wait(job).state == "CANCELLED"
    assert all(
        words[:1] == ["SIGUSR1"] and words.count("SIGUSR1") == 1 for words in heard(tmp_path, 4)
    )


@pytest.mark.parametrize("scancel", [[], ["--signal=TERM"]])
def test_sigterm_reaches_every_worker_once(
    slurm: Slurm, tmp_path: Path, scancel: list[str]
) -> None:
    (tmp_path / "train.py").write_text(f"{HEAD}\n{PATIENT}\n")
    script = f"{DSRUN} --num_gpus 2 {tmp_path}/train.py; echo code $?"
    job = slurm.sbatch(script, f"--chdir={tmp_path}", "--nodes=2")
    wait_for(lambda: up(tmp_path) == 4, "all workers to be up")
    slurm.run("scancel", *scancel, str(job))
    ended = slurm.wait(job)
    assert heard(tmp_path, 4) == [["SIGTERM"]] * 4, ended.output
    assert "dsrun: stopped by SIGTERM after" in ended.output
    assert scancel == [] or "code 143" in ended.output


@pytest.mark.tier("test")
def test_workers_that_end_well_at_once_are_cancelled_all_the_same(
    slurm: Slurm, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(f"{HEAD}\nhear('SIGTERM', then=0)\nrest()\n")
    script = f"{DSRUN} --num_gpus 2 --report_file r.json {tmp_path}/train.py; echo code $?"
    job = slurm.sbatch(script, f"--chdir={tmp_path}", "--nodes=2")
    wait_for(lambda: up(tmp_path) == 4, "all workers to be up")
    slurm.run("scancel", str(job))
    ended = slurm.wait(job)
    wait_for((tmp_path / "r.json").exists, "the report")
    assert json.loads((tmp_path / "r.json").read_text())["exit_code"] == 143, ended.output


def test_workers_that_ignore_the_end_are_gone_with_the_job(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{HEAD}\nhear('SIGTERM')\nrest()\n")
    job = slurm.sbatch(
        f"exec {DSRUN} --num_gpus 2 {tmp_path}/train.py", f"--chdir={tmp_path}", "--nodes=2"
    )
    wait_for(lambda: up(tmp_path) == 4, "all workers to be up")
    slurm.run("scancel", str(job))
    ended = slurm.wait(job)
    assert ended.state == "CANCELLED"
    assert ended.code != 0


def test_a_job_that_asks_for_it_is_requeued(slurm: Slurm, tmp_path: Path) -> None:
    code = "say('run', os.environ.get('SLURM_RESTART_COUNT', '0'))\n"
    code += "os._exit(0 if 'SLURM_RESTART_COUNT' in os.environ else 75)"
    (tmp_path / "train.py").write_text(f"{HEAD}\n{code}\n")
    script = f"{DSRUN} --requeue_on 3,75 {tmp_path}/train.py"
    job = slurm.sbatch(script, f"--chdir={tmp_path}", "--nodes=2", "--open-mode=append")
    ended = slurm.wait(job)
    assert ended.state == "COMPLETED", ended.output
    assert f"exit code 75: requeueing Slurm job {job}, restarted 0 times so far" in ended.output
    for rank in (0, 1):
        assert "run 1" in (tmp_path / f"said-{rank}").read_text()


def test_a_job_that_gives_way_to_another_starts_again(slurm: Slurm, tmp_path: Path) -> None:
    code = f"if 'SLURM_RESTART_COUNT' in os.environ:\n    os._exit(0)\n{PATIENT}"
    (tmp_path / "train.py").write_text(f"{HEAD}\n{code}\n")
    script = f"exec {DSRUN} --num_gpus 2 {tmp_path}/train.py"
    where = ("--partition=spare", "--nodes=2", "--nodelist=n1,n2", "--exclusive")
    job = slurm.sbatch(script, f"--chdir={tmp_path}", "--open-mode=append", *where)
    wait_for(lambda: up(tmp_path) == 4, "all workers to be up")
    assert slurm.run("srun", "--nodelist=n1", "hostname").stdout == "n1\n"
    ended = slurm.wait(job)
    assert ended.state == "COMPLETED", ended.output
    # Slurm itself signals every process of such a job twice, two milliseconds apart.
    assert [set(signals) for signals in heard(tmp_path, 4)] == [{"SIGTERM"}] * 4
    assert max(map(len, heard(tmp_path, 4))) <= 2


def test_a_time_limit_warns_every_worker_once(slurm: Slurm, tmp_path: Path) -> None:
    """Slurm looks at time limits every half a minute; a minute before the end is at once.

    The limit is set once the workers are up: a warning during the start is nobody's.
    """
    (tmp_path / "train.py").write_text(f"{HEAD}\nhear('SIGUSR1', then=0)\nrest()\n")
    script = f"{DSRUN} --num_gpus 2 {tmp_path}/train.py; echo code $?"
    limit = ("--nodes=2", "--time=60", "--signal=USR1@60")
    job = slurm.sbatch(script, f"--chdir={tmp_path}", *limit)
    wait_for(lambda: up(tmp_path) == 4, "all workers to be up")
    slurm.run("scontrol", "update", f"JobId={job}", "TimeLimit=1")
    ended = slurm.wait(job)
    assert heard(tmp_path, 4) == [["SIGUSR1"]] * 4, ended.output
    assert "code 0" in ended.output


def test_a_cancelled_job_is_not_requeued(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{HEAD}\n{PATIENT}\n")
    script = f"{DSRUN} --requeue_on 143 {tmp_path}/train.py"
    job = slurm.sbatch(script, f"--chdir={tmp_path}", "--nodes=2")
    wait_for(lambda: up(tmp_path) == 2, "all workers to be up")
    slurm.run("scancel", str(job))
    assert slurm.wait(job).state == "CANCELLED"
    assert "requeueing" not in slurm.output(job)


def test_output_is_whole(slurm: Slurm, tmp_path: Path) -> None:
    """Bytes of any kind and a line of 10 MB in the logs, and every rank's lines in order."""
    (tmp_path / "train.py").write_text(WORDS)
    script = f"{DSRUN} --num_gpus 2 --log_dir logs --prefix '{{rank}}| ' {tmp_path}/train.py"
    ended = batch(slurm, tmp_path, script, "--nodes=2")
    assert ended.code == 0, ended.output[-2000:]
    first = bytes(range(256)) + b"a" * 10_000_000 + b"\nafter\n"
    by_rank = lines_by_rank(ended.output)
    for rank in range(4):
        (log,) = tmp_path.glob(f"logs/*/rank-{rank:04d}.out")
        assert log.read_bytes().startswith(first)
        numbers = [line for line in by_rank[rank] if line.startswith("<")]
        assert numbers == [f"<{number}>" for number in range(10_000)]


def test_srun_is_killed(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{HEAD}\nhear('SIGTERM', then=0)\nrest()\n")
    job = slurm.sbatch(f"exec {DSRUN} {tmp_path}/train.py", f"--chdir={tmp_path}", "--nodes=2")
    wait_for(lambda: up(tmp_path) == 2, "all workers to be up")
    (srun,) = [p for p in slurm.cluster.processes() if p.argv[0] == SRUN and child_of_dsrun(p.pid)]
    os.kill(srun.pid, signal.SIGKILL)
    ended = slurm.wait(job)
    assert ended.code == 75, ended.output
    assert "lost " in ended.output


def test_why_srun_waits_for_gpus_that_were_requested_in_total(slurm: Slurm, tmp_path: Path) -> None:
    script = f"{OTHER_STEP}\n{DSRUN} --no_python true"
    job = slurm.sbatch(script, f"--chdir={tmp_path}", "--nodes=2", "--gpus=4")
    said = "dsrun: srun waits: other steps of this job hold its GPUs"
    wait_for(lambda: said in slurm.output(job), "dsrun to say why it waits")
    slurm.run("scancel", str(job))
    assert slurm.wait(job).state == "CANCELLED"


def test_dsrun_is_killed_while_srun_waits_for_other_steps(slurm: Slurm, tmp_path: Path) -> None:
    script = f"{OTHER_STEP}\n{DSRUN} --launcher_args --exclusive --no_python true\nwait"
    before = slurm.cluster.host("n1").listening()
    job = slurm.sbatch(script, f"--chdir={tmp_path}", "--nodes=2")
    wait_for(lambda: "0/2 hosts, waiting for n1, n2" in slurm.output(job), "dsrun to wait")
    (srun,) = [p for p in slurm.cluster.processes() if p.argv[0] == SRUN and child_of_dsrun(p.pid)]
    os.kill(parent(srun.pid), signal.SIGKILL)
    wait_for(lambda: srun.pid not in {p.pid for p in slurm.cluster.processes()}, "the end of srun")
    slurm.run("scancel", str(job))
    slurm.wait(job)
    wait_for(lambda: slurm.cluster.host("n1").listening() <= before, "all ports to be free")


def child_of_dsrun(pid: int) -> bool:
    """Whether this is the srun that dsrun has started, not the helper that srun forks."""
    above = Path(f"/proc/{parent(pid)}/cmdline").read_bytes().split(b"\0")
    return os.fsencode(COMMAND[1]) in above
