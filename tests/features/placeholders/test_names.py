"""Placeholders in words: what is one, what only looks like one, and what is a mistake."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.placeholders.names import NAMES, filled, mistakes

VALUES = {name: name.upper() for name in NAMES} | {"hosts": "n1,n2"}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("{rank}", "RANK"),
        ("x{rank}y{node_rank}", "xRANKyNODE_RANK"),
        ("--addr={master_addr}:{master_port}", "--addr=MASTER_ADDR:MASTER_PORT"),
        ("{hosts}", "n1,n2"),
        *((word, word) for word in ("", "rank", "${rank}", "{{rank}}", "{Rank}", "{rank", "rank}")),
        *((word, word) for word in ('{"rank": 1}', "{ rank }", "{other}", "{port.http}", "{}")),
    ],
)
def test_what_is_filled_in(word: str, expected: str) -> None:
    assert filled(word, VALUES) == expected


def test_mistakes() -> None:
    words = ("{rnak}", "{nodes_rank} {rank}", "{name}", "{model}", '{"a": 1}', "${rankk}")
    assert [*mistakes(words)] == [("rnak", "rank"), ("nodes_rank", "node_rank")]
