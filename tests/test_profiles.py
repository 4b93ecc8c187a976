"""Configuration files as a user of the commands meets them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .support.checkout import BIN
from .support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path

ECHO = ("--no_python", "--no_local_rank", "sh", "-c", "echo $ROLE_NAME $DSRUN_PROFILE")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project in a home folder."""
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def run(
    folder: Path, *words: str, name: str = "dsrun", **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a project."""
    own = {"PATH": "/usr/bin:/bin", "HOME": str(folder.parent), "DSRUN_ACCELERATOR": "cpu"}
    return subprocess.run(
        [sys.executable, str(BIN / name), *words],
        cwd=folder,
        env={**own, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )


def write(path: Path, *lines: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def refused(ran: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of a command that has started nothing."""
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    return ran.stderr.strip()


def test_a_job_runs_with_the_values_of_its_profile(folder: Path) -> None:
    write(folder / "dsrun.toml", "[default]", "num_gpus = 1", "prefix = ''", "log_level = 'error'")
    write(folder.parent / ".config/dsrun/config.toml", "[profile.lab]", "role = 'lab'")
    ran = run(folder, "--profile", "lab", *ECHO)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "lab\n", "")
    ran = run(folder, "--role=typed", *ECHO, DSRUN_PROFILE="lab")
    assert ran.stdout.split()[0] == "typed"


def test_a_file_does_not_count_inside_a_job(folder: Path) -> None:
    write(folder / "dsrun.toml", "[default]", "num_gpus = 1", "prefix = ''", "role = 'outer'")
    inner = f"{sys.executable} {BIN / 'dsrun'} --show_config"
    ran = run(folder, "--trust_here", "--no_python", "--no_local_rank", "sh", "-c", inner)
    assert ran.returncode == 0, ran.stderr
    assert "outer" not in ran.stdout
    assert "accelerator" in ran.stdout


def test_mistakes_in_a_file_start_nothing(folder: Path) -> None:
    path = write(folder / "dsrun.toml", "[default]", "num_gpu = 1")
    words = ("--no_python", "touch", "started")
    assert refused(run(folder, *words)) == (
        f"dsrun: {path}:2: num_gpu: unknown option (did you mean num_gpus?); see dsrun --help"
    )
    for name in ("dsrun-exec", "dsrun-check", "dsrun-hold"):
        assert f"{path}:2: num_gpu" in refused(run(folder, name=name))
    write(folder / "dsrun.toml", "[profile.lab]", "num_gpus = 1")
    assert "did you mean lab?" in refused(run(folder, "--profile=lav", *words))
    assert not (folder / "started").exists()


def test_an_error_in_planning_names_the_line_of_the_file(folder: Path) -> None:
    path = write(folder / "dsrun.toml", "[default]", "hostfile = 'missing'")
    ran = run(folder, "--trust_here", "train.py")
    assert refused(ran).startswith(f"dsrun: {path}:2: hostfile missing")


def test_a_hook_of_a_project_runs_once_the_project_is_trusted(folder: Path) -> None:
    path = write(folder / "dsrun.toml", "[default]", "num_gpus = 1", "on_event = 'touch hooked'")
    words = ("--no_python", "--no_local_rank", "true")
    assert f"{path}:3: on_event" in refused(run(folder, *words))
    assert not (folder / "hooked").exists()
    trusted = run(folder, "--trust", ".")
    assert (trusted.returncode, trusted.stdout) == (0, f"trusted as it is now: {path}\n")
    assert run(folder, *words).returncode == 0
    assert (folder / "hooked").exists()


COMMANDS = {
    "dsrun": ("--no_python", "--no_local_rank", "touch", "started"),
    "dsrun-exec": ("touch", "started"),
    "dsrun-check": ("--report",),
    "dsrun-hold": ("--name", "x"),
}


