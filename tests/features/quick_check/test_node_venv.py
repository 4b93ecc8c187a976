"""The result of sourcing a shell file: the environment of the workers, and their Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dsrun.launcher.features.quick_check.node_venv import environ_after, interpreter

USUAL = {b"PATH": os.environb[b"PATH"]}


def after(script: Path, base: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:
    return environ_after(os.fsencode(script), base or USUAL, os.fsencode(script.parent))


def test_the_environment_that_a_shell_file_leaves(tmp_path: Path) -> None:
    script = tmp_path / "activate"
    script.write_text(
        "export NEW='a b\\n c'\nunset GONE\nPLAIN=x\necho noise\nexport HERE=$(pwd)\n"
    )
    found = after(script, {**USUAL, b"GONE": b"1", b"KEPT": b"\xff"})
    assert (found[b"NEW"], found[b"KEPT"]) == (b"a b\\n c", b"\xff")
    assert found[b"HERE"] == os.fsencode(tmp_path), "sourced where the workers run"
    assert b"GONE" not in found
    assert b"PLAIN" not in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo No Conda here; exit 3\n", "it ended with code 3: No Conda here"),
        ("exit 3\n", "it ended with code 3"),
        ("echo 1; echo 2; echo 3; echo 4 >&2; false\n", "it ended with code 1: 2 / 3 / 4"),
        ("echo all well; exit 0\n", "it ended with code 0: all well"),
    ],
)
def test_a_shell_file_that_fails_has_its_own_words_shown(
    tmp_path: Path, text: str, said: str
) -> None:
    script = tmp_path / "activate"
    script.write_text(text)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        after(script)
    assert str(caught.value) == said


def test_a_shell_file_that_is_missing_or_may_be_anybodys(tmp_path: Path) -> None:
    script = tmp_path / "activate"
    with pytest.raises(FileNotFoundError):
        after(script)
    script.touch()
    script.chmod(0o666)
    with pytest.raises(PermissionError, match="writable by all"):
        after(script)
    script.unlink()
    os.mkfifo(script)
    with pytest.raises(OSError, match="is not a regular file"):
        after(script)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("{0}", "{0}", ""),  # it only sets other variables
        ("{0}", "{1}:{0}", "{1}/python"),
        ("{0}:/bin", "{2}:{0}:/bin", "{2}/python3"),  # as Debian has it: no `python`
        ("{0}", "{3}:{0}", ""),  # tools, and no python among them
        ("{0}", "{2}:{1}:{0}", "{1}/python"),
        ("{0}", "{0}:{1}", ""),  # not the first
        ("{1}:{0}", "{0}:{1}", "{0}/python"),
        ("{1}:{0}", "{1}:{1}:{0}", "{1}/python"),  # it was active already
        ("{0}:/bin", "{1}:/bin", "{1}/python"),  # in place of another
    ],
)
def test_the_python_that_a_shell_file_puts_first(
    tmp_path: Path, before: str, after: str, found: str
) -> None:
    folders = [tmp_path / name for name in ("usual", "venv", "debian", "tools")]
    for folder, name in zip(folders, ("python", "python", "python3", "ninja"), strict=True):
        folder.mkdir()
        (folder / name).symlink_to(sys.executable)
    told = [text.format(*folders).encode() for text in (before, after, found)]
    assert interpreter({b"PATH": told[0]}, {b"PATH": told[1]}) == told[2]


def test_an_env_of_the_script_is_not_run(tmp_path: Path) -> None:
    """What dsrun needs itself is not searched on the PATH of workers."""
    (tmp_path / "env").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "env").chmod(0o755)
    script = tmp_path / "activate"
    script.write_text(f"PATH={tmp_path}:$PATH\n")
    assert after(script)[b"PATH"].startswith(os.fsencode(tmp_path))


def test_a_python_in_a_relative_folder_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python3").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert interpreter({b"PATH": b"/bin"}, {b"PATH": b".:/bin"}) == b""
