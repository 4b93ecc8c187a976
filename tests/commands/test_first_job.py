"""What dsrun-check says to type next."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.tool_parser import parse
from dsrun.launcher.commands import first_job
from dsrun.launcher.control.messages import Hello
from dsrun.launcher.head.checks.answers import Answer
from dsrun.launcher.head.checks.verdict import Verdict

HELLO = Hello("1", "h", "m", "3", "cpu", (), 2, None, (), (), 1.0)
TWO = Verdict({name: Answer(hello=HELLO) for name in ("n1", "n2")}, {}, [], [])


@pytest.mark.parametrize(
    ("typed", "sync", "expected"),
    [
        ("-H hosts", "", "dsrun -H hosts train.py"),
        ("--host=n1,n2 --json -- t.py -x", ".", "dsrun --host=n1,n2 --sync . t.py -x"),
        ("--full --svg m.svg --num-gpus 2 t.py", "", "dsrun --num-gpus 2 t.py"),
    ],
)
def test_the_job_has_the_options_of_the_check(typed: str, sync: str, expected: str) -> None:
    command = parse("dsrun-check", typed.split(), {})
    assert first_job.words(command, sync) == expected.split()


def lines(typed: str, verdict: Verdict) -> list[str]:
    return [*first_job.lines(parse("dsrun-check", typed.split(), {}), verdict)]


def test_what_to_type_next_depends_on_what_was_found() -> None:
    (error,) = lines("-H hosts", TWO._replace(missing={"n3": "no route"}))
    assert error == "then: dsrun -H hosts train.py"
    full, job = lines("-H hosts t.py", TWO)
    assert full.startswith("next: dsrun-check -H hosts --full t.py  # ")
    assert job == "then: dsrun -H hosts t.py"
    assert lines("-H hosts --full t.py", TWO) == ["next: dsrun -H hosts t.py"]
