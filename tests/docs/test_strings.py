"""Which strings read as words, and where they belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate.strings import area, collect, is_read, key


@pytest.mark.parametrize(
    "text",
    [
        "no such host",
        "{host} lost",
        "{flag}: there are {nodes} nodes; ask for at most that",
        "--launcher pdsh: no `pdsh` on PATH",
        "its key isn't known (first-come)",
        "{error}; is it running there (--master_addr)?",
        "last='drop' leaves nothing",
        "expected [USER@]HOST[:PORT], such as me@n1",
    ],
)
def test_words_are_read(text: str) -> None:
    assert is_read(text)


@pytest.mark.parametrize(
    "text",
    [
        "word",
        "{name}: {value}",
        "{name}={value} {other}",
        "--hostfile {path}",
        "PATH LD_LIBRARY_PATH",
        "/etc/passwd /etc/group",
        "a=1 b=2",
        "%s %d",
        r"no such (option|file) \d+",
        "(no|a) such .*",
        "connection refused|no route",
        "for n in $NAMES",
        "exec sleep 1",
        "make it && run it",
        "import sys;sys.exit('too old')",
        "#!/bin/sh and more words",
        "usage: dsrun [options] of all kinds",
    ],
)
def test_other_strings_are_not(text: str) -> None:
    assert not is_read(text)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("launcher/runner.py", "common"),
        ("launcher/node/run.py", "node"),
        ("launcher/node/elastic/rounds.py", "node"),
        ("accelerator/data/sampler.py", "accelerator"),
    ],
)
def test_the_folder_says_the_area(path: str, name: str) -> None:
    assert area(path) == name


def test_names_of_placeholders_do_not_matter_and_their_places_do() -> None:
    assert key("lost {host} of {job_id}") == key("lost {name} of {id}")
    assert key("lost {host}") != key("{host} lost")
    assert key('expected {"nodes": N}') == 'expected {"nodes": N}'


def test_modules_of_both_packages_are_read_but_for_help(tmp_path: Path) -> None:
    for name in ("launcher/a.py", "launcher/cli/options.py", "accelerator/data/b.py", "tests/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"\nx = 'words of {name[-4]} file'\n")
    assert [tuple(one) for one in collect(tmp_path)] == [
        ("words of a file", "launcher/a.py", 2),
        ("words of b file", "accelerator/data/b.py", 2),
    ]


@pytest.mark.parametrize("name", ["launcher/cli/options.py", "launcher/cli/help/topics.py"])
def test_errors_that_help_raises_are_messages(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("x = 'words of help'\nraise UsageError(f'{x}: unknown topic')\n")
    assert [one.text for one in collect(tmp_path)] == ["{x}: unknown topic"]
