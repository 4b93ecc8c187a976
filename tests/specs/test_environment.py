"""Which variables travel, and a worker's whole environment."""

from __future__ import annotations

import os

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.specs.environment import (
    ForwardedEnv,
    RankInfo,
    exports,
    from_wire,
    of_mpi,
    of_slurm,
    parse_env_file,
    placed,
    rank_variables,
    to_wire,
    travel,
    without_empty_folders,
    without_task,
    worker,
)


@pytest.mark.parametrize(
    "name",
    [
        "MLFLOW_TRACKING_URI",
        "PYTHONUNBUFFERED",
        "PYTHONPATH",
        "MV2_X",
        "UCX_TLS",
        "NEBULA_X",
        "AZUREML_RUN_ID",
        "TORCH_DISTRIBUTED_DEBUG",
        "PYTORCH_CUDA_ALLOC_CONF",
        "TRITON_CACHE_DIR",
        "GLOO_SOCKET_IFNAME",
        "NCCL_DEBUG",
        "HF_HOME",
        "TRANSFORMERS_OFFLINE",
        "TOKENIZERS_PARALLELISM",
        "WANDB_PROJECT",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "KMP_AFFINITY",
        "DS_ACCELERATOR",
        "FI_PROVIDER",
        "LD_LIBRARY_PATH",
        "LC_ALL",
        "LANG",
        "TZ",
    ],
)
def test_what_training_needs_travels(name: str) -> None:
    assert travel({name: "v"}, {}) == ForwardedEnv({name: "v"}, (), frozenset())


@pytest.mark.parametrize(
    "name",
    [
        *("HOME", "PATH", "USER", "HOSTNAME", "PWD", "SHELL", "DISPLAY", "CUDA_HOME", "RANK"),
        *("LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "BASH_FUNC_x%%", "SSH_AUTH_SOCK", "SLURM_JOB_ID"),
        *("PYTHONSTARTUP", "PYTHONHOME", "PYTHONEXECUTABLE", "TORCHELASTIC_RUN_ID"),
        *("CUDA_VISIBLE_DEVICES", "NCCL_ASYNC_ERROR_HANDLING", "AWS_SECRET_ACCESS_KEY"),
        *("DSRUN_TOKEN", "MASTER_ADDR", "WORLD_SIZE", "MV2_COMM_WORLD_RANK", "PMI_RANK"),
    ],
)
def test_what_belongs_to_one_machine_or_session_stays(name: str) -> None:
    assert travel({name: "v"}, {}, ["CUDA_"] if "VISIBLE" in name else []) == ForwardedEnv(
        {}, (), frozenset()
    )
    assert travel({name: "v"}, {name: "w"}).values == {name: "w"}


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "WANDB_API_KEY", "AZUREML_BLOB_ACCOUNT_KEY", "MLFLOW_TRACKING_PASSWORD"),
        *("DS_SECRET_X", "MLFLOW_CREDENTIALS", "TORCH_PASSWD"),
    ],
)
def test_secrets_travel_only_when_named(name: str) -> None:
    assert travel({name: "v"}, {}) == ForwardedEnv({}, (name,), frozenset())
    assert travel({name: "v"}, {name: "v"}) == ForwardedEnv({name: "v"}, (), frozenset({name}))