@pytest.mark.parametrize(("name", "words"), COMMANDS.items())
def test_without_trust_no_command_does_what_a_project_says(
    name: str, words: tuple[str, ...], folder: Path
) -> None:
    kept = folder / "kept"
    kept.write_text("mine\n")
    path = write(
        folder / "dsrun.toml",
        *("[default]", "num_gpus = 1", "health_command = 'touch ran'", f"report_file = '{kept}'"),
        *("export = ['LD_PRELOAD=/x.so']", "accept_new_host_keys = true", "quiet = true"),
    )
    names = ("health_command", "report_file", "export", "accept_new_host_keys", "quiet")
    keys = ", ".join(f"{path}:{line}: {key}" for line, key in enumerate(names, 3))
    said = refused(run(folder, *words, name=name))
    assert said.partition(": ")[2] == (
        f"{keys}: need trust, and this file is not trusted; read it, then run:"
        f" dsrun --trust {folder}"
    )
    assert {one.name for one in folder.iterdir()} == {"dsrun.toml", "kept"}
    assert kept.read_text() == "mine\n"


@pytest.mark.parametrize(("name", "words"), COMMANDS.items())
def test_a_file_in_a_folder_for_everybody_is_skipped_with_one_line(
    name: str, words: tuple[str, ...], folder: Path
) -> None:
    path = write(folder / "open" / "dsrun.toml", "[default]", "grace = 'wrong'")
    (folder / "open" / "mine").mkdir()
    (folder / "open").chmod(0o1777)
    ran = run(folder / "open" / "mine", "--show_config", *words, name=name)
    assert ran.returncode == 0
    assert ran.stderr == (
        f"dsrun: {path}: not read, as other users could have written it: {folder / 'open'}:"
        " everyone can change it\n"
    )
    assert "grace" not in ran.stdout


def test_roles_are_told_once_of_a_file_that_is_skipped(folder: Path) -> None:
    write(folder / "open" / "dsrun.toml", "[default]", "grace = 1")
    write(folder / "open" / "t.py")
    (folder / "open").chmod(0o1777)
    role = ("--program", "a", "--num_nodes=1", "--ends=job", "open/t.py")
    ran = run(folder, "--dry_run", "--host=h1:2", *role)
    assert (ran.returncode, ran.stderr.count("not read")) == (0, 1), ran.stderr


def test_show_config_prints_and_starts_nothing(folder: Path) -> None:
    path = write(folder / "dsrun.toml", "[default]", "num_gpus = 1")
    ran = run(folder, "--show_config", "--grace=5", "--no_python", "touch", "started")
    assert ran.returncode == 0, ran.stderr
    width = len('accelerator = "cpu"')
    assert ran.stdout.splitlines() == [
        f"{'num_gpus = 1':<{width}}  # {path}:2",
        f"{'no_python = true':<{width}}  # command line",
        f"{'grace = 5.0':<{width}}  # command line",
        'accelerator = "cpu"  # DSRUN_ACCELERATOR',
    ]
    assert not (folder / "started").exists()
    ran = run(folder, "--show_config", name="dsrun-exec")
    assert (ran.returncode, ran.stdout) == (0, "# all options have their default values\n")


def test_a_start_without_files_loads_nothing_for_them(folder: Path) -> None:
    probe = (
        "import sys; from dsrun.launcher.cli.parser import configured;"
        " configured(['train.py'], {});"
        " print([name for name in sys.modules if 'toml' in name or 'config_files' in name])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=folder,
        env={"PYTHONPATH": str(BIN.parent / "tests" / "import"), "HOME": str(folder.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_profiles_are_shown_where_none_is_chosen(folder: Path) -> None:
    (folder / "dsrun.toml").write_text("[profile.lab]\nnum_gpus = 2\n[profile.big]\ngrace = 3\n")
    path = folder / "dsrun.toml"
    shown = run(folder, "--show_config", "x.py")
    line = f"# profiles, for --profile NAME: {path}: lab, big\n"
    assert (shown.returncode, shown.stdout.splitlines(keepends=True)[-1]) == (0, line)
    chosen = run(folder, "--profile", "lab", "--show_config", "x.py").stdout
    assert "num_gpus = 2" in chosen
    assert "# profiles" not in chosen


def test_the_file_itself_may_be_trusted(folder: Path) -> None:
    (folder / "dsrun.toml").write_text("[default]\nhost = 'n1'\n")
    assert run(folder, "--trust", "dsrun.toml").returncode == 0
    assert run(folder, "--trust", str(folder / "dsrun.toml")).returncode == 0
