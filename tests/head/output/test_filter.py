"""What is shown of which worker, and behind which label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.head.output.filter import OutputFilter
from dsrun.launcher.planning.policies import output_policy
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Node, Plan, lay_out
from dsrun.launcher.specs.policies import OutputPolicy
from dsrun.launcher.specs.program import Program

if TYPE_CHECKING:
    from collections.abc import Iterable

PLAN = Plan(lay_out([Host("w0", (0,))]), Program("x.py"), "local", None, None)
SPEC = JobSpec("j", PLAN, "/")
BOTH = {1, 2}


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (Options(), {(0, 0): BOTH, (9, 1): BOTH}),
        (Options(console_ranks="0,8-15"), {(0, 0): BOTH, (1, 1): set(), (9, 1): BOTH}),
        (Options(local_ranks_filter="0"), {(0, 0): BOTH, (8, 0): BOTH, (9, 1): set()}),
        (
            Options(console_ranks="8,9", local_ranks_filter="1"),
            {(0, 0): set(), (8, 0): set(), (9, 1): BOTH, (1, 1): set()},
        ),
        (Options(tee="3"), {(0, 0): BOTH}),
        (Options(redirects="3"), {(0, 0): set()}),
        (Options(redirects="1", log_dir="l"), {(0, 0): {2}, (9, 1): {2}}),
        (Options(redirects="2", log_dir="l"), {(0, 0): {1}}),
        # What is teed is shown, as with torchrun.
        (Options(redirects="3", log_dir="l", tee="2"), {(0, 0): {2}}),
        (Options(redirects="3", log_dir="l"), {(0, 0): set()}),
        (Options(redirects="0:1,1:3", log_dir="l"), {(0, 0): {2}, (9, 1): set(), (2, 2): BOTH}),
        (Options(redirects="2,0:0", log_dir="l"), {(0, 0): BOTH, (9, 1): {1}}),
    ],
)
def test_streams_that_are_shown(options: Options, shown: dict[tuple[int, int], set[int]]) -> None:
    made = OutputFilter(SPEC._replace(output=output_policy(options)))
    assert {key: made.shown(*key) for key in shown} == shown


NODE = Node(2, Host("w2", (0, 1)), 4, (0, 1))


@pytest.mark.parametrize(
    ("form", "label"),
    [
        ("{host}:{rank}| ", "w2:5| "),
        ("", ""),
        ("[{job}] n{node_rank} l{local_rank} {rank:03d} {{}} ", "[j] n2 l1 005 {} "),
    ],
)
def test_labels(form: str, label: str) -> None:
    made = OutputFilter(SPEC._replace(output=OutputPolicy(prefix=form)))
    assert made.label(NODE, 5, 1) == label


NODES = lay_out([Host(f"w{number}", (0, 1, 2, 3)) for number in range(4)])


@pytest.mark.parametrize(
    ("form", "ranks", "label"),
    [
        ("{host}:{rank}| ", range(16), "w0-w3:0-15| "),
        ("{host}:{rank}| ", (0, 1, 2, 5, 13), "w0-w1,w3:0-2,5,13| "),
        ("{host}:{rank}| ", (6,), "w1:6| "),
        ("{host}:{rank:3}| ", (6,), "w1:  6| "),
        ("{node_rank}.{local_rank} {rank} {job}/{role} ", (1, 5, 9), "0-2.1 1,5,9 j/default "),
    ],
)
def test_labels_of_several_ranks(form: str, ranks: Iterable[int], label: str) -> None:
    made = OutputFilter(SPEC._replace(output=OutputPolicy(prefix=form)))
    assert made.can_fold
    assert made.joint_label([(NODES[rank // 4], rank) for rank in ranks]) == label


def test_labels_of_many_scattered_ranks_count_them() -> None:
    nodes = lay_out([Host(f"{name}x", (0, 1)) for name in "abcdefghijklmnopqrstuvwxyz"])
    made = OutputFilter(SPEC)
    assert made.joint_label([(node, node.first_rank or 0) for node in nodes]) == (
        "26 hosts:26 ranks| "
    )


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (Options(), 16),
        (Options(console_ranks="0,5,99"), 2),
        (Options(local_ranks_filter="1"), 4),
        (Options(redirects="3,2:0", log_dir="l"), 4),
    ],
)
def test_how_many_ranks_are_shown(options: Options, count: int) -> None:
    made = OutputFilter(SPEC._replace(output=output_policy(options)))
    assert len(made.workers(NODES)) == count
