"""Archives of hosts, honest ones and others."""

from __future__ import annotations

import io
import os
import random
import subprocess
import tarfile
from pathlib import Path

import pytest

from dsrun.launcher.head.exec.unpack import Unpacker

ODD = "it's\n\udcff a b"


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, len(data), 0o4755
    body = data + bytes(-len(data) % 512)
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape") + body


def unpack(folder: Path, archive: bytes, *names: str) -> tuple[str, list[str]]:
    """Unpack in one piece; return the problem and what was left out."""
    unpacker = Unpacker(str(folder), names or ("x",))
    unpacker.add(archive)
    return unpacker.close(), unpacker.skipped


def found(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("kind", ["gnu", "pax", "ustar"])
def test_what_tar_writes_is_read_however_it_is_cut(kind: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    deep = tree / ("long" * 20) / ("name" * 20)
    deep.mkdir(parents=True)
    (tree / (ODD if kind != "ustar" else "a b")).write_bytes(os.urandom(70_001))
    (tree / "empty").touch()
    (deep / "run").write_text("x")
    (deep / "run").chmod(0o751)
    command = ["tar", "-C", str(tmp_path), f"--format={kind}", "-cf", "-", "./tree"]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    unpacker = Unpacker(str(tmp_path / "to"), ["tree"])
    rest, chance = archive, random.Random(1)
    while rest:
        size = chance.choice([1, 511, 512, 513, 4000, 30_000])
        unpacker.add(rest[:size])
        rest = rest[size:]
    assert unpacker.close() == ""
    assert found(tmp_path / "to" / "tree") == found(tree)
    odd = ODD if kind != "ustar" else "a b"
    assert (tmp_path / "to/tree" / odd).read_bytes() == (tree / odd).read_bytes()
    run = tmp_path / "to/tree" / deep.relative_to(tree) / "run"
    assert run.stat().st_mode & 0o7777 == 0o751
    assert run.stat().st_mtime == int((deep / "run").stat().st_mtime)


@pytest.mark.parametrize(
    "name", ["/etc/x", "../x", "x/../../y", "y", "./y", "x/./../..", "..", "x//y", "", "/"]
)
def test_nothing_is_written_outside(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "in" / "n1"
    problem, _ = unpack(folder, member(name, b"bad"))
    assert "which was not asked for" in problem
    assert [path for path in found(tmp_path) if (tmp_path / path).is_file()] == []


def test_links_and_devices_are_left_out_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    archive = member("x", kind=tarfile.DIRTYPE)
    archive += member("x/link", kind=tarfile.SYMTYPE, link=str(outside))
    archive += member("x/hard", kind=tarfile.LNKTYPE, link="/etc/passwd")
    archive += member("x/null", kind=tarfile.CHRTYPE) + member("x/pipe", kind=tarfile.FIFOTYPE)
    archive += member("x/link/file", b"inside")
    problem, skipped = unpack(tmp_path / "n1", archive)
    assert (problem, skipped) == ("", ["x/link", "x/hard", "x/null", "x/pipe"])
    assert found(tmp_path / "n1") == ["x", "x/link", "x/link/file"]
    assert found(outside) == []


def test_a_link_that_was_there_is_not_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "n1"
    outside.mkdir()
    folder.mkdir()
    (folder / "x").symlink_to(outside)
    problem, _ = unpack(folder, member("x/file", b"bad"))
    assert "not a directory" in problem or "symbolic links" in problem
    assert found(outside) == []
    (outside / "kept").write_text("kept")
    (folder / "y").symlink_to(outside / "kept")
    assert unpack(folder, member("y", b"new"), "y")[0] == ""
    assert (outside / "kept").read_text() == "kept"
    assert (folder / "y").read_bytes() == b"new"


def test_a_part_of_a_file_does_not_stay(tmp_path: Path) -> None:
    folder = tmp_path / "n1"
    folder.mkdir()
    (folder / "x").write_text("earlier")
    problem, _ = unpack(folder, member("x", b"y" * 5000)[:3000])
    assert problem == "its archive is not complete"
    assert found(folder) == ["x"]
    assert (folder / "x").read_text() == "earlier"


def test_several_archives_may_follow_each_other(tmp_path: Path) -> None:
    archive = member("x", b"1") + bytes(10240) + member("y", b"2") + bytes(1024)
    assert unpack(tmp_path / "n1", archive, "x", "y") == ("", [])
    assert found(tmp_path / "n1") == ["x", "y"]


def test_nothing_is_made_of_nothing(tmp_path: Path) -> None:
    assert unpack(tmp_path / "n1", b"") == ("", [])
    assert found(tmp_path) == []


@pytest.mark.parametrize("seed", range(40))
def test_no_damage_to_an_archive_writes_elsewhere_or_raises(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("x", "x" * 150, ODD):
            info = tarfile.TarInfo(f"x/{name}")
            info.size = 700
            archive.addfile(info, io.BytesIO(b"d" * 700))
    data = bytearray(stream.getvalue())
    for _ in range(chance.randrange(1, 6)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    unpacker = Unpacker(str(tmp_path / "in" / "n1"), ["x"])
    unpacker.add(bytes(data))
    unpacker.close()
    assert all(path.split("/")[0] == "in" for path in found(tmp_path))
    assert not [path for path in found(tmp_path) if "dsrun-part" in path]
