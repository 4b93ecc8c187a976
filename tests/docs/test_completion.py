"""Completion as the shells do it: what Tab makes of a line."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from docs.generate.commands import commands, quote, summary
from docs.generate.completion import files
from dsrun.launcher.cli.help.rows import Row

from ..support.limits import HANG
from ..support.needs import need
from .shells import COMMANDS, SHARE, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINES = [
    ("dsrun --hostfi\t", ["--hostfile"]),
    ("dsrun --num_n\t", ["--num_nodes"]),
    ("dsrun --num-n\t", ["--num-nodes"]),
    ("dsrun --color ne\t", ["--color", "never"]),
    ("dsrun --color=ne\t", ["--color=never"]),
    ("dsrun --log-level=cr\t", ["--log-level=critical"]),
    ("dsrun --launcher mv\t", ["--launcher", "mvapich"]),
    ("dsrun --num-nodes=2 --rdzv-b\t c1\t", ["--num-nodes=2", "--rdzv-backend", "c10d"]),
    ("dsrun --help sl\t", ["--help", "slurm"]),
    ("dsrun -H ho\t", ["-H", "hostfile.txt"]),
    ("dsrun --hostfile ho\t", ["--hostfile", "hostfile.txt"]),
    ("dsrun --log_dir ho\t", ["--log_dir", "ho"]),
    ("dsrun --log_dir lo\t", ["--log_dir", "logs"]),
    ("dsrun --enable-each-rank-log=lo\t", ["--enable-each-rank-log=logs"]),
    ("dsrun --grace tr\t", ["--grace", "tr"]),
    ("dsrun tr\t", ["train.py"]),
    (
        "dsrun -q --no-python --num_gpus 2 tr\t",
        ["-q", "--no-python", "--num_gpus", "2", "train.py"],
    ),
    ("dsrun train.py --num_n\t", ["train.py", "--num_n"]),
    ("dsrun train.py ho\t", ["train.py", "hostfile.txt"]),
    ("dsrun -- --num_n\t", ["--", "--num_n"]),
    ("dsrun -H train.py --num_n\t", ["-H", "train.py", "--num_nodes"]),
    ("dsrun-topo --bind-m\t au\t", ["--bind-memory", "auto"]),
    ("dsrun-topo --hostfi\t", ["--hostfi"]),
    ("dsrun-elastic -c ho\t --w\t", ["-c", "hostfile.txt", "--world_size"]),
    ("dsrun-job sc\t EN\t 4", ["scale", "END", "4"]),
]
"""What is typed, and the arguments that the command gets.

In these shells `dsrun-job` is a function that prints a line and END, as if a job of that name ran.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two files and a folder."""
    path = tmp_path_factory.mktemp("typed")
    (path / "hostfile.txt").touch()
    (path / "train.py").touch()
    (path / "logs").mkdir()
    return path


@pytest.fixture(scope="module", params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, folder: Path) -> Iterator[Shell]:
    need(request.param)
    shell = Shell(request.param, folder)
    yield shell
    shell.close()


@pytest.mark.parametrize(("line", "arguments"), LINES)
def test_tab_in_bash_and_zsh(shell: Shell, line: str, arguments: list[str]) -> None:
    assert [word.rstrip("/") for word in shell.arguments(line)] == arguments


# fish tells what it would offer, so no terminal is needed.
OFFERED = [
    ("dsrun --hostfi", "--hostfile"),
    ("dsrun --num_n", "--num_nodes"),
    ("dsrun --num-n", "--num-nodes"),
    ("dsrun --color ne", "never"),
    ("dsrun --color=ne", "--color=never"),
    ("dsrun --num-nodes=2 --rdzv-backend c1", "c10d"),
    ("dsrun --help sl", "slurm"),
    ("dsrun -H ho", "hostfile.txt"),
    ("dsrun --log_dir ho", ""),
    ("dsrun --log_dir lo", "logs/"),
    ("dsrun --grace tr", ""),
    ("dsrun -q --no-python --num_gpus 2 tr", "train.py"),
    ("dsrun train.py --num_n", ""),
    ("dsrun train.py ho", "hostfile.txt"),
    ("dsrun -- --num_n", ""),
    ("dsrun -H train.py --num_n", "--num_nodes"),
    ("dsrun-topo --bind_memory au", "auto"),
    ("dsrun-topo --hostfi", ""),
    ("dsrun-elastic -c ho", "hostfile.txt"),
    ("dsrun-job EN", "END"),
    ("dsrun-job sca", "scale"),
]
"""What is typed, and the one word that is offered for the last one; "" for none."""


@pytest.fixture(scope="module")
def offered(folder: Path) -> dict[str, list[str]]:
    need("fish")
    setup = [f"source {SHARE}/fish/vendor_completions.d/{name}.fish" for name in COMMANDS]
    setup.append("function dsrun-job; echo NAME; echo END; end")
    asked = [f"echo LINE; complete -C {quote(line)}" for line, _ in OFFERED]
    ran = subprocess.run(
        [shutil.which("fish") or "fish", "--no-config", "-c", "\n".join([*setup, *asked])],
        cwd=folder, env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True, timeout=HANG,
    )  # fmt: skip
    assert ran.stderr == ""
    answers = ran.stdout.split("LINE\n")[1:]
    words = [[row.partition("\t")[0] for row in answer.splitlines()] for answer in answers]
    return dict(zip((line for line, _ in OFFERED), words, strict=True))


@pytest.mark.parametrize(("line", "word"), OFFERED)
def test_what_fish_offers(offered: dict[str, list[str]], line: str, word: str) -> None:
    assert offered[line] == ([word] if word else [])


def test_every_command_has_a_script_for_every_shell() -> None:
    assert [command.name for command in commands()] == list(COMMANDS)
    assert len(files()) == 3 * len(COMMANDS)


def test_a_summary_is_the_first_sentence_and_short() -> None:
    assert summary(Row(("-a",), "", "Do it. Then more.")) == "Do it"
    assert summary(Row(("-a",), "", "Take NAME=VALUE,... Or not.")) == "Take NAME=VALUE,... Or not"
    assert max(len(summary(row)) for command in commands() for row in command.rows) <= 72
