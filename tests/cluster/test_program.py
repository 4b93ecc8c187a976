"""The user's program runs as it was typed: arguments, variables, paths and its own interpreter."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.needs import need
from . import tell
from .jobs import EVERYWHERE, options
from .scripts import LOCAL, TRACEBACK, hostfile, script
from .tell import told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .command import Dsrun
    from .hosts import Cluster
NAMES = ["with space", "it's", 'do"u', "é☃", "$(touch PWN)", "a;b", "-dash", "\udcff"]

everywhere = pytest.mark.parametrize("backend", EVERYWHERE, indirect=True)
near_and_far = pytest.mark.parametrize("backend", ["local", "ssh"], indirect=True)

HOSTILE = [
    *("plain", "two words", " lead", "trail ", "", "'", '"', "it's", 'a"b', "\\", "\\\\n", "a=b"),
    *("$HOME", "${HOME}", "$(touch PWN)", "`touch PWN`", "; touch PWN", "| touch PWN", "> PWN"),
    *("&& touch PWN", "&", "<", "*", "?", "[a-z]", "~", "!!", "#", "%h", "%n%t", "{a,b}", "="),
    *("a\nb", "\n", "\t", "\r", "\x01\x1b[31m", "\x7f", "é ☃ 🚀", "\udcff\udcc3(", "@file"),
    *("-", "--", "---", "-x", "--lr=0.1", "--instruction=a b c", '{"k": [1, "v"]}', "x" * 100_000),
]

LOOKALIKES = [
    *("--n", "3", "--e", "x", "--include", "y", "--hostfile", "z", "-H", "q", "--help", "-h"),
    *("--dry_run", "--json", "-m", "--stdio", "--world_info=e30=", "--node_rank", "9", "--", "--"),
    *("--local_rank=7", "--launcher=pdsh", "--unknown", "-i", "a@b:0", "--dial=x", "--num_gpus=0"),
]


@pytest.fixture
def backend(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> tuple[str, ...]:
    """Options for two workers with this backend."""
    name: str = request.param
    if name == "local":
        return (*LOCAL, "--num_gpus", "2")
    need(*({"pdsh"} & {name}))
    return (*options(name), *hostfile(cluster, tmp_path, 1, 1))


@pytest.fixture
def here(tmp_path: Path) -> tuple[str, ...]:
    """Options with which a worker that runs `tell.SCRIPT` tells it to `tmp_path`."""
    return ("--export", f"TELL={tmp_path}")


def encoded(words: Sequence[str]) -> list[bytes]:
    """The words as execve(2) is given them."""
    return [os.fsencode(word) for word in words]


@everywhere
@pytest.mark.parametrize("words", [HOSTILE, LOOKALIKES, ["--help"], ["-x", "--", "y"]])
def test_arguments_arrive_byte_for_byte(
    dsrun: Dsrun, tmp_path: Path, backend: tuple[str, ...], here: tuple[str, ...], words: list[str]
) -> None:
    done = dsrun(*backend, *here, tell.SCRIPT, *words)
    assert done.returncode == 0, done.stderr
    found = told(tmp_path)
    assert len(found) == 2
    for one in found:
        assert one.argv == encoded([tell.SCRIPT, f"--local_rank={one['LOCAL_RANK']}", *words])
    assert not list(tmp_path.glob("**/PWN*"))


@pytest.mark.parametrize("option", ["DSRUN_NO_LOCAL_RANK", "--no_local_rank", "--no-local-rank"])
def test_no_local_rank(dsrun: Dsrun, tmp_path: Path, here: tuple[str, ...], option: str) -> None:
    env = {option: "1"} if option.startswith("DSRUN") else {}
    options = () if env else (option,)
    done = dsrun(*LOCAL, "--num_gpus", "2", *here, *options, tell.SCRIPT, "a", env=env)
    assert done.returncode == 0
    assert [one.argv for one in told(tmp_path)] == [encoded([tell.SCRIPT, "a"])] * 2


@pytest.mark.parametrize(
    "options",
    [
        ("--nproc_per_node", "2"),
        ("--nproc-per-node=2",),
        ("--standalone", "--num_gpus", "2"),
        ("--nnodes=1", "--nproc_per_node=2"),
        ("--nnodes=1:1", "--nproc_per_node=2"),
    ],
)
def test_a_line_for_torchrun_passes_no_local_rank(
    dsrun: Dsrun, tmp_path: Path, here: tuple[str, ...], options: Sequence[str]
) -> None:
    done = dsrun(*options, *here, tell.SCRIPT, "--lr", "1")
    assert done.returncode == 0, done.stderr
    found = told(tmp_path)
    assert [one.argv for one in found] == [encoded([tell.SCRIPT, "--lr", "1"])] * 2
    assert [one["LOCAL_RANK"] for one in found] == ["0", "1"]


@everywhere
@pytest.mark.parametrize(
    ("flags", "program"),
    [
        (("-m",), "work.tell"),
        (("--module",), "work.tell"),
        (("-m", "--"), "work.tell"),
        (("--",), "work/tell.py"),
        ((), "work/tell.py"),
    ],
)
def test_modules_and_the_end_of_options(
    dsrun: Dsrun,
    tmp_path: Path,
    backend: tuple[str, ...],
    here: tuple[str, ...],
    flags: tuple[str, ...],
    program: str,
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "__init__.py").touch()
    shutil.copy(tell.SCRIPT, tmp_path / "work" / "tell.py")
    done = dsrun(*backend, *here, *flags, program, "-m", "--", "x y")
    assert done.returncode == 0, done.stderr
    found = told(tmp_path)
    assert len(found) == 2
    for one in found:
        assert one.argv[0].endswith(b"work/tell.py")
        assert one.argv[2:] == [b"-m", b"--", b"x y"]


@everywhere
def test_any_executable(dsrun: Dsrun, tmp_path: Path, backend: tuple[str, ...]) -> None:
    program = tmp_path / "do it.sh"
    program.write_text('#!/bin/sh\nprintf "%s|" "$0" "$@" > "ran-$RANK"\n')
    program.chmod(0o755)
    done = dsrun(*backend, "--no_python", "--no_local_rank", "./do it.sh", "a b", "", "$x")
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert (tmp_path / f"ran-{rank}").read_text() == "./do it.sh|a b||$x|"
    done = dsrun(*backend, "--no_python", "--no_local_rank", "touch", "on path")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "on path").exists()


@near_and_far
def test_another_interpreter(
    dsrun: Dsrun, tmp_path: Path, backend: tuple[str, ...], here: tuple[str, ...]
) -> None:
    python = tmp_path / "my pythons" / "python é"
    python.parent.mkdir()
    python.symlink_to(os.path.realpath(sys.executable))
    # A node launcher has a folder of its own; what is typed here is found from here.
    named = ("--python", "./python é")
    done = dsrun(*backend, *here, *named, tell.SCRIPT, cwd=python.parent)
    assert done.returncode == 0, done.stderr
    found = told(tmp_path)
    assert [one.python for one in found] == [str(python)] * 2
    assert all(str(python.parent) in one["PATH"].split(":") for one in found)


@near_and_far
def test_a_virtual_environment(
    dsrun: Dsrun, tmp_path: Path, backend: tuple[str, ...], here: tuple[str, ...]
) -> None:
    folder = tmp_path / "the venv's"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))  # as Debian has it
    activate = folder / "bin" / "activate"
    activate.write_text(
        'export PATH="$PWD/bin:$PATH" VIRTUAL_ENV="$PWD" NOTE="two\nlines"\necho hello\n'
    )
    done = dsrun(*backend, *here, "--venv_script", "bin/activate", tell.SCRIPT, cwd=folder)
    assert done.returncode == 0, done.stderr
    for one in told(tmp_path):
        assert one.python == str(folder / "bin" / "python3")
        assert (one["VIRTUAL_ENV"], one["NOTE"]) == (str(folder), "two\nlines")


@near_and_far
def test_a_shell_file_that_only_sets_variables(
    dsrun: Dsrun, tmp_path: Path, backend: tuple[str, ...], here: tuple[str, ...]
) -> None:
    (tmp_path / "nccl.sh").write_text("export NOTE=1\n")
    done = dsrun(*backend, *here, "--venv_script", "nccl.sh", tell.SCRIPT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [(one.python, one["NOTE"]) for one in told(tmp_path)] == [(sys.executable, "1")] * 2


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        ("echo No Conda; exit 3", 0o644, "3: No Conda"),
        ("true", 0o666, "writable by all"),
        (None, 0, "no such file"),
    ],
)
def test_a_virtual_environment_that_cannot_be_used(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, text: str | None, mode: int, reason: str
) -> None:
    activate = tmp_path / "activate"
    if text is not None:
        activate.write_text(text)
        activate.chmod(mode)
    done = dsrun(*hostfile(cluster, tmp_path, 1, 1), "--venv_script", str(activate), tell.SCRIPT)
    assert done.returncode == 2, "as no node can use what an option names"
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("dsrun: n1, n2: ")]
    assert f"--venv_script {activate}" in line
    assert reason in line
    assert TRACEBACK not in done.stderr


@everywhere
@pytest.mark.parametrize("name", NAMES)
def test_folders_of_any_name(
    dsrun: Dsrun, tmp_path: Path, backend: tuple[str, ...], here: tuple[str, ...], name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    work = folder / f"{name}.py"
    shutil.copy(tell.SCRIPT, work)
    options = (*backend, *here, "--no_local_rank", "--log_dir", f"logs {name}")
    done = dsrun(*options, f"./{name}.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    for one in told(tmp_path):
        assert (one.cwd, one.argv) == (os.fsencode(folder), encoded([f"./{name}.py"]))
    assert len(list(folder.glob("logs *"))) == 1
    done = dsrun(*backend, *here, "--workdir", name, "--", f"{name}.py")
    assert done.returncode == 0, done.stderr
    assert [one.cwd for one in told(tmp_path)] == [os.fsencode(folder)] * 2
    assert not list(tmp_path.glob("**/PWN"))


@everywhere
def test_the_folder_that_the_user_is_in(
    dsrun: Dsrun, tmp_path: Path, backend: tuple[str, ...], here: tuple[str, ...]
) -> None:
    """Its modules can be imported, and those that look like dsrun's own do it no harm."""
    for module in ("json", "signal", "launcher", "accelerator", "dsrun", "selectors"):
        (tmp_path / f"{module}.py").write_text(f"open('/run/PWN-{module}', 'w')\n")
    (tmp_path / "helper.py").write_text("VALUE = 'mine'\n")
    (tmp_path / "sub").mkdir()
    work = script(tmp_path / "sub", "import helper; print(helper.VALUE, os.environ['PYTHONPATH'])")
    shown = (*backend, *here, "--prefix", "", work)
    done = dsrun(*shown, env={"PYTHONPATH": "/elsewhere"})
    if backend[: len(LOCAL)] == LOCAL:
        # One machine alone is as without us: python looks beside the script, and the report helps.
        assert done.returncode == 1
        assert (
            "which python does not search for a script in another folder: use --export "
            in done.stderr
        )
        done = dsrun("--export", f"PYTHONPATH={tmp_path}:/elsewhere", *shown)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"mine {tmp_path}:/elsewhere"] * 2


@everywhere
def test_the_folder_by_the_name_the_user_knows(
    dsrun: Dsrun, tmp_path: Path, backend: tuple[str, ...], here: tuple[str, ...]
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "known").symlink_to("real")
    known = tmp_path / "known"
    environ = {"PWD": str(known), "PYTHONPATH": "/x"}
    done = dsrun(*backend, *here, tell.SCRIPT, cwd=known, env=environ)
    assert done.returncode == 0, done.stderr
    path = "/x" if backend[: len(LOCAL)] == LOCAL else f"{known}:/x"
    assert [(one.cwd, one["PYTHONPATH"]) for one in told(tmp_path)] == [
        (os.fsencode(tmp_path / "real"), path)
    ] * 2
