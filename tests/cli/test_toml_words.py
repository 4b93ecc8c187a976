"""The words for what is no TOML: the line, what is wrong on it, and TOML that can be written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.cli import config_files, toml_file
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.roles import plan_file as file

from ..support.properties import same_examples

LIBRARY = ("not valid TOML", "at line", "Expected '", "Cannot", "Invalid", "codec", "document")
"""What a library of TOML says."""


def error_of(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        toml_file.read("x.toml", text.encode())
    assert not [words for words in LIBRARY if words in str(caught.value)]
    return str(caught.value).removeprefix("x.toml:")


@pytest.mark.parametrize(
    ("line", "rule", "meant"),
    [
        ("prefix = {rank}", "text needs quotes", 'prefix = "{rank}"'),
        ("prefix = {host}:{rank}|", "text needs quotes", 'prefix = "{host}:{rank}|"'),
        ("on_hang = stop", "text needs quotes", 'on_hang = "stop"'),
        ("grace = 30s", "text needs quotes", 'grace = "30s"'),
        ("grace = 1h30m # long", "text needs quotes", 'grace = "1h30m"'),
        ("host = n1, n2", "text needs quotes", 'host = "n1, n2"'),
        ("host = n1:4,n2:0-3", "text needs quotes", 'host = "n1:4,n2:0-3"'),
        ("log_dir = /tmp/x", "text needs quotes", 'log_dir = "/tmp/x"'),
        ("log_dir = C:\\x", "text needs quotes", "log_dir = 'C:\\x'"),
        ('on_event = echo "x" >&2', "text needs quotes", 'on_event = "echo \\"x\\" >&2"'),
        ("export = FOO=bar", "text needs quotes", 'export = "FOO=bar"'),
        ("bind_to = none", "text needs quotes", 'bind_to = "none"'),
        ("bind_smt = no", "text needs quotes", 'bind_smt = "no"'),
        ("console_ranks = 0-3", "text needs quotes", 'console_ranks = "0-3"'),
        ("quiet = True", "a flag is true or false, in lower case", "quiet = true"),
        ("quiet = yes", "a flag is true or false, in lower case", "quiet = true"),
        ("quiet = off", "a flag is true or false, in lower case", "quiet = false"),
        ("num_gpus = 02", "a number has no leading zeros", "num_gpus = 2"),
        ("num_gpus == 2", "one = is enough", "num_gpus = 2"),
        ("num_gpus := 2", "expected a single =", "num_gpus = 2"),
        ("num_gpus: 2", "expected =, not a colon", "num_gpus = 2"),
        ('"host": n1,', "expected =, not a colon", 'host = "n1"'),
        ("num_gpus 2", "expected KEY = VALUE", "num_gpus = 2"),
        ("--quiet", "expected KEY = VALUE", "quiet = true"),
        ("num_gpus = 2;", "nothing may follow a value", "num_gpus = 2"),
        ("num_gpus = 2 // two", "a comment begins with #", "num_gpus = 2 # two"),
        ('export = "A", "B"', "several values need a list", 'export = ["A", "B"]'),
        ("export = ('A', 'B')", "a list needs brackets", 'export = ["A", "B"]'),
        ("export A=b", "variables need a list", 'export = ["A=b"]'),
    ],
)  # fmt: skip
def test_what_is_meant_is_shown_and_can_be_written(line: str, rule: str, meant: str) -> None:
    assert error_of(f"[default]\nfold = true\n{line}\n") == f"3: {rule}: {meant}"
    config_files.parsed("x.toml", f"[default]\nfold = true\n{meant}\n".encode())


@pytest.mark.parametrize(
    ("line", "rule", "meant"),
    [
        ("script = t.py", "text needs quotes", 'script = "t.py"'),
        ("args = --lr 0.1", "a list of words", 'args = ["--lr", "0.1"]'),
        ("env = A=1", "a table of variables", 'env = { A = "1" }'),
        ("slots = 0-3", "text needs quotes", 'slots = "0-3"'),
        ("ready = http:/health", "text needs quotes", 'ready = "http:/health"'),
        ("ends = never", "text needs quotes", 'ends = "never"'),
    ],
)
def test_so_it_is_in_a_file_of_roles(line: str, rule: str, meant: str) -> None:
    script = "" if "script" in line else 'script = "t.py"\n'
    text = f'[[role]]\nname = "a"\n{script}'
    number = text.count("\n") + 1
    assert error_of(text + line) == f"{number}: {rule}: {meant}"
    assert file.parsed("x.toml", f"{text}{meant}\n".encode())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("num_gpus = ", "1: num_gpus has no value; give it one, or leave out this line"),
        ("num_gpus = # 2", "1: num_gpus has no value"),
        ("num_gpus = two", "1: num_gpus: expected a whole number, not two"),
        ("num_gpus = none", "1: TOML has no none; leave out this line to use the default"),
        ("num_gpus = 2 grace = 3", "1: one key per line: num_gpus = 2, then grace = 3"),
        ("num gpus = 2", "1: num gpus: a key has only letters, digits, _ and -; write num_gpus"),
        ("num_gpus\n", "1: expected KEY = VALUE: num_gpus = ..."),
        ("= 2", "1: = 2: expected KEY = VALUE, or [TABLE]"),
        ("what is this", "1: what is this: expected KEY = VALUE, or [TABLE]"),
        ("; x", "1: a comment begins with #"),
        ("a = \u201cb\u201d", "1: \u201c is not a quote in TOML; write \" or '"),
        ("a = 1\rb = 2", "1: an invisible character, \\r; remove it"),
        ("a =\xa01", "1: an invisible character, \\xa0; remove it"),
        # twice
        ("a = 1\nb = 2\na = 3", "3: a is written twice, first on line 1"),
        ("[a]\nb = 1\n[a]", "3: [a] is written twice; put its keys together; the first is on"),
        ("[p.a]\n[p.b]\n[p.a]", "3: [p.a] is written twice; put its keys together"),
        ("[role]\na = 1\n[role]", "3: write [[role]], once for each role; the first is on line 1"),
        ("[role]\na = 1\n[[role]]", "3: write [[role]], once for each role; the first is on line"),
        ("[[rule]]\na = 1\n[rule]", "3: write [[rule]], once for each rule; the first is on line"),
        ("a.b = 1\na = 2", "2: a: an earlier line already uses it differently"),
        # other formats
        ('{"default": {}}', "1: looks like JSON; expected TOML: [TABLE], and below it KEY"),
        ('[{"a": 1}]', "1: looks like JSON"),
        ("<a/>", "1: looks like XML"),
        ("---\na: 1", "1: looks like YAML"),
        ("default:\n  a: 1", "1: looks like YAML; expected TOML: [default]"),
        # texts
        ('a = "b\nc = 1', '1: the closing " is missing: "b'),
        ("a = 'b", "1: the closing ' is missing: 'b"),
        ('x = 1\na = \"\"\"b\n\nc', '2: the closing """ is missing: """b\\n\\nc'),
        ('a = "C:\\path"', "1: a \\ within \"...\" begins an escape; write '...' instead"),
        ('a = "C:\\t\\"', "1: a \\ within"),
        ("a = 'it's'", "1: a: expected one value, not 'it's'"),
        # brackets
        ('a = ["A", "B"\nb = 2', "1: the list has no closing ]"),
        ('a = ["A"\n[b]', "1: the list has no closing ]"),
        ('a = [\n"A"', "1: the list has no closing ]"),
        ('a = ["A" "B"]', '1: a comma is missing before "B"]'),
        ("a = [b, c]", '1: text needs quotes: "b"'),
        ("a = [\n--lr,\n]", '2: text needs quotes: "--lr"'),
        ("a = { B = c }", '1: text needs quotes: "c"'),
        ('a = { B = "1", }', "1: no comma before }"),
        ('a = {\n B = "1" }', "1: a table in { } must end on the same line"),
        ('a = ["A",, "B"]', '1: expected a value before , "B"]'),
        # names of tables
        ("[a\nb = 1", "1: expected [a]"),
        ("[[a]\nb = 1", "1: expected [[a]]"),
        ("[]", "1: a table without a name"),
        ("[a] b = 1", "1: [a] needs its own line; write b = 1 below it"),
        ("[p.a b]", '1: quote a name with anything but letters, digits, _ and -: [p."a b"]'),
    ],
)  # fmt: skip
def test_the_line_and_what_is_wrong_on_it(text: str, error: str) -> None:
    assert error_of(text).startswith(error)


@given(
    st.text("ab.=[]{}\"'\\\n# ,1-:(\u201c", max_size=120)
    | st.lists(
        st.sampled_from(["a", " = ", "[", "]", "{", "}", '"', "\n", "1", ",", ":", "role", "\\"])
    ).map("".join)
)
@same_examples
def test_there_are_words_for_every_text(text: str) -> None:
    said = refusal(text)
    if said:
        place, number, words = said.split(":", 2)
        assert (place, words[0]) == ("x.toml", " ")
        assert 1 <= int(number) <= text.count("\n") + 1
        assert said.isprintable()
        assert not [one for one in LIBRARY if one in words]


def refusal(text: str) -> str:
    """Return the error of a text, "" if it is TOML."""
    try:
        toml_file.read("x.toml", text.encode())
    except UsageError as error:
        return str(error)
    return ""


def test_what_a_message_quotes_is_short() -> None:
    assert len(error_of("a = " + "b " * 9999)) < 200
    assert len(error_of('a = "' + "b" * 9999)) < 200
