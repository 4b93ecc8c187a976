"""Why a file cannot be run, told before the kernel tells it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsrun.launcher.common.executable import fault


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x7fELF", ""),
        (b"", ""),
        (b"#!/bin/sh -e\n", ""),
        (b"#! \t/usr/bin/env python\n", ""),
        (b"#!/bin/sh", ""),
        (b"#!\n", ""),
        (
            b"#!/usr/bin/pyhton -u\nprint()\n",
            "its interpreter /usr/bin/pyhton (first line) does not",
        ),
        (b"#!/etc/passwd\n", "its interpreter /etc/passwd (first line) is not executable"),
        (b"#!/bin/sh\r\necho\r\n", "its first line ends in a carriage return, as on Windows"),
        (b"#!" + b"x" * 9999, "its interpreter xxx"),
    ],
)
def test_the_first_line_names_what_runs_it(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "run"
    path.write_bytes(content)
    path.chmod(0o755)
    found = fault(str(path))
    assert found.startswith(said)
    assert bool(found) is bool(said)


def test_what_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    os.mkfifo(tmp_path / "pipe", 0o755)
    assert fault(f"{tmp_path}/none") == "no such file"
    assert fault(f"{tmp_path}") == "is a folder, not a program"
    assert fault(f"{tmp_path}/pipe") == "is a pipe, not a program"
    assert fault(f"{tmp_path}/text") == f"is not executable (chmod +x {tmp_path}/text)"
