"""Which part of a path keeps a user from it, and which right is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import executable, output_file
from dsrun.launcher.common.access import absence, denied, problem
from dsrun.launcher.common.errors import UsageError, in_words, reason

from ..support.checkout import IMPORTABLE
from ..support.local_control import needs_root
from ..support.needs import need
from ..support.other_user import WORDS, open_folder, other_user

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSED = (
    f"{WORDS} may not enter {{folder}}/closed: no x permission (drwx------, owned by user root)"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with one that only root may enter, links into it, and files without some rights."""
    with open_folder() as path:
        (path / "closed" / "in").mkdir(parents=True)
        (path / "closed" / "in" / "file").touch()
        (path / "closed").chmod(0o700)
        (path / "link").symlink_to("closed/in")
        (path / "far").symlink_to(path / "link" / "file")
        (path / "loop").symlink_to("loop")
        for name, mode in (("secret", 0o600), ("program", 0o700), ("text", 0o644)):
            (path / name).touch()
            (path / name).chmod(mode)
        (path / "no-list").mkdir()
        (path / "no-list").chmod(0o711)
        yield path


@needs_root
@pytest.mark.parametrize(
    ("name", "right", "said"),
    [
        ("closed/in/file", os.R_OK, CLOSED),
        ("closed/none/at/all", os.R_OK, CLOSED),
        ("closed/../text", os.R_OK, CLOSED),
        ("link/file", os.R_OK, CLOSED),
        ("far", os.R_OK, CLOSED),
        (
            "secret",
            os.R_OK,
            f"{WORDS} may not read {{folder}}/secret:"
            " no r permission (-rw-------, owned by user root)",
        ),
        (
            "program",
            os.X_OK,
            f"{WORDS} may not execute {{folder}}/program:"
            " no x permission (-rwx------, owned by user root)",
        ),
        (
            "text",
            os.W_OK,
            f"{WORDS} may not write {{folder}}/text:"
            " no w permission (-rw-r--r--, owned by user root)",
        ),
        (
            "new",
            os.W_OK,
            f"{WORDS} may not write to {{folder}}:"
            " no w permission (drwxr-xr-x, owned by user root)",
        ),
        (
            "no-list",
            os.R_OK,
            f"{WORDS} may not list {{folder}}/no-list:"
            " no r permission (drwx--x--x, owned by user root)",
        ),
        ("text", os.R_OK, ""),
        ("new", os.R_OK, ""),
        ("loop", os.R_OK, ""),
        ("text/below", os.R_OK, ""),
    ],
)
def test_the_part_and_the_right(folder: Path, name: str, right: int, said: str) -> None:
    with other_user():
        found = denied(f"{folder}/{name}", right)
    assert found == said.format(folder=folder)
    assert denied(f"{folder}/{name}", right) == "", "root may do everything"


@needs_root
def test_a_relative_path_is_shown_as_an_absolute_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "no-list")
    with other_user():
        assert denied("../closed/in", os.R_OK) == CLOSED.format(folder=folder)


@needs_root
@pytest.mark.parametrize("name", ["closed", "closed/in"])
def test_the_current_folder_may_be_one_that_cannot_be_entered(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As after `cd /root; sudo -u somebody`, where not even the folder itself can be seen."""
    (folder / "closed" / "in").chmod(0o700)
    monkeypatch.chdir(folder / name)
    with other_user():
        assert denied("./file", os.R_OK) == CLOSED.format(folder=folder)


@needs_root
def test_what_is_not_there_and_what_cannot_be_seen(folder: Path) -> None:
    with other_user():
        assert absence(f"{folder}/none", "no such file") == "no such file"
        assert absence(f"{folder}/text/none", "no such file") == "no such file"
        assert absence(f"{folder}/text\0", "no such file") == "no such file"
        assert absence(f"{folder}/text", "no such file") == ""
        assert absence(f"{folder}/loop", "no such file") == "too many levels of symbolic links"
        closed = f"permission denied: {CLOSED.format(folder=folder)}"
        assert absence(f"{folder}/closed/none", "no such file") == closed
        assert problem("script", f"{folder}/x.py", os.R_OK) == f"no such script: {folder}/x.py"
        assert problem("script", f"{folder}/text", os.R_OK) == ""
        found = problem("script", f"{folder}/far", os.R_OK)
    assert found == f"script {folder}/far: {CLOSED.format(folder=folder)}"


@needs_root
def test_every_error_of_the_kernel_about_a_path_says_it(folder: Path) -> None:
    path = f"{folder}/closed/in/file"
    with other_user(), pytest.raises(PermissionError) as caught:
        os.open(path, os.O_RDONLY)
    with other_user():
        assert in_words(caught.value) == f"{path}: {reason(caught.value)}"
        assert reason(caught.value) == f"permission denied: {CLOSED.format(folder=folder)}"
    assert reason(caught.value) == "permission denied", "the right is there now"
    assert reason(PermissionError(1, "belongs to another user", path)) == "belongs to another user"


@needs_root
def test_an_output_file_in_a_closed_folder_is_not_one_without_a_folder(folder: Path) -> None:
    said = f"--report_file {folder}/closed/in/new: permission denied: {CLOSED}"
    with other_user(), pytest.raises(UsageError) as caught:
        output_file.check("--report_file", f"{folder}/closed/in/new")
    assert str(caught.value) == said.format(folder=folder)


@needs_root
def test_a_program_that_only_another_user_may_execute(folder: Path) -> None:
    with other_user():
        assert executable.fault(f"{folder}/program").startswith(f"{WORDS} may not execute ")
        assert executable.fault(f"{folder}/link/file").endswith(CLOSED.format(folder=folder))
        assert executable.fault(f"{folder}/text") == f"is not executable (chmod +x {folder}/text)"


MOUNTED = """
mount -t tmpfs -o mode=755 disk "$1" && printf '#!/bin/sh\\n' > "$1/run" && chmod 755 "$1/run"
mount -o remount,ro,noexec "$1"
exec "$2" -c 'import sys
from dsrun.launcher.common import executable, output_file
from dsrun.launcher.common.errors import UsageError
print(executable.fault(sys.argv[1]))
try:
    output_file.check("--report_file", sys.argv[1])
except UsageError as error:
    print(error)' "$1/run"
"""


@needs_root
def test_how_a_file_system_is_mounted(tmp_path: Path) -> None:
    need("unshare", "mount")
    command = ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", str(tmp_path), sys.executable]
    environ = {**os.environ, **IMPORTABLE}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == [
        f"user root may not execute {tmp_path}/run: {tmp_path} is mounted noexec; copy it"
        " elsewhere, or run its interpreter",
        f"--report_file {tmp_path}/run: user root may not write {tmp_path}/run: {tmp_path} is"
        " mounted read-only",
    ], ran.stderr
