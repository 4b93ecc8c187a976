"""What dsrun-check says to type next."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.tool_parser import parse
from dsrun.launcher.common.wording import ANOTHER_PYTHON
from dsrun.launcher.control.messages import Hello
from dsrun.launcher.features.jobs import command_first_job as first_job
from dsrun.launcher.features.quick_check.runner_answers import Answer
from dsrun.launcher.features.quick_check.runner_verdict import CheckVerdict

HELLO = Hello("1", "h", "m", "3", "cpu", (), 2, None, (), (), 1.0)
TWO = CheckVerdict({name: Answer(hello=HELLO) for name in ("n1", "n2")}, {}, [], [])


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


def lines(typed: str, verdict: CheckVerdict) -> list[str]:
    return [*first_job.lines(parse("dsrun-check", typed.split(), {}), verdict)]


def test_what_to_type_next_depends_on_what_was_found() -> None:
    (error,) = lines("-H hosts", TWO._replace(missing={"n3": "no route"}))
    assert error == "then: dsrun -H hosts train.py"
    full, job = lines("-H hosts t.py", TWO)
    assert full.startswith("next: dsrun-check -H hosts --full t.py  # ")
    assert job == "then: dsrun -H hosts t.py"
    assert lines("-H hosts --full t.py", TWO) == ["next: dsrun -H hosts t.py"]


@pytest.mark.parametrize(
    ("typed", "problem", "first"),
    [
        ("-H hosts nothere.py", "no such script: /w/nothere.py", "correct the name nothere.py"),
        ("--python=/no/py", f"no Python at /no/py {ANOTHER_PYTHON}", "correct --python /no/py"),
    ],
)
def test_what_no_node_has_is_corrected_first(typed: str, problem: str, first: str) -> None:
    error, again = lines(typed, TWO._replace(problems=(f"n1, n2: {problem}",)))
    assert error == f"first: {first}"
    assert again == f"then: dsrun-check {typed}"
    synced = lines("nothere.py", TWO._replace(problems=(f"n1: {problem}",), sync="."))
    assert synced == ["then: dsrun --sync . nothere.py"]


UNRESOLVED = {
    "n3": "its name does not resolve (n3:22: name or service not known)",
    "n4": "its name does not resolve (n4:22: name or service not known)",
    "n5": "connection refused: no sshd on that port",
}


@pytest.mark.parametrize(
    ("typed", "where", "check"),
    [
        ("-H hosts t.py", "in hosts", "dsrun-check -H hosts t.py"),
        ("--host n3,n4,n5 --full", "in --host", "dsrun-check --host n3,n4,n5 --full"),
        ("", "where it is listed", "dsrun-check"),
    ],
)
def test_a_name_that_does_not_resolve_is_mended_before_a_job_is_typed(
    typed: str, where: str, check: str
) -> None:
    first, again = lines(typed, TWO._replace(missing=UNRESOLVED))
    assert first == (
        f"first: n3, n4: correct the name {where}, or make it resolvable (DNS, /etc/hosts,"
        " HostName in ~/.ssh/config)"
    )
    assert again == f"then: {check}"
