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
    parse_env_file,
    rank_variables,
    to_wire,
    travel,
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
        *("DSRUN_TOKEN", "MASTER_ADDR", "WORLD_SIZE"),
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
        ("A =1\n", "f:1: 'A =1': expected NAME=VALUE"),
        ("1A=1\n", "f:1: '1A=1': expected NAME=VALUE"),
        ("A-B=1\n", "f:1: 'A-B=1': expected NAME=VALUE"),
        ("export A\n", "f:1: 'export A': expected NAME=VALUE"),
        ("x" * 99, f"f:1: '{'x' * 60}': expected NAME=VALUE"),
    ],
)
def test_environment_files_that_are_none(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_env_file(text, "f")
    assert str(caught.value) == message


def test_the_contract() -> None:
    seat = RankInfo(
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
    assert rank_variables(seat) == {
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
