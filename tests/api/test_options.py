"""Keyword arguments as the words of a command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsrun.launcher.api.errors import LaunchError
from dsrun.launcher.api.options import arguments, check_arguments, words
from dsrun.launcher.api.plan import OPTIONS
from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import UsageError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"hosts": "n1,n2:4"}, ["--host=n1,n2:4"]),
        ({"hosts": ["n1:2", "n2:2"]}, ["--host=n1:2,n2:2"]),
        ({"hostfile": Path("/etc/hosts")}, ["--hostfile=/etc/hosts"]),
        ({"num_gpus": 2, "grace": 1.5}, ["--num_gpus=2", "--grace=1.5"]),
        ({"grace": "2m"}, ["--grace=2m"]),
        ({"quiet": True, "elastic_training": False, "log_dir": None}, ["--quiet"]),
        ({"export": {"A": "1", "B": 2}}, ["--export=A=1", "--export=B=2"]),
        ({"export": ["A", "B=2"]}, ["--export=A", "--export=B=2"]),
        ({"export": "A"}, ["--export=A"]),
        ({"preload": ["torch", "numpy"]}, ["--preload=torch,numpy"]),
        ({"console_ranks": [0, 3]}, ["--console_ranks=0,3"]),
        ({}, []),
    ],
)
def test_options_have_the_names_of_the_commands(
    given: dict[str, object], expected: list[str]
) -> None:
    assert words(given) == expected
    parse([*words(given), "--", "x.py"], {})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"hostfil": "x"}, "--hostfil: unknown option (did you mean --hostfile?)"),
        ({"hostfil": True}, "--hostfil: unknown option (did you mean --hostfile?)"),
        ({"quiet": "yes"}, "--quiet: takes no value, not 'yes'"),
    ],
)
def test_the_parser_names_wrong_options(given: dict[str, object], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse([*words(given), "x.py"], {}, OPTIONS)
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"hosts": 5.5j}, "hosts: expected text or a number, not complex"),
        ({"hostfile": True}, "hostfile: expected text or a number, not bool"),
        ({"include": ["a", "b"]}, "include: expected text or a number, not list"),
        ({"export": [["A"]]}, "export: expected text or a number, not list"),
        ({"dry_run": True}, "dry_run: not available in Python; it only prints"),
        ({"help": "hosts"}, "help: not available in Python; it only prints"),
    ],
)
def test_wrong_values(given: dict[str, object], expected: str) -> None:
    with pytest.raises(LaunchError) as caught:
        words(given)
    assert str(caught.value) == expected
    assert caught.value.exit_code == 2


def test_arguments_of_a_script() -> None:
    assert arguments(["--lr", 0.1, 3, Path("x")]) == ["--lr", "0.1", "3", "x"]
    assert arguments(()) == []
    with pytest.raises(LaunchError) as caught:
        arguments(["a", None])
    assert str(caught.value) == "args[1]: expected text or a number, not NoneType"


def test_arguments_are_a_list() -> None:
    check_arguments([])
    for wrong, text in (
        ("--lr 0.1", "args: expected a list of arguments, not a single string"),
        (3, "args: expected a list of arguments, not int: write [3]"),
    ):
        with pytest.raises(LaunchError) as caught:
            check_arguments(wrong)
        assert str(caught.value) == text


def test_bytes_of_a_path_stay_text() -> None:
    name = os.fsdecode(b"/data/\xff")
    assert words({"workdir": name}) == [f"--workdir={name}"]
