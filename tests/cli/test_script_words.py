"""What was meant by a script that is not there: each command that is named can be typed."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.cli.script_words import COMMANDS, meant, missing, unquoted
from dsrun.launcher.cli.tool_options import OWN
from dsrun.launcher.features.jobs.command import VERBS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.py", "eval.py", "run.sh", "my train.py", "notes.txt", "pkg/mod.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("train", " (did you mean train.py?)"),
        ("TRAIN.PY", " (did you mean train.py?)"),
        ("trian.py", " (did you mean train.py?)"),
        ("my_train.py", " (did you mean 'my train.py'?)"),
        ("./trian.py", " (did you mean ./train.py?)"),
        ("pkg/mdo.py", " (did you mean pkg/mod.py?)"),
        ("pkg.mod", " (did you mean -m pkg.mod?)"),
        ("quite_another.py", ""),
        ("evening.py", ""),
        ("trains.py", " (did you mean train.py?)"),
        ("notes", ""),
        ("no/such/folder.py", ""),
        ("train.py --lr 0.1", "; write train.py --lr 0.1 without quotes"),
        ("help", "; dsrun --help shows the options"),
        ("launch", "; leave out launch: dsrun [options] SCRIPT [ARGS...]"),
        ("check", "; write dsrun-check"),
        ("logs", "; write dsrun-job logs"),
        ("-", "; dsrun reads no script from standard input; name a file"),
        (":", "; a lone : separates two programs, each of which begins with --program NAME"),
        (
            "t.py:",
            "; a lone : separates two programs, each of which begins with --program NAME",
        ),
        ("s3://a/b.py", "; download it first: a script is a file"),
        ("n1,n2", "; if these are hosts, write --host n1,n2"),
        ("n1:4", "; if these are hosts, write --host n1:4"),
        ("A=1", "; set a variable with --export A=1; arguments follow the script"),
        ("4", "; for that many workers per host, write --num_gpus 4"),
        ("bash", "; to run a program, write dsrun [options] --no_python bash"),
        ("\u2013\u2013num_gpus", "; \u2013 is not a hyphen; write --num_gpus"),
        ("\u2014num_gpus", "; \u2014 is not a hyphen; write --num_gpus"),
    ],
)
def test_what_is_meant(folder: Path, script: str, said: str) -> None:
    assert meant(script, str(folder)) == said


def test_the_commands_that_are_named_exist() -> None:
    named = [words for words in COMMANDS.values() if words.startswith("write dsrun-")]
    assert len(named) > 10
    for words in named:
        tool, *verb = words.removeprefix("write ").split()
        assert tool in OWN or tool in {"dsrun-topo", "dsrun-elastic"}
        assert {*verb} <= VERBS.keys()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--on", "t.py"], "no script: t.py was taken as the value of --on"),
        (["--sync", "t.py"], "no script: t.py was taken as the value of --sync"),
        (["-q", "--export", "t.py"], "no script: t.py was taken as the value of --export"),
        (["--include", "n1"], "no script after --include n1 (if the shell split it at ; or &"),
        (["--host", "n[1-2]"], "no script after --host n[1-2] (if the shell split it"),
        (["--num_gpus", "2"], "no script: dsrun [options] SCRIPT"),
        (["--on=t.py"], "no script: dsrun [options] SCRIPT"),
        ([], "no script: dsrun [options] SCRIPT"),
        ([""], "no script (an empty argument; is a variable not set?): dsrun [options] SCRIPT"),
    ],
)
def test_where_the_script_is(words: list[str], said: str) -> None:
    command = parse(words, {})
    assert str(missing(command.taken, command.program)).startswith(said)


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        (["--export", "FOO=a", "b", "train.py"], "--export 'FOO=a b'"),
        (["--launcher_args", "-t", "60", "train.py"], "--launcher_args '-t 60'"),
        (["--on_event", "echo", "a", "b", "train.py", "c"], "--on_event 'echo a b'"),
        (["--export", "FOO=a", "train.py"], ""),
        (["--export", "FOO=a", "none.py", "train.py"], ""),
        (["--export", "FOO=a", "b"], ""),
    ],
)
def test_a_value_without_its_quotes(folder: Path, words: list[str], whole: str) -> None:
    command = parse(words, {})
    assert unquoted(command.taken, command.program, str(folder)) == whole
    if whole:
        again = parse([*shlex.split(whole), "train.py"], {})
        assert again.program == ("train.py",)
