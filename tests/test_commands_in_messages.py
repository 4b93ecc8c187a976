"""Commands of dsrun that its own texts name: each has its verb, and takes its options."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.options import table
from dsrun.launcher.cli.parser import key_of
from dsrun.launcher.cli.tool_options import OWN
from dsrun.launcher.features.elastic import command as elastic
from dsrun.launcher.features.jobs.command import MEANT, VERBS

from .support.checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = sorted((CHECKOUT / "launcher").rglob("*.py"))

COMMAND = re.compile(r"(?<![\w/.`-])(dsrun(?:-[a-z]+)?)(?![\w-])((?: +[^\s;,:()'`]+)*)")

SAYS = frozenset(
    {"accepts", "asks", "cannot", "finds", "lists", "requested", "shows", "takes", "waits"}
)
"""What a sentence says of `dsrun-job` itself: `dsrun-job finds it` is no command."""

COMMANDS = {"dsrun", "dsrun-elastic", "dsrun-topo", *OWN}

ANY = {"-h", "--help", "--version", "-V"}


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield each text of a module but docstrings, with its line; a value in it is written X."""
    tree = ast.parse(source)
    no_message = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            no_message.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            no_message |= {id(part) for part in node.values}
        if id(node) in no_message:
            continue
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(_plain(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _plain(part: ast.expr) -> str:
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "X"


def fault(name: str, words: list[str]) -> str:
    """Return what is wrong with a command as it would be typed, "" for nothing."""
    if name not in COMMANDS:
        return f"no command {name}" if words else ""  # the name of a file
    verb = words[0] if words else ""
    if name == "dsrun-job" and verb.isalpha() and verb.islower() and verb not in {*VERBS, *SAYS}:
        return f"{name} has no verb {verb}"
    options = [word.partition("=")[0] for word in words if re.match(r"--?[A-Za-z]", word)]
    known = {"dsrun-elastic": elastic.NAMES}.get(name, {})
    for option in options:
        if option in ANY or option in known:
            continue
        if key_of(option) not in {*table(), *OWN.get(name, ())}:
            return f"{name} has no option {option}"
    return ""


def faults(source: str) -> Iterator[str]:
    """Yield what is wrong with the commands in the texts of a module."""
    for line, text in texts(source):
        for name, rest in COMMAND.findall(text):
            words = re.sub(r"(?<=\w)\. .*", "", rest).split()
            if name == "dsrun":  # what stands behind the script is for the script
                at = next((i for i, word in enumerate(words) if word.endswith(".py")), len(words))
                words = words[:at]
            if why := fault(name, words):
                yield f"{line}: {why}"


def test_a_command_in_a_text_can_be_typed() -> None:
    found = {path: [*faults(path.read_text())] for path in FILES}
    assert len(found) > 500
    assert {path: bad for path, bad in found.items() if bad} == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"try: dsrun-job stakcs shows it"', "1: dsrun-job has no verb stakcs"),
        ('f"first: dsrun-hold --realease {name}"', "1: dsrun-hold has no option --realease"),
        ('x = "write dsrun --hostfiles FILE train.py"', "1: dsrun has no option --hostfiles"),
        ('"then: dsrun-chekc -H hosts"', "1: no command dsrun-chekc"),
    ],
)
def test_a_bad_command_is_found(text: str, why: str) -> None:
    assert list(faults(f"print({text})")) == [why]


def test_the_verbs_that_stand_for_words_of_others_exist() -> None:
    for words in MEANT.values():
        verb, *options = words.split()
        assert fault("dsrun-job", [verb, *options]) == ""
        assert {key_of(one) for one in options} <= {*VERBS[verb].options}
