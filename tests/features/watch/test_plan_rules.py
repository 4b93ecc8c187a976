"""Rules on output, from options and from a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.watch.plan_rules import rules
from dsrun.launcher.specs.policies import EXPECT, Rule

if TYPE_CHECKING:
    from pathlib import Path

FILE = r"""
[[rule]]
name = "loss"
expect = 'loss (?P<loss>\S+)'
within = "10m"
every = 120
finite = "loss"
falls = 1
over = 200
ranks = "0,2-3"
then = "stop"

[[rule]]
expect = "saved"
every = 1.5
ranks = 0
"""


def test_a_rule_of_the_command_line() -> None:
    options = Options(expect="step", within=600.0, every=120.0, on_missing="stop")
    assert rules(options) == (Rule(EXPECT, "step", 600.0, 120.0, then="stop"),)


def test_a_file_of_rules(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(FILE)
    loss = {"finite": "loss", "falls": "1", "over": 200, "ranks": frozenset({0, 2, 3})}
    wanted = Rule("rule loss", r"loss (?P<loss>\S+)", 600.0, 120.0, **loss, then="stop")  # type: ignore[arg-type]
    saved = Rule("rule 2", "saved", every=1.5, ranks=frozenset({0}))
    assert rules(Options(rules=str(path))) == (wanted, saved)
    assert rules(Options(rules=str(path), expect="x", every=1.0))[1:] == (wanted, saved)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"within": 1.0}, "--within: only with --expect 'REGEX'"),
        ({"every": 1.0}, "--every: only with --expect 'REGEX'"),
        ({"on_missing": "stop"}, "--on_missing stop: only with --expect 'REGEX'"),
        ({"expect": "x"}, r"--expect 'x': no time is given; add --within 10m "),
        ({"expect": "(", "every": 1.0}, r"--expect: '\(' is not a regular expression: missing \)"),
        ({"expect": "\ud800", "every": 1.0}, "--expect: .* is not a regular expression"),
        ({"rules": "/no/such"}, "--rules /no/such: no such file or directory"),
    ],
)
def test_options_that_make_no_rule(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=f"^{why}"):
        rules(Options(**given))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", r": expected 1 to 100 tables \[\[rule\]\]"),
        ("rule = 1", r":1: expected 1 to 100 tables \[\[rule\]\]"),
        ("rule = [1]", r":1: rule 1: expected a table"),
        ("[[rule]]\nexpect='x'\nevery=1\n[other]", r":4: expected 1 to 100 tables"),
        (
            "[[rule]]\nexpct='x'",
            r":2: expct: unknown key \(did you mean expect\?\); expected one of name, expect, ",
        ),
        ("[[rule]]\nevery=1", r":1: expect: missing"),
        ("[[rule]]\nexpect=''", r":2: expect: expected text"),
        ("[[rule]]\nexpect='('\nevery=1", r":2: '\(' is not a regular expression"),
        ("[[rule]]\nexpect='x'", r":1: nothing to watch"),
        ("[[rule]]\nexpect='x'\nevery='soon'", r":3: every: expected a duration such as 30,"),
        ("[[rule]]\nexpect='x'\nevery=true", r":3: every: expected a duration"),
        ("[[rule]]\nexpect='x'\nevery=-1", r":3: every: expected a duration"),
        ("[[rule]]\nexpect='x'\nevery=nan", r":3: every: expected a duration"),
        ("[[rule]]\nexpect='x'\nfinite='y'", r":3: finite: 'x' has no group y"),
        ("[[rule]]\nexpect='x'\nfinite=1", r":3: finite: 'x' has no group 1"),
        ("[[rule]]\nexpect='x'\nfinite=[1]", r":3: finite: expected the name or number"),
        ("[[rule]]\nexpect='(x)'\nfalls=1", r":3: falls and over: one needs the other"),
        ("[[rule]]\nexpect='(x)'\nfalls=1\nover=0", r":4: over: expected a number of lines"),
        ("[[rule]]\nexpect='x'\nevery=1\nranks='a'", r":4: ranks 'a': expected ranks"),
        ("[[rule]]\nexpect='x'\nevery=1\nthen='cry'", r":4: then: expected report, stop or"),
    ],
)
def test_a_file_that_makes_no_rules(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"^--rules {path}{why}"):
        rules(Options(rules=str(path)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[[rule]\n", r":1: expected \[\[rule\]\]"),
        (b"\xff\xfe", ":1: not plain text; save the file as UTF-8"),
        (b"rule = " + b"[" * 5000, ":1: more than 64 nested brackets"),
        (b".".join([b"a"] * 66) + b" = 1", ":1: more than 64 dots on a line outside quotes"),
        (b"#" * (1 << 16) + b"\n", ": larger than 65536 bytes; not read"),
    ],
)
def test_a_file_that_is_not_read(data: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=f"^--rules {path}{why}"):
        rules(Options(rules=str(path)))


def test_a_pipe_of_rules() -> None:
    reader, writer = os.pipe()
    os.write(writer, FILE.encode())
    os.close(writer)
    assert len(rules(Options(rules=f"/dev/fd/{reader}"))) == 2
    os.close(reader)


def test_what_is_no_file_has_no_rules() -> None:
    with pytest.raises(UsageError, match=r"^--rules /dev/zero: is a device, not a file"):
        rules(Options(rules="/dev/zero"))
