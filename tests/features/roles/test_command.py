"""dsrun with several programs: the command up to the start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dsrun.launcher import runner
from dsrun.launcher.cli.parser import parse
from dsrun.launcher.features.roles.command import read

from ...support import schemas

ROLES = """\
[[role]]
name = "server"
nodes = 1
command = ["serve", "{port.http}"]
ports = ["http"]
ends = "never"

[[role]]
name = "trainer"
nodes = 2
script = "train.py"
args = ["{server.addrs}"]
after = ["server"]
ends = "job"
"""

LINE = (
    *("--program", "server", "--num_nodes", "1", "--no_python", "--ports", "http"),
    *("--ends", "never", "serve", "{port.http}", ":"),
    *("--program", "trainer", "--num_nodes", "2", "--after", "server", "--ends", "job"),
    *("train.py", "{server.addrs}"),
)

HOSTS = ("--host", "h[1-4]:2", "--launcher", "ssh")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    (tmp_path / "rl.toml").write_text(ROLES)
    return tmp_path


def dsrun(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = runner.main([*words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_file_and_a_command_line_give_the_same_roles(capsys: pytest.CaptureFixture[str]) -> None:
    ways = [("--roles", "rl.toml"), LINE]
    shown = []
    for way in ways:
        code, out, err = dsrun(*HOSTS, "--dry_run", "--json", *way, capsys=capsys)
        assert (code, err) == (0, "")
        document = json.loads(out)
        assert schemas.faults("dry_run_roles", document) == []
        shown.append(document)
    assert shown[0] == shown[1]
    commands = shown[0]["job"]["commands"]
    assert [one["hosts"] for one in commands] == [["h1", "h2", "h3", "h4"]]


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = dsrun(*HOSTS, "--dry_run", *LINE, capsys=capsys)
    assert code == 0
    assert out.startswith("role     nodes   slots  workers  ports  after   ready")
    assert "order     server, then trainer\n" in out
    assert "commands:\n  each HOST of h1, h2, h3, h4:\n" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--roles", "none.toml"], "--roles none.toml: no such file or directory"),
        (
            ["--roles", "rl.toml", "train.py"],
            "--roles rl.toml: the file names the programs; leave out train.py",
        ),
        (["--roles", "rl.toml", *LINE], "--roles rl.toml: not with --program; use one of the two"),
        (["--ends", "job", "train.py"], "--ends: only for a role: in a --roles file, or after"),
        ([*LINE, ":"], "a lone : separates two programs, and one of them is missing"),
        (["--role", "x", "--roles", "rl.toml"], "--role: not with several programs"),
        (["--on", "lab", "--roles", "rl.toml"], "--on lab: not with --host, which dsrun-hold sets"),
        (["--json", "--roles", "rl.toml"], "--json: only with --dry_run"),
        (["--rdzv_backend", "c10d", "--roles", "rl.toml"], "--rdzv_backend c10d: not with several"),
    ],
)
def test_what_is_wrong_is_one_line_and_code_2(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = dsrun("--host", "h[1-4]:2", *words, capsys=capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"dsrun: {expected}")


def test_a_variable_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSRUN_ENDS", "job")
    code, _, err = dsrun("train.py", capsys=capsys)
    assert (code, err.partition(": only")[0]) == (2, "dsrun: DSRUN_ENDS")


def test_a_colon_of_one_program_is_an_argument() -> None:
    assert parse(["train.py", ":", "--program", "x"], {}).program == (
        *("train.py", ":", "--program", "x"),
    )


def test_the_first_script_tells_which_configuration_counts(folder: Path) -> None:
    (folder / "project").mkdir()
    (folder / "project" / "dsrun.toml").write_text("[default]\ngrace = 7\n")
    words = ["--quiet", "--program", "a", "--ends", "job", "project/t.py"]
    found = read(parse(words, {}), words)
    assert (found.job.options.grace, found.job.options.quiet, found.words) == (7, True, 1)
    assert [table.name for table in found.tables] == ["a"]


def test_slurm_is_asked_for_as_many_nodes_as_roles_need(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "salloc").touch(mode=0o755)
    words = ["--dry_run", "--launcher", "slurm", "--launcher_path", str(folder)]
    words += ["--launcher_args", "-p gpu"]
    code, out, err = dsrun(*words, "--roles", "rl.toml", capsys=capsys)
    assert (code, err) == (0, "")
    line = out.splitlines()[-1].split()
    assert line[1:4] == ["--nodes=3", "-p", "gpu"]
    again = line[line.index(sys.executable) :]
    assert again[-3:] == ["--roles", "rl.toml", "--launcher_args="]
    code, out, _ = dsrun(*words, *LINE, capsys=capsys)
    line = out.splitlines()[-1].split()
    assert line[line.index("--launcher_args=") + 1] == "--program"


def test_without_ssh_nodes_have_their_places_by_number(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--no_ssh", "--num_nodes", "3", "--num_gpus", "2", "--node_rank", "0"]
    words += ["--master_addr", "127.0.0.1", "--dry_run", "--json", "--roles", "rl.toml"]
    (folder / "train.py").touch()
    code, out, err = dsrun(*words, capsys=capsys)
    assert code == 0, err
    document = json.loads(out)
    _, trainer = document["roles"]
    assert [node["host"] for node in trainer["job"]["nodes"]] == ["node-1", "node-2"]
