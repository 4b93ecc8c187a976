"""What `--fetch` runs on a host, and where the files go."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.exec.runner_fetch import FetchedArchives, names, pack_argv
from dsrun.launcher.features.exec.runner_results import HostResult

if TYPE_CHECKING:
    from pathlib import Path


def fetched(to: Path, *paths: str) -> tuple[int, HostResult]:
    """Fetch from a host as it is done: its command, and our side of it."""
    done = subprocess.run(pack_argv(paths), capture_output=True, check=False)
    result = HostResult("n1")
    result.code = done.returncode
    both = FetchedArchives(str(to), names(paths), ["n1"], lambda _text, _level: None)
    both.receivers["n1", 1].add(done.stdout)
    both.finish({"n1": result})
    return done.returncode, result


def test_files_arrive_in_the_folder_of_their_host(tmp_path: Path) -> None:
    (tmp_path / "logs" / "a b").mkdir(parents=True)
    (tmp_path / "logs" / "a b" / "-x\n").write_text("one")
    (tmp_path / "logs" / "link").symlink_to("a b/-x\n")
    (tmp_path / "-top").write_text("two")
    code, result = fetched(tmp_path / "to", f"{tmp_path}/logs/", f"{tmp_path}/-top")
    assert (code, result.cause) == (0, "")
    assert (tmp_path / "to/n1/logs/a b/-x\n").read_text() == "one"
    assert not (tmp_path / "to/n1/logs/link").is_symlink(), "what a link points to is fetched"
    assert (tmp_path / "to/n1/logs/link").read_text() == "one"
    assert (tmp_path / "to/n1/-top").read_text() == "two"


def test_what_is_missing_is_named_with_its_path() -> None:
    done = subprocess.run(pack_argv(["/missing/y", "z"]), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    missing = ["no such file or folder: /missing/y", "no such file or folder: ./z"]
    assert done.stderr.decode().splitlines() == missing


def test_what_is_missing_is_a_failure_and_the_rest_arrives(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    code, result = fetched(tmp_path / "to", "/missing/y", f"{tmp_path}/x")
    assert code == result.exit_code == 2
    assert (tmp_path / "to/n1/x").read_text() == "x"


def test_what_cannot_be_written_here_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    (tmp_path / "to").write_text("a file")
    _, result = fetched(tmp_path / "to", f"{tmp_path}/x")
    assert result.exit_code == 1
    assert "not a directory" in result.cause or "file exists" in result.cause


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    result = HostResult("n1")
    result.code = 0
    both = FetchedArchives(str(tmp_path), ["x"], ["n1"], lambda _text, _level: None)
    both.receivers["n1", 1].skipped = "x/pipe"
    both.finish({"n1": result})
    assert (result.exit_code, result.cause) == (1, "'x/pipe' is neither a file nor a folder")


@pytest.mark.parametrize("path", ["/", ".", "..", "a/..", ""])
def test_a_path_needs_a_name(path: str) -> None:
    with pytest.raises(UsageError, match="with a name"):
        pack_argv([path])


def test_two_files_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two files would be named 'x'"):
        names(["/a/x", "/b/x/"])
