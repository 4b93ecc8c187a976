"""What is decided before the start of a job: facts held together, and the master."""

from __future__ import annotations

import pytest

from dsrun.launcher.control.messages import Hello
from dsrun.launcher.features.quick_check.runner_before_start import (
    choose_master,
    master_candidates,
    problems,
)
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.specs.plan import lay_out

# -- the facts held together --------------------------------------------------------------------


def hello(**more: object) -> Hello:
    facts: dict[str, object] = {
        "dsrun": "1",
        "hostname": "real",
        "machine": "m",
        "python": "/py",
        "accelerator": "cuda",
        "devices": (),
        "slots": 1,
        "port": None,
        "addresses": (),
        "problems": (),
        "clock": 0.0,
    }
    return Hello(**{**facts, **more})  # type: ignore[arg-type]


NODES = lay_out([Host("w0", (0,), where="hosts:1"), Host("w1", (0,), where="hosts:2"), Host("w2")])


@pytest.mark.parametrize(
    ("hellos", "found"),
    [
        ([hello(machine="a"), hello(machine="b"), hello(machine="c")], []),
        (
            [
                hello(machine="a", problems=("no such folder: /x", "no Python at /py")),
                hello(machine="b"),
                hello(machine="c", problems=("port 1 is taken",)),
            ],
            ["w0: no such folder: /x", "w0: no Python at /py", "w2: port 1 is taken"],
        ),
        (
            [hello(machine=name, problems=("no such script: /x.py",)) for name in "abc"],
            ["w[0-2]: no such script: /x.py"],
        ),
        (
            [hello(machine="a"), hello(machine="a"), hello(machine="a")],
            [
                "w1 (hosts:2): the same machine as w0; list it once, with all its slots",
                "w2: the same machine as w0; list it once, with all its slots",
            ],
        ),
        (
            [hello(machine="a"), hello(machine="b", accelerator="cpu"), hello(machine="c")],
            [
                "the hosts have different accelerators (cuda: w0, w2; cpu: w1);"
                " select hosts of one kind with --include"
            ],
        ),
    ],
)
def test_what_stands_in_the_way(hellos: list[Hello], found: list[str]) -> None:
    assert problems(NODES, dict(enumerate(hellos))) == found


@pytest.mark.parametrize(
    ("host", "given", "candidates"),
    [
        ("w0", None, ("w0", "10.0.0.1", "fd00::1", "real")),
        ("10.0.0.1", None, ("10.0.0.1", "fd00::1", "real")),
        ("localhost", None, ("10.0.0.1", "fd00::1", "real")),
        ("127.0.0.1", None, ("10.0.0.1", "fd00::1", "real")),
        ("::1", None, ("10.0.0.1", "fd00::1", "real")),
        ("w0", "mine", ("mine",)),
    ],
)
def test_addresses_of_the_master_to_try(
    host: str, given: str | None, candidates: tuple[str, ...]
) -> None:
    (node,) = lay_out([Host(host, (0,))])
    said = hello(addresses=("10.0.0.1", "fd00::1"))
    assert master_candidates(node, said, given) == candidates


@pytest.mark.parametrize(
    ("verdicts", "address", "reasons"),
    [
        ({"w1": ["", ""], "w2": ["", ""]}, "a", []),
        ({"w1": ["", ""], "w2": ["refused", ""]}, "b", []),
        (
            {"w1": ["", ""], "w2": ["refused", "no answer"]},
            "",
            ["w2: cannot reach the master at a:7 (refused); b:7 (no answer)"],
        ),
        (
            {"w1": ["", "x"], "w2": ["y", ""]},
            "",
            ["no address of the first host can be reached from every node: a, b"],
        ),
    ],
)
def test_the_master_is_the_first_address_that_all_reach(
    verdicts: dict[str, list[str]], address: str, reasons: list[str]
) -> None:
    assert choose_master(["a", "b"], verdicts, 7) == (address, reasons)
