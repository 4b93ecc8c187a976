"""What a worker finds in its environment: the contract, what travels, its devices, its cores."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import tell
from .jobs import EVERYWHERE, options
from .scripts import LOCAL, TRACEBACK, hostfile
from .tell import told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .command import Dsrun
    from .hosts import Cluster
    from .tell import Told

REMOTE = [launcher for launcher in EVERYWHERE if launcher != "local"]
CUDA = {"DSRUN_ACCELERATOR": "cuda"}


@pytest.fixture
def here(tmp_path: Path) -> tuple[str, ...]:
    """Options with which a worker that runs `tell.SCRIPT` tells it to `tmp_path`."""
    return ("--export", f"TELL={tmp_path}")


def names_and(told_by: Sequence[Told], *names: str) -> list[tuple[str, ...]]:
    """These variables of each worker, after the host that it is on."""
    return [(one.host, *(one[name] for name in names)) for one in told_by]


@pytest.mark.each_launcher
@pytest.mark.parametrize("launcher", REMOTE)
def test_the_contract_on_uneven_nodes(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...], launcher: str
) -> None:
    hosts = hostfile(cluster, tmp_path, 3, 2, 1)
    done = dsrun(*options(launcher), "--role", "trainer", *hosts, *here, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    found = told(tmp_path)
    places = [("n1", 0, 0, 3), ("n1", 0, 1, 3), ("n1", 0, 2, 3), ("n2", 1, 0, 2), ("n2", 1, 1, 2),
              ("n3", 2, 0, 1)]  # fmt: skip
    assert [one.host for one in found] == [place[0] for place in places]
    for rank, (one, (_, node, local, size)) in enumerate(zip(found, places, strict=True)):
        expected = {
            "RANK": rank,
            "LOCAL_RANK": local,
            "WORLD_SIZE": 6,
            "LOCAL_WORLD_SIZE": size,
            "LOCAL_SIZE": size,
            "NODE_RANK": node,
            "GROUP_RANK": node,
            "GROUP_WORLD_SIZE": 3,
            "CROSS_RANK": node,
            "CROSS_SIZE": 3,
            "ROLE_RANK": rank,
            "ROLE_WORLD_SIZE": 6,
            "ROLE_NAME": "trainer",
            "TORCHELASTIC_RESTART_COUNT": 0,
            "TORCHELASTIC_MAX_RESTARTS": 0,
            "TORCHELASTIC_USE_AGENT_STORE": "False",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1,
        }
        assert {name: one[name] for name in expected} == {n: str(v) for n, v in expected.items()}
        assert one.argv[1] == f"--local_rank={local}".encode()
        assert b"CUDA_VISIBLE_DEVICES" not in one.env
    ids = {(one["DSRUN_JOB_ID"], one["TORCHELASTIC_RUN_ID"]) for one in found}
    assert len(ids) == 1
    assert len(set(ids.pop())) == 1
    (master,) = {(one["MASTER_ADDR"], one["MASTER_PORT"]) for one in found}
    assert master[0] in {"n1", cluster.host("n1").address}
    assert 1 <= int(master[1]) <= 65535


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (("--include", "n2@n4:1"), ["n2", "n2", "n4"]),
        (("--include", "n[3-4]:0"), ["n3", "n4"]),
        (("--include=n*:1",), ["n1", "n2", "n3", "n4"]),
        (("--exclude", "n1@n3:0@n4:1"), ["n2", "n2", "n3", "n4"]),
        (("--num_nodes", "2", "--num_gpus", "1"), ["n1", "n2"]),
        (("--include", "n3"), ["n3", "n3"]),
        (("--include", "n4:0"), ["n4"]),
        (("--num_nodes", "1"), ["n1", "n1"]),
    ],
)
def test_only_the_chosen_take_part(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...],
    options: Sequence[str], where: list[str],
) -> None:  # fmt: skip
    hosts = hostfile(cluster, tmp_path, 2, 2, 2, 2)
    done = dsrun(*hosts, *options, *here, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    found = told(tmp_path)
    assert [one.host for one in found] == where
    assert {one["WORLD_SIZE"] for one in found} == {str(len(where))}
    assert [one["CROSS_SIZE"] for one in found] == [str(len({*where}))] * len(where)


def test_devices_follow_the_slots_in_the_order_of_include(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    hosts = hostfile(cluster, tmp_path, 4, 4)
    variables = tmp_path / "gpu"
    variables.write_text("DSRUN_ACCELERATOR=cuda\n")
    mask = tmp_path / "mask.sh"
    mask.write_text("export CUDA_VISIBLE_DEVICES=4,5,GPU-aa,7\n")
    given = ("--env_file", str(variables), "--venv_script", str(mask), "--python", sys.executable)
    done = dsrun(*hosts, "--include", "n1:3,0@n2:2", *given, *here, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    assert names_and(told(tmp_path), "LOCAL_RANK", "CUDA_VISIBLE_DEVICES") == [
        ("n1", "0", "7,4"),
        ("n1", "1", "7,4"),
        ("n2", "0", "GPU-aa"),
    ]


@pytest.mark.parametrize(
    ("mask", "options", "expected"),
    [
        ("2,3", (), ["2,3", "2,3"]),
        ("0,2,5", ("--num_gpus", "2"), ["0,2", "0,2"]),
        ("4,5", ("--include", "localhost:1"), ["5"]),
        ("GPU-abc,MIG-1/2/3", ("--include", "localhost:1,0"), ["MIG-1/2/3,GPU-abc"] * 2),
        ("4,5", ("--include", "localhost:5"), ["5"]),
        ("1,0", ("--virtual_local_rank",), ["1", "0"]),
    ],
)
def test_a_mask_that_is_there_is_mapped_through(
    dsrun: Dsrun, tmp_path: Path, here: tuple[str, ...], mask: str, options: Sequence[str],
    expected: list[str],
) -> None:  # fmt: skip
    env = {**CUDA, "CUDA_VISIBLE_DEVICES": mask}
    done = dsrun(*options, *here, tell.SCRIPT, env=env)
    assert done.returncode == 0, done.stderr
    found = told(tmp_path)
    assert [one["CUDA_VISIBLE_DEVICES"] for one in found] == expected


def test_virtual_local_rank(dsrun: Dsrun, tmp_path: Path, here: tuple[str, ...]) -> None:
    env = {**CUDA, "CUDA_VISIBLE_DEVICES": "2,3"}
    done = dsrun("--virtual-local-rank", *here, tell.SCRIPT, env=env)
    assert done.returncode == 0, done.stderr
    found = told(tmp_path)
    names = ("CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "RANK", "LOCAL_WORLD_SIZE")
    assert [tuple(one[name] for name in names) for one in found] == [
        ("2", "0", "0", "2"),
        ("3", "0", "1", "2"),
    ]
    assert [one.argv[1] for one in found] == [b"--local_rank=0"] * 2


def test_too_few_devices_are_told_of(dsrun: Dsrun) -> None:
    env = {**CUDA, "CUDA_VISIBLE_DEVICES": "4,5"}
    done = dsrun("--num_gpus", "3", tell.SCRIPT, env=env)
    assert done.returncode == 69
    assert "localhost: no slot 2 (visible: slots 0-1 = 4, 5)" in done.stderr
    assert TRACEBACK not in done.stderr


def test_the_runners_mask_is_not_sent_to_other_machines(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    env = {"CUDA_VISIBLE_DEVICES": "6,7"}
    assert dsrun(*hostfile(cluster, tmp_path, 1), *here, tell.SCRIPT, env=env).returncode == 0
    (one,) = told(tmp_path)
    assert b"CUDA_VISIBLE_DEVICES" not in one.env


def test_a_mask_that_the_user_exports(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    mask = ("--export", "DSRUN_ACCELERATOR=cuda", "--export", "CUDA_VISIBLE_DEVICES=4,5")
    done = dsrun(*hostfile(cluster, tmp_path, 2), *mask, *here, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    assert [one["CUDA_VISIBLE_DEVICES"] for one in told(tmp_path)] == ["4,5"] * 2


VALUES = {
    "NCCL_A": "a b",
    "NCCL_B": "two\nlines",
    "NCCL_C": "$(touch PWN)`touch PWN`$HOME;'\"\\",
    "NCCL_D": "\udcff\udc80é☃",
    "NCCL_E": "",
    "NCCL_F": "a=b=c",
    "PYTHONWARNINGS": "ignore",
    "WANDB_PROJECT": "(x2) & {y}",
}


@pytest.mark.parametrize("launcher", EVERYWHERE)
def test_variables_arrive_byte_for_byte(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...], launcher: str
) -> None:
    hosts = LOCAL
    if launcher != "local":
        hosts = (*options(launcher), *hostfile(cluster, tmp_path, 1))
    named = {f"MY{name}": value for name, value in VALUES.items()}
    exports = [word for name, value in named.items() for word in ("--export", f"{name}={value}")]
    env = {**VALUES, "OWN": "x\n\udcffy"}
    done = dsrun(*hosts, *exports, "--export=OWN", *here, tell.SCRIPT, env=env)
    assert done.returncode == 0, done.stderr
    for one in told(tmp_path):
        for name, value in {**VALUES, **named, "OWN": "x\n\udcffy"}.items():
            assert one.env[name.encode()] == os.fsencode(value)
    assert not list(tmp_path.glob("**/PWN"))


def test_what_travels_and_what_stays(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    travels = {
        "NCCL_DEBUG": "INFO",
        "HF_HOME": "/hf",
        "OMP_NUM_THREADS": "3",
        "UCX_X": "1",
        "TZ": "UTC",
    }
    stays = dict.fromkeys(("MINE", "SSH_CONNECTION", "BASH_ENV", "PYTHONSTARTUP"), "mine")
    stays |= {"LD_PRELOAD": "", "SLURM_JOB_ID": "7", "BASH_FUNC_x%%": "() { :; }"}
    secrets = {
        "WANDB_API_KEY": "canary",
        "HF_TOKEN": "canary",
        "MLFLOW_TRACKING_PASSWORD": "canary",
    }
    env = {**travels, **stays, **secrets}
    hosts = hostfile(cluster, tmp_path, 1, 1)
    done = dsrun(*hosts, "--export", "HF_TOKEN", *here, tell.SCRIPT, env=env)
    assert done.returncode == 0, done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if "secret" in line]
    assert "MLFLOW_TRACKING_PASSWORD, WANDB_API_KEY" in warning
    assert "HF_TOKEN" not in warning
    assert "canary" not in done.stderr
    for one in told(tmp_path):
        assert {name: one[name] for name in travels} == travels
        assert one["HF_TOKEN"] == "canary"
        for name in {**stays, **secrets}.keys() - {"HF_TOKEN", "SSH_CONNECTION"}:
            assert name.encode() not in one.env
        assert one.env.get(b"SSH_CONNECTION") != b"mine"


def test_environment_files(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    (tmp_path / ".deepspeed_env").write_bytes(b"ONE=of DeepSpeed\r\nTWO=a=b\r\nBYTES=\xff\n")
    (tmp_path / ".dsrun_env").write_text("# a comment\n\nexport TWO='quoted # text'\nTHREE=1\n")
    (tmp_path / "a file").write_text('\ufeffTHREE="$HOME"\nSECRET_KEY=x\nFOUR=\n')
    home = cluster.path("/run/home/.deepspeed_env")
    home.write_text("ONE=of home\nFIVE=of home\n")
    try:
        done = dsrun(
            *hostfile(cluster, tmp_path, 1), "--env_file", "a file", "--export", "FOUR=4", *here,
            tell.SCRIPT,
        )  # fmt: skip
    finally:
        home.unlink()
    assert done.returncode == 0, done.stderr
    (one,) = told(tmp_path)
    assert [one[name] for name in ("ONE", "TWO", "THREE", "FOUR", "FIVE", "SECRET_KEY")] == [
        "of DeepSpeed", "quoted # text", "$HOME", "4", "of home", "x",
    ]  # fmt: skip
    assert one.env[b"BYTES"] == b"\xff"


@pytest.mark.parametrize("size", [20, 200])
def test_many_variables(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...], size: int
) -> None:
    lines = [f"MANY_{number}={str(number) * size}"[:size] for number in range(5_000)]
    (tmp_path / "many").write_text("\n".join(lines))
    done = dsrun(*hostfile(cluster, tmp_path, 1, 1), "--env_file", "many", *here, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    found = told(tmp_path)
    assert len(found) == 2
    for one in found:
        arrived = {f"{os.fsdecode(name)}={os.fsdecode(value)}" for name, value in one.env.items()}
        assert [line[:9] for line in lines if line not in arrived] == []


@pytest.mark.parametrize("launcher", ["local", "ssh"])
def test_large_variables(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...], launcher: str
) -> None:
    hosts = (*LOCAL, "--num_gpus", "1") if launcher == "local" else hostfile(cluster, tmp_path, 1)
    variables = tmp_path / "variables"
    variables.write_text(f"LARGE={'x' * 100_000}\n")
    assert dsrun(*hosts, "--env_file", str(variables), *here, tell.SCRIPT).returncode == 0
    assert [one["LARGE"] for one in told(tmp_path)] == ["x" * 100_000]

    variables.write_text(f"SMALL=1\nTOO_LARGE={'x' * 200_000}\n")
    done = dsrun(*hosts, "--env_file", str(variables), *here, tell.SCRIPT)
    assert done.returncode in {2, 69, 126}
    assert TRACEBACK not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "TOO_LARGE" in line]
    assert "too long" in line
    assert "200000" in line
    assert "xxxx" not in done.stderr


def test_an_environment_that_is_too_large_as_a_whole(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    for part in range(3):
        lines = [f"V{part}_{number}={'x' * 60_000}\n" for number in range(15)]
        (tmp_path / f"part{part}").write_text("".join(lines))
    files = [word for part in range(3) for word in ("--env_file", f"part{part}")]
    done = dsrun(*hostfile(cluster, tmp_path, 1), *files, *here, tell.SCRIPT)
    assert done.returncode in {2, 69, 126}
    assert "too long" in done.stderr
    assert "V0_0" in done.stderr
    assert "xxxx" not in done.stderr
    assert TRACEBACK not in done.stderr


def test_an_environment_file_that_is_no_such_thing(dsrun: Dsrun, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("A=1\n" * 5_000_000)
    done = dsrun(*LOCAL, "--env_file", "log", tell.SCRIPT)
    assert done.returncode == 2
    assert done.stderr.startswith("dsrun: --env_file log: larger than ")
    assert done.stderr.count("\n") == 1


@pytest.mark.each_launcher
@pytest.mark.parametrize("launcher", EVERYWHERE)
def test_the_folder_of_a_worker_is_its_pwd(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...], launcher: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    where = (
        (*LOCAL, "--num_gpus", "2") if launcher == "local" else hostfile(cluster, tmp_path, 1, 1)
    )
    words = (*options(launcher), *where, "--workdir", str(folder), *here, tell.SCRIPT)
    done = dsrun(*words, env={"OLDPWD": "/", "PWD": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    for one in told(tmp_path):
        assert (one.cwd, one["PWD"]) == (os.fsencode(folder), str(folder))
        assert b"OLDPWD" not in one.env
        assert "" not in one.env.get(b"LD_LIBRARY_PATH", b"/").decode().split(":")
