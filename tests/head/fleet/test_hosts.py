"""Hosts in few words: causes that several share, and whom is waited for."""

from __future__ import annotations

import pytest

from dsrun.launcher.head.fleet.hosts import LOOKED_AT, by_cause, waiting_line

from ...support.cost import calls


@pytest.mark.parametrize(
    ("causes", "lines"),
    [
        ({"n1": "x (n1:22)"}, ["n1: x (n1:22)"]),
        ({f"n{i}": f"x (n{i}:22)" for i in range(1, 65)}, ["n[1-64]: x (HOST:22)"]),
        ({"a": "by 10.0.0.1 port 22", "b": "by 10.9.9.9 port 22"}, ["a, b: by ADDRESS port 22"]),
        ({"n1": "to n10", "n2": "to n20"}, ["n1: to n10", "n2: to n20"]),
        ({"n1": "key SHA256:a", "n2": "key SHA256:b"}, ["n1: key SHA256:a", "n2: key SHA256:b"]),
        ({f"{c}{i}": "x" for c in "abcdefg" for i in (1, 2, 3)}, [
            "a[1-3], b[1-3], c[1-3], d[1-3], e[1-3] and 6 more: x"
        ]),
    ],
)  # fmt: skip
def test_hosts_that_share_a_cause_share_its_line(causes: dict[str, str], lines: list[str]) -> None:
    assert by_cause(causes) == lines


@pytest.mark.parametrize(
    ("total", "waiting", "text"),
    [
        (64, ["node7", "node9", "node41"], "61/64 hosts, waiting for node7, node9, node41"),
        (5, list("abcde"), "0/5 hosts, waiting for a, b, c, d, e"),
        (9, list("abcdefg"), "2/9 hosts, waiting for a, b, c, d, e and 2 more"),
    ],
)
def test_who_is_waited_for(total: int, waiting: list[str], text: str) -> None:
    assert waiting_line(total, waiting) == text


def test_of_very_many_hosts_the_last_ones_are_only_counted() -> None:
    """The line is made twice a second, and meanwhile no signal is heard of."""
    names = [f"n{number}" for number in range(LOOKED_AT + 1000)]
    assert waiting_line(9000, names) == (
        f"{9000 - len(names)}/9000 hosts, waiting for n[0-{LOOKED_AT - 1}] and 1000 more"
    )
    assert calls(lambda: waiting_line(20 * LOOKED_AT, names * 4)) < 2 * calls(
        lambda: waiting_line(20 * LOOKED_AT, names[:LOOKED_AT])
    )
