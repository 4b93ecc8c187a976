"""Equal outputs of hosts, once."""

from __future__ import annotations

from dsrun.launcher.head.output.fold import fold, heading, ranges


def test_equal_values_are_one_group_in_the_order_of_the_first() -> None:
    values = [("n1", b"b"), ("n2", b"a"), ("n3", b"b"), ("n4", b"")]
    assert fold(values) == {b"b": ["n1", "n3"], b"a": ["n2"], b"": ["n4"]}
    assert list(fold(values)) == [b"b", b"a", b""]
    assert fold([]) == {}


def test_many_names_are_ranges_and_none_is_left_out() -> None:
    names = [f"n{number}" for number in (*range(1, 12), 20, 22, 24, 26, 28, 30, 32)]
    assert ranges(names) == "n[1-11], n20, n22, n24, n26, n28, n30, n32"
    assert ranges(["rack-09", "rack-10", "rack-11"]) == "rack-[09-11]"


def test_a_heading_counts_several() -> None:
    assert heading(["n1"]) == "n1"
    assert heading(["n1", "n2", "n3", "x"]) == "n[1-3], x (4 nodes)"
