"""The order of nodes by blocks of the network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.resources.hostfile import parse_hostfile
from dsrun.launcher.resources.rank_order import as_listed, by_blocks, check_segments
from dsrun.launcher.specs.host import Host

from ..support.properties import same_examples


def hosts(text: str) -> list[Host]:
    """Return `a1 b1 a2`: hosts in the blocks of their first letters."""
    return [Host(name, block=name[0].replace("-", "")) for name in text.split()]


def names(found: list[Host]) -> str:
    return " ".join(host.name for host in found)


@pytest.mark.parametrize(
    ("text", "blocks", "segment", "expected"),
    [
        ("a1 b1 a2 b2", "", 0, "a1 a2 b1 b2"),
        ("a1 b1 a2 b2", "b a", 0, "b1 b2 a1 a2"),
        ("a1 c1 b1", "b", 0, "b1 a1 c1"),
        ("a1 -1 b1 a2", "", 0, "a1 a2 b1 -1"),
        ("a1 a2 a3 b1 b2 b3", "", 2, "a1 a2 b1 b2 a3 b3"),
        ("a1 a2 a3 b1 b2 b3", "", 4, "a1 a2 a3 b1 b2 b3"),
        ("a1", "a b", 1, "a1"),
    ],
)
def test_hosts_of_a_block_are_in_a_row(text: str, blocks: str, segment: int, expected: str) -> None:
    assert names(by_blocks(hosts(text), blocks.split(), segment)) == expected


@given(st.lists(st.sampled_from("abc-"), max_size=30), st.integers(0, 5))
@same_examples
def test_any_order_is_a_permutation_with_whole_segments_first(blocks: str, segment: int) -> None:
    given_hosts = hosts(" ".join(f"{block}{at}" for at, block in enumerate(blocks)))
    ordered = by_blocks(given_hosts, (), segment)
    assert sorted(ordered) == sorted(given_hosts)
    if segment:
        known = [host.block for host in given_hosts if host.block]
        whole = sum(known.count(block) // segment * segment for block in {*known})
        check_segments(ordered[:whole], segment)


def test_a_list_gives_the_order_and_blocks() -> None:
    listed = parse_hostfile(b"# near first\nb1 block=x\na[1-2]\n", "order")
    ordered = as_listed(hosts("a1 a2 B1"), listed, "--host")
    assert [(host.name, host.block) for host in ordered] == [("B1", "x"), ("a1", "a"), ("a2", "a")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a1\na3\n", "order:2: no host 'a3' (--host has a1, a2, b1)"),
        ("a1\na2\n", "order: lacks b1; a rank order names each host once"),
        ("a1\na2\na1\nb1", "order:1: a1 is listed 2 times"),
    ],
)
def test_a_list_that_is_no_permutation(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        as_listed(hosts("a1 a2 b1"), parse_hostfile(text.encode(), "order"), "--host")
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a1 a2 a3 b1",
            "--segment 2: nodes 2 to 3 (a3, b1) are in blocks a, b; 2 nodes fit: --num_nodes 2",
        ),
        ("a1 a2 b1", "--segment 2: 3 nodes are not a multiple of it; 2 nodes fit: --num_nodes 2"),
        ("a1 b1", "--segment 2: nodes 0 to 1 (a1, b1) are in blocks a, b; no block has that many"),
        ("a1 -1", "--segment 2: the block of -1 is not known; write block=NAME in the hostfile"),
    ],
)
def test_segments_that_are_not_in_one_block(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_segments(hosts(text), 2)
    assert str(caught.value).startswith(expected)


def test_segments_that_are_in_one_block() -> None:
    check_segments(hosts("a1 a2 b1 b2 a3 a4"), 2)
    check_segments(hosts("a1 a2 a3"), 3)
