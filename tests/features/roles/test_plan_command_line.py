"""Several programs on the command line."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.roles.plan_command_line import Parts, parts, tables
from dsrun.launcher.features.roles.plan_table import RoleTable


def split(line: str) -> Parts:
    words = line.split()
    return parts(words, parse(words, {}).words)


def roles(line: str) -> list[RoleTable]:
    return tables(split(line).programs)


def fault(line: str) -> str:
    with pytest.raises(UsageError) as caught:
        roles(line)
    return str(caught.value)


def test_a_lone_colon_parts_programs() -> None:
    found = split("-H hosts --program a --num_nodes 2 t.py x:y :: --program=z : --program=b s.py")
    assert found.job == ("-H", "hosts")
    assert found.programs == (
        ("--program", "a", "--num_nodes", "2", "t.py", "x:y", "::", "--program=z"),
        ("--program=b", "s.py"),
    )


def test_a_program_has_its_options_and_arguments() -> None:
    one, two = roles(
        "--quiet --program trainer --num_nodes 2 --ends job --elastic t.py --ends x"
        " : --program rollout --no_python --ports http,grpc --ends never vllm serve --p {port.http}"
    )
    assert (one.name, one.where) == ("trainer", "--program trainer")
    assert one.program == ("t.py", "--ends", "x")
    assert one.values == {"num_nodes": 2, "ends": "job", "elastic_training": True}
    assert one.origins["num_nodes"] == "--program trainer: --num_nodes"
    assert two.program == ("vllm", "serve", "--p", "{port.http}")
    assert two.values == {"no_python": True, "ports": "http,grpc", "ends": "never"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--program a t.py :", "a lone : separates two programs, and one of them is missing: "),
        (
            "--program a t.py : s.py",
            "the program after :, which begins with s.py: expected --program",
        ),
        ("--program a : : --program b s.py", "--program a: no script"),
        (
            "--program a t.py : : --program b s.py",
            "a lone : separates two programs, and one of them",
        ),
        (
            "--program a t.py: --program b s.py",
            "t.py: --program: a lone : separates two programs: t.py : --program",
        ),
        (
            "--program a t.py --lr 1 :--program=b s.py",
            ":--program=b: a lone : separates two programs: 1 : --program=b",
        ),
        (
            "--program a t.py --program b s.py",
            "t.py --program: a lone : separates two programs: t.py : ",
        ),
        (
            "--program a t.py : --prog b --ends x s.py",
            "the program after :, which begins with --prog",
        ),
        ("--program a t.py : --program b", "--program b: no script: --program b [options] SCRIPT"),
        ("--program a t.py : --program b --num_nodes x s.py", "--program b: --num_nodes: expected"),
        ("--program a t.py : --program=b --gracee 1 s.py", "--program b: --gracee: unknown option"),
        (
            "--program a t.py : --gracee s.py",
            "the program after :, which begins with --gracee: --gracee: ",
        ),
        ("--program a t.py : --program b --help", "--program b: expected --program NAME"),
        (
            "--program a --launcher ssh t.py",
            "--program a: --launcher: an option of the whole job, not of a role; give it on the"
            " command line, before the first --program",
        ),
    ],
)
def test_errors_name_the_program(line: str, expected: str) -> None:
    assert fault(line).startswith(expected)
