"""Archives of hosts, honest ones and others."""

from __future__ import annotations

import io
import os
import random
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.features.exec.runner_unpack import PART, Unpacker

from ...support.cost import LINEAR, growth
from ...support.properties import same_examples

ODD = "it's\n\udcff a b"


def member(
    name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "", **fields: int
) -> bytes:
    """One member of an archive, honest but for its name and what `fields` say of it."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, len(data), 0o4755
    for field, value in fields.items():
        setattr(info, field, value)
    body = data + bytes(-len(data) % 512)
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape") + body


def attributes(**values: str) -> bytes:
    """The attributes of the next member, as the pax format has them."""
    records = b"".join(record(f" {key}={value}\n") for key, value in values.items())
    return member("x", records, tarfile.XHDTYPE)


def record(rest: str) -> bytes:
    """One attribute, after the length of all of it."""
    data = rest.encode("utf-8", "surrogateescape")
    length = len(data) + 1
    while len(str(length)) + len(data) != length:
        length = len(str(length)) + len(data)
    return str(length).encode() + data


def unpacker(folder: Path, *names: str) -> Unpacker:
    return Unpacker(str(folder), names or ("x",), lambda _text, _level: None)


def unpack(folder: Path, archive: bytes, *names: str) -> tuple[str, str]:
    """Unpack in one piece; return the problem and what was left out."""
    one = unpacker(folder, *names)
    one.add(archive)
    return one.close(), one.skipped


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
    one = unpacker(tmp_path / "to", "tree")
    rest, chance = archive, random.Random(1)
    while rest:
        size = chance.choice([1, 511, 512, 513, 4000, 30_000])
        one.add(rest[:size])
        rest = rest[size:]
    assert one.close() == ""
    assert found(tmp_path / "to" / "tree") == found(tree)
    odd = ODD if kind != "ustar" else "a b"
    assert (tmp_path / "to/tree" / odd).read_bytes() == (tree / odd).read_bytes()
    run = tmp_path / "to/tree" / deep.relative_to(tree) / "run"
    assert run.stat().st_mode & 0o7777 == 0o751
    assert run.stat().st_mtime == int((deep / "run").stat().st_mtime)


@pytest.mark.parametrize(
    "name",
    [
        *("/etc/x", "../x", "x/../../y", "y", "./y", "x/./../..", "..", "x//y", "", "/"),
        *(".", "./", "./.", "././"),
    ],
)
def test_nothing_is_written_outside(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "in" / "n1"
    problem, _ = unpack(folder, member(name, b"bad"))
    assert "which was not requested" in problem
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
    assert (problem, skipped) == ("", "x/link")
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
    assert unpack(tmp_path / "n1", archive, "x", "y") == ("", "")
    assert found(tmp_path / "n1") == ["x", "y"]


def test_nothing_is_made_of_nothing(tmp_path: Path) -> None:
    assert unpack(tmp_path / "n1", b"") == ("", "")
    assert found(tmp_path) == []


BAD_NUMBERS = {
    "a negative size": member("x", size=-5),
    "a negative size of attributes": member("x", kind=tarfile.XHDTYPE, size=-5),
    "a size that no file has": member("x", size=2**80),
    "a time that no file has": member("x", mtime=2**80),
    "a time before all others": member("x", mtime=-(2**80)),
    "a negative attribute": attributes(size="-5") + member("x"),
    "an attribute that no file has": attributes(size="9" * 19) + member("x"),
    "very many digits": attributes(size="9" * 5000) + member("x"),
    "digits with a line between": attributes(size="1_0") + member("x", bytes(10)),
    "no digits": attributes(size="") + member("x"),
}
"""Members that are refused for a number in them."""


@pytest.mark.parametrize("archive", BAD_NUMBERS.values(), ids=BAD_NUMBERS)
def test_numbers_that_no_file_has_are_refused(archive: bytes, tmp_path: Path) -> None:
    problem, _ = unpack(tmp_path / "n1", archive + bytes(1024))
    assert problem.startswith("its archive is not valid: ")
    assert [path for path in found(tmp_path) if (tmp_path / path).is_file()] == []


@pytest.mark.parametrize("field", ["uid", "gid", "devmajor", "devminor"])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_owners_and_devices_are_of_no_interest(field: str, kind: bytes, tmp_path: Path) -> None:
    info = tarfile.TarInfo("x")
    info.type = kind
    setattr(info, field, 2**40)
    problem, skipped = unpack(tmp_path / "n1", info.tobuf(tarfile.GNU_FORMAT))
    assert (problem, skipped) == ("", "" if kind == tarfile.REGTYPE else "x")
    assert found(tmp_path / "n1") == (["x"] if kind == tarfile.REGTYPE else [])
    assert all(path.stat().st_uid == os.getuid() for path in (tmp_path / "n1").rglob("*"))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_SPARSE, b"M", b"V", b"D", b"\xff"])
def test_the_body_of_an_unknown_kind_is_no_member(kind: bytes, tmp_path: Path) -> None:
    problem, skipped = unpack(tmp_path / "n1", member("x", member("x", b"inner"), kind))
    assert (problem, skipped) == ("", "x")
    assert found(tmp_path) == []


def test_sparse_files_are_refused_rather_than_written_as_they_travel(tmp_path: Path) -> None:
    sparse = attributes(**{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"})
    problem, _ = unpack(tmp_path / "n1", sparse + member("x", b"1\n0\n1\n"))
    assert problem == "its archive is not valid: a sparse file"


def test_a_path_is_not_longer_than_the_system_has_them(tmp_path: Path) -> None:
    problem, _ = unpack(tmp_path / "n1", attributes(path="x/" * 3000) + member("x"))
    assert problem == "its archive is not valid: a name is too long"
    assert found(tmp_path) == []


def test_of_what_is_left_out_only_the_first_is_kept(tmp_path: Path) -> None:
    archive = b"".join(member(f"x{at}", kind=tarfile.FIFOTYPE) for at in range(50))
    assert unpack(tmp_path / "n1", archive) == ("", "x0")


def test_a_pipe_in_the_place_of_an_unfinished_file_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "n1"
    folder.mkdir()
    os.mkfifo(folder / PART)
    assert unpack(folder, member("x", b"new")) == ("", "")
    assert (folder / "x").read_bytes() == b"new"
    victim = tmp_path / "victim"
    victim.write_text("kept")
    os.link(victim, folder / PART)
    assert unpack(folder, member("x", b"newer")) == ("", "")
    assert victim.read_text() == "kept"


def test_what_nobody_has_foreseen_makes_the_archive_bad(unexpected_faults: list[Exception]) -> None:
    logged: list[tuple[str, str]] = []
    one = Unpacker("a folder\0", ["x"], lambda text, level: logged.append((text, level)))
    one.add(member("x", b"data"))
    assert one.close() == "its archive is not valid: ValueError: embedded null byte"
    assert [level for _, level in logged] == ["debug"]
    unexpected_faults.clear()


NUMBERS = st.sampled_from([0, 5, 512, 700, 2**33, 2**63, 2**80, -5, -(2**80)])
KINDS = st.sampled_from([*b"0\01234567LKxgXSMVDNZ", 255]).map(lambda code: bytes([code]))
NAMES = st.sampled_from(["x", "x/y", ".", "./", "..", "", "/", "x/..", "x/" * 60, ODD, PART])
OPTIONAL = {"size": NUMBERS.map(str), "path": NAMES, "mtime": NUMBERS.map(str), "é": st.text()}
ATTRIBUTES = st.fixed_dictionaries({}, optional=OPTIONAL).map(lambda values: attributes(**values))
FIELDS = {"size": NUMBERS, "mtime": NUMBERS, "mode": NUMBERS}
DATA = st.sampled_from([0, 5, 512, 768]).map(bytes)
MEMBERS = st.one_of(
    st.builds(member, NAMES, DATA, KINDS, NAMES),
    *(st.builds(member, NAMES, DATA, KINDS, NAMES, **{name: one}) for name, one in FIELDS.items()),
)
PARTS = st.one_of(st.tuples(ATTRIBUTES, MEMBERS).map(b"".join), MEMBERS, st.binary(max_size=600))


@given(st.lists(PARTS, max_size=6))
@same_examples
def test_no_archive_writes_elsewhere_raises_or_never_ends(parts: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        unpack(Path(folder) / "in" / "n1", b"".join(parts))
        written = found(Path(folder))
    assert all(path.split("/")[0] == "in" for path in written)
    assert not [path for path in written if path.endswith(PART)]


@pytest.mark.parametrize("one", [member("x", b"new"), attributes(path="x"), bytes(512)])
def test_many_members_take_linear_time(one: bytes, tmp_path: Path) -> None:
    assert growth(lambda size: unpack(tmp_path, one * size), 40) < LINEAR


@pytest.mark.parametrize("one", [record(" a=b\n"), b" ", b"9", b"9 a"])
def test_many_attributes_take_linear_time(one: bytes, tmp_path: Path) -> None:
    def read(size: int) -> None:
        unpack(tmp_path, member("x", one * (size // len(one)), tarfile.XHDTYPE) + member("x"))

    assert growth(read, 4000) < LINEAR


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
    unpack(tmp_path / "in" / "n1", bytes(data))
    assert all(path.split("/")[0] == "in" for path in found(tmp_path))
    assert not [path for path in found(tmp_path) if "dsrun-part" in path]
