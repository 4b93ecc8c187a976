"""Matrices as text."""

from __future__ import annotations

from dsrun.launcher.features.full_check.runner_matrix import LABEL, Matrix, folded, lines, number


def matrix(count: int, name: str = "n", low: bool = True, **slow: float) -> Matrix:
    """A matrix of 5 everywhere, except in the rows of the nodes that are given."""
    names = tuple(f"{name}{at}" for at in range(1, count + 1))
    values = {(one, other): slow.get(one, 5.0) for one in names for other in names if one != other}
    return Matrix("trip, us", names, values, low)


def test_each_row_has_the_values_to_all_others() -> None:
    assert lines(matrix(3, n2=1234.5), 80, colour=False) == [
        "trip, us",
        "        n1      n2      n3",
        "n1       -       5       5",
        "n2    1234       -    1234",
        "n3       5       5       -",
    ]


def test_what_was_not_measured_is_a_question() -> None:
    some = matrix(2)
    del some.values["n1", "n2"]  # type: ignore[attr-defined]
    assert lines(some, 80, colour=False)[2] == "n1       -       ?"


def test_worse_values_have_colours_on_a_terminal() -> None:
    text = "\n".join(lines(matrix(4, n2=11.0, n3=25.0), 80, colour=True))
    assert text.count("\x1b[33m") == 3
    assert text.count("\x1b[31m") == 3
    low = "\n".join(lines(matrix(4, low=False, n2=1.0, n3=25.0), 80, colour=True))
    assert low.count("\x1b[31m") == 3
    assert "\x1b[33m" not in low


def test_columns_of_long_names_have_numbers() -> None:
    shown = lines(matrix(2, name="a-machine-in-a-rack-with-a-long-name-"), 80, colour=False)
    assert shown[1].split() == ["1", "2"]
    assert shown[2].startswith("  1 a-machine-in-a-rack-with")
    assert len(shown[2]) == LABEL + 4 + 16


def test_neighbours_share_a_row_if_there_are_too_many_and_the_worst_counts() -> None:
    small = folded(matrix(8, n6=50.0), 4)
    assert small.names == ("n1..n2", "n3..n4", "n5..n6", "n7..n8")
    assert small.values[small.names[2], small.names[0]] == 50.0
    assert small.values[small.names[0], small.names[2]] == 5.0
    assert small.title.endswith("the worst of each 2 x 2 nodes")
    assert folded(small, 4) is small


def test_many_nodes_fit_into_the_width() -> None:
    for count in (9, 64, 1000):
        shown = lines(matrix(count), 100, colour=False)
        assert max(map(len, shown[1:])) <= 100
    assert shown[2].split()[1] == "n[1-112]"


def test_numbers_are_short() -> None:
    assert [number(one) for one in (0.01234, 5.0, 99.95, 12345.6)] == [
        "0.0123",
        "5",
        "100",
        "12346",
    ]