def test_accelerators_prefixes_and_order() -> None:
    environ = {"B_X": "1", "A_X": "2", "WANDB_API_KEY": "x", "HF_TOKEN": "y", "C_X": "3"}
    assert travel(environ, {"NEW": "4", "B_X": "5"}, ("A_", "B_")) == ForwardedEnv(
        {"A_X": "2", "B_X": "5", "NEW": "4"}, ("HF_TOKEN", "WANDB_API_KEY"), frozenset()
    )


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], {}),
        (["A"], {"A": "a"}),
        (["A=b"], {"A": "b"}),
        (["A="], {"A": ""}),
        (["A=b=c"], {"A": "b=c"}),
        (["A", "A=2", "B= x "], {"A": "2", "B": " x "}),
        (["A=\udcff\n"], {"A": "\udcff\n"}),
    ],
)
def test_exports(items: list[str], expected: dict[str, str]) -> None:
    assert exports(items, {"A": "a"}) == expected


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("", "--export '': expected NAME or NAME=VALUE"),
        ("=x", "--export '=x': expected NAME or NAME=VALUE"),
        ("A=\0", r"--export 'A=\x00': expected NAME or NAME=VALUE"),
        ("NOT_SET", "--export NOT_SET: is not set; set it, or write NOT_SET=VALUE"),
    ],
)
def test_exports_that_name_nothing(item: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        exports([item], {})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("\n  \n# A=1\n   # B=2\n", {}),
        ("A=1", {"A": "1"}),
        ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("  A=1\n", {"A": "1"}),
        ("A=\n", {"A": ""}),
        ("A= x \t\n", {"A": " x \t"}),
        ("A=x \r\n", {"A": "x "}),
        ("A=' x ' \t\r\n", {"A": " x "}),
        ("A= 'x'\n", {"A": " 'x'"}),
        ("export  A=1\n", {"A": "1"}),
        ("# a NUL: \0\nA=1\n", {"A": "1"}),
        ("A=a=b # c\n", {"A": "a=b # c"}),
        ("A=$HOME `x`;\n", {"A": "$HOME `x`;"}),
        ("A='a b'\n", {"A": "a b"}),
        ('A="a b"\n', {"A": "a b"}),
        ("A='a\"\n", {"A": "'a\""}),
        ("A='\n", {"A": "'"}),
        ("A=''\n", {"A": ""}),
        ("A=\"'a'\"\n", {"A": "'a'"}),
        ("A=1\nA=2\n", {"A": "2"}),
        ("export A=1\nexport B='x y'\n", {"A": "1", "B": "x y"}),
        ("exported=1\n", {"exported": "1"}),
        ("A=\udcff\n", {"A": "\udcff"}),
        ("NCCL_IB_HCA=mlx5_0,mlx5_1\n", {"NCCL_IB_HCA": "mlx5_0,mlx5_1"}),
        # Only a line feed ends a line of a file; other separators are part of the value.
        ("A=x\u2028y\n", {"A": "x\u2028y"}),
        ("A=x\x0cy\x1cz\n", {"A": "x\x0cy\x1cz"}),
    ],
)
def test_environment_files(text: str, expected: dict[str, str]) -> None:
    assert parse_env_file(text, "f") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=1\nnonsense\n", "f:2: 'nonsense': expected NAME=VALUE"),
        ("\n\n=x\n", "f:3: '=x': expected NAME=VALUE"),
        ("A =1\n", "f:1: 'A =1': expected NAME=VALUE; write A=1"),
        ("1A=1\n", "f:1: '1A=1': expected NAME=VALUE"),
        ("A-B=1\n", "f:1: 'A-B=1': expected NAME=VALUE"),
        ("export A\n", "f:1: 'export A': expected NAME=VALUE"),
        ("A=1\nB=secret\0\n", "f:2: 'B': a variable cannot have a NUL byte"),
        ("A\0=1\n", "f:1: 'A\\x00': a variable cannot have a NUL byte"),
        ("x" * 99, f"f:1: '{'x' * 60}': expected NAME=VALUE"),
    ],
)
def test_environment_files_that_are_none(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_env_file(text, "f")
    assert str(caught.value) == message


SEAT = RankInfo(
    rank=5,
    local_rank=1,
    local_size=2,
    world_size=8,
    node_rank=2,
    nodes=3,
    master_addr="10.0.0.1",
    master_port=29500,
    job_id="j",
    role="trainer",
)


def test_the_contract() -> None:
    assert rank_variables(SEAT) == {
        "RANK": "5",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "8",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "2",
        "GROUP_WORLD_SIZE": "3",
        "ROLE_RANK": "5",
        "ROLE_WORLD_SIZE": "8",
        "ROLE_NAME": "trainer",
        "NODE_RANK": "2",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": "j",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "CROSS_RANK": "2",
        "CROSS_SIZE": "3",
        "LOCAL_SIZE": "2",
        "DSRUN_JOB_ID": "j",
    }


@pytest.mark.parametrize(
    "task",
    [
        "OMPI_COMM_WORLD_RANK OMPI_MCA_ess OMPI_ARGV OPAL_PREFIX PMIX_NAMESPACE PRTE_LAUNCHED",
        "PMI_RANK PMI_SIZE PMI_FD HYDI_CONTROL_FD HYDRA_LAUNCH_TYPE MPI_LOCALRANKID",
        "PMI_RANK I_MPI_INFO_CORE I_MPI_HYDRA_HOST_FILE MPI_LOCALNRANKS",
        "MV2_COMM_WORLD_RANK MV2_COMM_WORLD_SIZE MPIRUN_ID MPISPAWN_ID",
        "PALS_RANKID PALS_LOCAL_RANKID PMI_LOCAL_SIZE",
        "JSM_NAMESPACE_RANK OMPI_COMM_WORLD_SIZE",
        # Left over in a shell.
        "PMI_SIZE",
        "OMPI_COMM_WORLD_SIZE PMIX_SERVER_URI",
    ],
)
def test_no_task_of_an_mpi_launcher_is_seen_by_what_it_starts(task: str) -> None:
    others = ["PATH", "SLURM_JOB_ID", "I_MPI_FABRICS", "FI_PROVIDER", "UCX_TLS", "MV2_DEBUG"]
    assert of_mpi([*others, *task.split()]) == set(task.split())
    assert [*without_task(dict.fromkeys([*others, *task.split()], "1"))] == others


def test_settings_of_mpi_outside_of_a_task_are_the_users_own() -> None:
    own = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_MCA_btl", "OPAL_PREFIX", "HYDRA_IFACE", "I_MPI_ROOT"]
    own += ["PRTE_MCA_plm_ssh_args", "PMIX_MCA_gds", "I_MPI_PIN_INFO"]
    assert not of_mpi(own)
    assert of_mpi([*own, "PMIX_RANK"]) == {"PMIX_RANK", *own} - {"I_MPI_ROOT"}


STEP = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
BATCH = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_GTIDS": "0"}
COUNTS = {"SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_NTASKS_PER_NODE": "1", "SLURM_NNODES": "2"}


@pytest.mark.parametrize(
    ("environ", "kept"),
    [
        ({**BATCH, **COUNTS, **STEP}, {"SLURM_JOB_ID", "SLURM_PROCID", "SLURM_STEP_ID"}),
        ({"SLURM_PROCID": "3", "SLURM_NODEID": "1", "SLURM_NTASKS": "9"}, set()),
        ({"SLURM_PROCID": "3", "SLURM_JOB_ID": ""}, {"SLURM_JOB_ID"}),
        # A shell of salloc is no task.
        ({"SLURM_JOB_ID": "7", **COUNTS}, {"SLURM_JOB_ID", *COUNTS}),
    ],
)
def test_what_slurm_says_of_the_place_of_its_task(environ: dict[str, str], kept: set[str]) -> None:
    assert without_task(environ).keys() == kept


@pytest.mark.parametrize(
    ("workers", "each"), [((2, 2, 2, 1, 1), "2(x3),1(x2)"), ((4, 3, 1), "4,3,1"), ((), None)]
)
@pytest.mark.parametrize("step", [{}, STEP])
def test_slurms_variables_agree_with_each_other_for_every_worker(
    workers: tuple[int, ...], each: str | None, step: dict[str, str]
) -> None:
    found = of_slurm(SEAT, without_task({**BATCH, **COUNTS, **step}), workers)
    assert found.pop("SLURM_TASKS_PER_NODE", None) == each
    assert found.pop("SLURM_STEP_TASKS_PER_NODE", None) == (each if step else None)
    assert found == {
        "SLURM_PROCID": "5",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "2",
        "SLURM_NTASKS": "8",
        "SLURM_NPROCS": "8",
        "SLURM_NNODES": "3",
        "SLURM_NTASKS_PER_NODE": "2",
        **({"SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "3"} if step else {}),
    }


def test_one_node_is_known_without_the_others() -> None:
    alone = of_slurm(SEAT._replace(nodes=1), BATCH)
    assert (alone["SLURM_TASKS_PER_NODE"], alone["SLURM_NNODES"]) == ("2", "1")


def test_nobody_is_a_task_of_slurm_outside_of_one() -> None:
    assert of_slurm(SEAT, without_task({"SLURM_PROCID": "3"})) == {}
    assert of_slurm(SEAT, {"SLURM_JOB_ID": "7"}) == {}


@pytest.mark.parametrize(
    ("base", "sent", "promised", "expected"),
    [
        (
            {},
            {},
            {},
            {"PATH": f"/py/bin:{os.defpath}", "PYTHONPATH": "/w"},
        ),
        (
            {"PATH": "/usr/bin:/py/bin", "PYTHONPATH": "/lib", "HOME": "/h"},
            {},
            {},
            {"PATH": "/usr/bin:/py/bin", "PYTHONPATH": "/w:/lib", "HOME": "/h"},
        ),
        (
            {"PATH": "/py/bin2", "PYTHONPATH": "/lib"},
            {"PYTHONPATH": "/sent"},
            {},
            {"PATH": "/py/bin:/py/bin2", "PYTHONPATH": "/w:/sent"},
        ),
        (
            {"RANK": "9", "A": "base", "PATH": "/py/bin"},
            {"RANK": "8", "A": "sent"},
            {"RANK": "0"},
            {"RANK": "0", "A": "sent", "PATH": "/py/bin", "PYTHONPATH": "/w"},
        ),
    ],
)
def test_a_workers_environment(
    base: dict[str, str], sent: dict[str, str], promised: dict[str, str], expected: dict[str, str]
) -> None:
    env = worker(base, sent, promised, first="/w", python="/py/bin/python", threads=3)
    assert env == {"OMP_NUM_THREADS": "3", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", **expected}


@pytest.mark.parametrize("folder", ["/w", "/w/", "/w/.", "/w/x/../"])
def test_a_worker_has_always_been_in_its_folder(folder: str) -> None:
    env = {"PWD": "/root", "OLDPWD": "/", "A": "1"}
    assert placed(env, folder) == {"PWD": "/w", "A": "1"}


@pytest.mark.parametrize(
    ("value", "left"),
    [("/usr/lib:", "/usr/lib"), (":/a::/b", "/a:/b"), (":", None), ("/a", "/a"), (None, None)],
)
def test_libraries_are_looked_for_in_no_folder_without_a_name(
    value: str | None, left: str | None
) -> None:
    env = {"A": ":"} | ({} if value is None else {"LD_LIBRARY_PATH": value})
    found = without_empty_folders(env)
    assert found == {"A": ":"} | ({} if left is None else {"LD_LIBRARY_PATH": left})


def test_threads_that_somebody_has_set_stay() -> None:
    settings = {"OMP_NUM_THREADS": "7", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}
    for base, sent in ((settings, {}), ({"OMP_NUM_THREADS": "1"}, settings)):
        env = worker(base, sent, {}, first="/w", python="", threads=3)
        assert {name: env[name] for name in settings} == settings
        assert env["PATH"] == os.defpath
    plain = worker({}, {}, {}, first="", python="", threads=0)
    assert plain["OMP_NUM_THREADS"] == "1"
    assert "PYTHONPATH" not in plain
    theirs = {"PYTHONPATH": "/lib"}
    assert worker(theirs, {}, {}, first="", python="", threads=0)["PYTHONPATH"] == "/lib"


@pytest.mark.parametrize(
    "data", [b"", b"a", "é€😀".encode(), b"\xff\xfe", b"\xc3", b"a\xed\xa0\x80"]
)
def test_bytes_survive_the_wire(data: bytes) -> None:
    assert from_wire(to_wire(os.fsdecode(data))) == data
