"""`.gitignore` and `.dsrunignore`, in several folders."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.sync.runner_ignore import FILES, LIMIT, Ignored

from ...support.cost import LINEAR, growth
from ...support.properties import same_examples

if TYPE_CHECKING:
    from collections.abc import Callable


def test_without_rules_nothing_is_left_out(tmp_path: Path) -> None:
    rules = Ignored()
    assert rules.within(str(tmp_path), "", {"a"}) is rules
    assert not rules.has("a")


def test_the_rules_of_git(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("# comment\n*.log\n/top\nbuild/\n!keep.log\ndoc/*.txt\n")
    rules = Ignored().within(str(tmp_path), "", {".gitignore"})
    left_out = [
        path
        for path in ("x.log", "a/x.log", "keep.log", "top", "a/top", "build/", "a/build/", "build")
        if rules.has(path)
    ]
    assert left_out == ["x.log", "a/x.log", "top", "build/", "a/build/"]
    assert rules.has("doc/a.txt")
    assert not rules.has("doc/deep/a.txt")


def test_dsruns_own_rules_and_those_of_a_deeper_folder_have_the_last_word(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.bin\n")
    (tmp_path / ".dsrunignore").write_text("!need.bin\nvideos/\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.gitignore").write_text("/need.bin\n!other.bin\n")
    top = Ignored().within(str(tmp_path), "", {".gitignore", ".dsrunignore"})
    assert [top.has(path) for path in ("a.bin", "need.bin", "videos/")] == [True, False, True]
    sub = top.within(str(tmp_path / "sub"), "sub/", {".gitignore"})
    paths = ("sub/need.bin", "sub/deep/need.bin", "sub/other.bin", "sub/a.bin")
    assert [sub.has(path) for path in paths] == [True, False, False, True]


def test_rules_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / ".dsrunignore").mkdir()
    with pytest.raises(UsageError, match=r"^--sync: .*\.dsrunignore: is a directory$"):
        Ignored().within(str(tmp_path), "", {".dsrunignore"})


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _large(path: Path) -> None:
    path.write_bytes(b"#" * (LIMIT + 1))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_pipe, "is a pipe, not a file"),
        (_endless, "is a device, not a file"),
        (_large, f"larger than {LIMIT} bytes; not read"),
    ],
)
def test_rules_that_never_end_are_not_waited_for(
    make: Callable[[Path], None], why: str, name: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    with pytest.raises(UsageError) as caught:
        Ignored().within(str(tmp_path), "", {name})
    assert str(caught.value) == f"--sync: {tmp_path}/{name}: {why}"


@pytest.mark.parametrize("rule", ["[z-a]", "[a-\\]", "!", "a\\", "\\"])
def test_rules_that_are_none(rule: str, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text(f"*.log\n{rule}\n")
    with pytest.raises(UsageError, match=r"^--sync: .*/\.gitignore: "):
        Ignored().within(str(tmp_path), "", {".gitignore"})


@pytest.mark.parametrize("rule", ["[[a]", "[a&&b]", "[--a]", "[a||b]"])
def test_rules_that_python_might_mean_otherwise_one_day(rule: str, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text(f"{rule}\n")
    assert Ignored().within(str(tmp_path), "", {".gitignore"}).has("a")


def test_ends_of_lines_are_those_of_any_system(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"one\r\ntwo\rthree\nfo\x0cur\n\xff\n")
    rules = Ignored().within(str(tmp_path), "", {".gitignore"})
    names = ("one", "two", "three", "fo\x0cur", "ur", "\udcff")
    assert [rules.has(name) for name in names] == [True, True, True, True, False, True]


TOKENS = (
    "[",
    "]",
    "!",
    "^",
    "z-a",
    "[z-a]",
    "[[a]",
    "\\",
    "*",
    "?",
    "/",
    "a",
    "&&",
    "||",
    "#",
    " ",
    "**",
)
OTHERS = ("\n", "\r", "\0", "\x85", "\udcff")


@given(st.lists(st.sampled_from((*TOKENS, *OTHERS)), max_size=12).map("".join))
@same_examples
def test_rules_are_read_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder, suppress(UsageError):
        Path(folder, ".gitignore").write_text(text, "utf-8", "surrogateescape")
        assert Ignored().within(folder, "", {".gitignore"}).has("az/a") in {True, False}


def _rules(folder: Path, text: str) -> Ignored:
    (folder / ".gitignore").write_text(text, "utf-8", "surrogateescape")
    return Ignored().within(str(folder), "", {".gitignore"})


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("*a*b", "a"),
        ("*?a[a]*a*a*[!a]", "a"),
        ("x/*a*b", "a"),
        ("**/a/**/b", "a/"),
        ("a/**/*a*/**/*a*/b", "a/"),
    ],
)
def test_stars_take_a_time_linear_in_the_path(rule: str, name: str, tmp_path: Path) -> None:
    rules = _rules(tmp_path, rule)

    def work(size: int) -> None:
        path = "x/" * rule.startswith("x/") + name * size
        for _ in range(100):
            assert not rules.has(path)

    assert growth(work, 500) < LINEAR


@pytest.mark.parametrize(
    ("rule", "path", "out"),
    [
        ("[!a]b", "/b", False),
        ("a[+-0]b", "a/b", False),
        ("a[!b]*c", "a/c", False),
        ("a\\[!b]", "a[!b]", True),
        ("a", "a\n", False),
        ("a*c", "a\nc", True),
        ("**/c", "a\nb/c", True),
        ("a/**/c", "a/x\nb/c", True),
    ],
)
def test_a_slash_is_in_no_class_and_a_line_feed_is_like_any_other_character(
    rule: str, path: str, out: bool, tmp_path: Path
) -> None:
    assert _rules(tmp_path, rule).has(path) is out


SEGMENTS = ("**", "*", "a", "b", "a*", "*a*b*", "?*a", "[ab]*b?", "*[!x/]*", "*a*a", "\\*", "[]*]")
NAMES = ("a", "b", "ab", "ba", "aab", "abab", "*", "]b", "")


@given(
    st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=6).map("/".join),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=7).map("/".join),
)
@same_examples
def test_the_result_is_that_of_pathspec(rule: str, path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = f"{rule}\n!*b\n"
        expected = GitIgnoreSpec.from_lines(lines.splitlines(), backend="simple")
        assert _rules(Path(folder), lines).has(path) is bool(expected.match_file(path))
