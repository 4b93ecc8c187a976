"""Lists of cpus, as users write them and as the kernel does."""

from collections.abc import Sequence

import pytest

from dsrun.launcher.common.cpu_list import format_cpus, parse_core_list
from dsrun.launcher.common.errors import UsageError


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", (0,)),
        ("1,3-5", (1, 3, 4, 5)),
        ("8-9,0-1", (0, 1, 8, 9)),
        (" 0 , 2-3 ", (0, 2, 3)),
        ("4-4", (4,)),
    ],
)
def test_core_lists_are_read(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_core_list(text) == cpus


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", ""),
        ("1,", ""),
        ("a", "a"),
        ("0,5-3", "5-3"),
        ("-1", "-1"),
        ("1-2-3", "1-2-3"),
        ("0-99999999999", "0-99999999999"),
        ("99999999999", "99999999999"),
        ("1:3", "1:3"),
        ("1 2", "1 2"),
        ("\u0661", "\u0661"),
    ],
)
def test_a_bad_core_list_names_the_bad_part(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_core_list(text)
    assert str(caught.value) == (
        f"--bind_core_list: '{part}': expected cpu numbers, such as '1' or '3-5'"
    )


def test_a_core_list_may_not_name_a_cpu_twice() -> None:
    with pytest.raises(UsageError) as caught:
        parse_core_list("0-4,3-5", where="DSRUN_BIND_CORE_LIST")
    assert str(caught.value) == "DSRUN_BIND_CORE_LIST: '0-4,3-5': cpu 3-4 is listed twice"


@pytest.mark.parametrize(
    ("cpus", "text"),
    [((), ""), ((0,), "0"), ((0, 1), "0-1"), ((8, 0, 3, 1, 2), "0-3,8"), ((1, 3, 5, 1), "1,3,5")],
)
def test_cpus_are_written_the_kernels_way(cpus: Sequence[int], text: str) -> None:
    assert format_cpus(cpus) == text
