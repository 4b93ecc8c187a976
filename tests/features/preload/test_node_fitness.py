"""Which workers a preloader has imported for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.preload.node_fitness import (
    below,
    changed,
    cpus_changed,
    env_changed,
    parse,
    without,
)

from ...support.fake_preloader import REPORT

if TYPE_CHECKING:
    from pathlib import Path

    from dsrun.launcher.features.preload.node_fitness import Imported


def imported(**report: Any) -> Imported:
    return parse(REPORT | report)


READ = {"HOME": "/root", "LOCAL_RANK": None, "OMP_NUM_THREADS": "2", "NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ({"HOME": "/root", "OMP_NUM_THREADS": "2", "RANK": "1"}, ""),
        ({"HOME": "/root", "OMP_NUM_THREADS": "2", "LOCAL_RANK": "0"}, "LOCAL_RANK"),
        ({"HOME": "/home", "OMP_NUM_THREADS": "2"}, "HOME"),
        ({"OMP_NUM_THREADS": "2"}, "HOME"),
        ({"HOME": "/root", "OMP_NUM_THREADS": "4"}, "OMP_NUM_THREADS"),
        ({"HOME": "/root", "OMP_NUM_THREADS": "2", "OMP_PLACES": "cores"}, "OMP_PLACES"),
        ({"HOME": "/root", "OMP_NUM_THREADS": "2", "NCCL_DEBUG": "WARN"}, ""),
        ({"HOME": "/root", "OMP_NUM_THREADS": "2", "GLOO_SOCKET_IFNAME": "eth1"}, ""),
    ],
)
def test_what_was_read_has_to_be_the_same(env: dict[str, str], name: str) -> None:
    one = imported(read=READ, prefixes=["OMP_", "GLOO_"])
    assert env_changed(one, {k.encode(): v.encode() for k, v in env.items()}) == name


def test_variables_are_bytes() -> None:
    one = imported(read={"A": b"\xff".decode("utf-8", "surrogateescape")})
    assert env_changed(one, {b"A": b"\xff"}) == ""
    assert env_changed(one, {b"A": b"\xfe"}) == "A"


@pytest.mark.parametrize(
    ("counted", "cpus", "other"),
    [
        (None, (1,), False),
        ([0, 1], (), False),
        ([0, 1], (1, 0), False),
        ([0, 1], (1,), True),
        ([], (1,), True),
    ],
)
def test_cpus_count_if_libraries_rely_on_them(
    counted: list[int] | None, cpus: tuple[int, ...], other: bool
) -> None:
    assert cpus_changed(imported(cpus=counted), cpus) is other


def test_files_and_folders_have_to_be_as_they_were(tmp_path: Path) -> None:
    file, folder = tmp_path / "m.py", tmp_path / "site-packages"
    file.write_text("x = 1")
    folder.mkdir()
    status = file.stat()
    files = {str(file): [status.st_mtime_ns, status.st_size]}
    one = imported(files=files, folders={str(folder): folder.stat().st_mtime_ns})
    assert changed(one) == ""
    (folder / "new").touch()
    os.utime(folder, ns=(1, 1))
    assert changed(one) == str(folder)
    file.write_text("x = 22")
    os.utime(file, ns=(1, status.st_mtime_ns))
    assert changed(one) == str(file)
    file.unlink()
    assert changed(one) == str(file)


def test_a_file_that_changed_during_the_import_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.touch()
    assert changed(imported(files={str(file): [-1, 0]})) == str(file)
    file.unlink()
    assert changed(imported(files={str(file): [-1, -1]})) == str(file)


def test_modules_may_come_from_a_folder() -> None:
    one = imported(files={"/work/m.py": [1, 1]})
    assert below(one, "/work")
    assert not below(one, "/wor")


@pytest.mark.parametrize(
    "message",
    [{}, REPORT | {"files": {"a": 1}}, REPORT | {"files": {"a": ["x", 1]}}, REPORT | {"cpus": 1}],
)
def test_what_is_no_report_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        parse(message)


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        (None, None),
        (b"/work", None),
        (b"/work:/a:/b", b"/a:/b"),
        (b"/worker:/a", b"/worker:/a"),
        (b"/a:/work", b"/a:/work"),
    ],
)
def test_the_workers_folder_on_the_path_does_not_count(
    path: bytes | None, rest: bytes | None
) -> None:
    env = {b"A": b"1"} | ({} if path is None else {b"PYTHONPATH": path})
    left = without(b"/work", env)
    assert (left[b"A"], left.get(b"PYTHONPATH")) == (b"1", rest)
    assert without(b"", env) == env
