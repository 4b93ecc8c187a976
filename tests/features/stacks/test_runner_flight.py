"""Collectives compared: who has not come, and who calls something else at the same number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.stacks.runner_flight import Behind, mismatch
from dsrun.launcher.features.stacks.runner_flight import behind as all_behind

from ...support.stacks import collective, ranks, view

if TYPE_CHECKING:
    from dsrun.launcher.features.stacks.messages import Collective
    from dsrun.launcher.features.stacks.runner_view import RankView


def known(*recorded: tuple[Collective, ...]) -> dict[int, RankView]:
    return ranks(*(view(rank, collectives=some) for rank, some in enumerate(recorded)))


def behind(views: dict[int, RankView]) -> Behind | None:
    return next(all_behind(views), None)


TWO = (0, 1)


def two(rank: int, number: int, state: str = "started", **more: str) -> Collective:
    return collective(rank, number, state, members=TWO, **more)


def test_nothing_recorded() -> None:
    assert behind(known((), ())) is None
    assert mismatch(known((), ())) is None


def test_who_has_not_come() -> None:
    found = behind(known((two(0, 7),), (two(1, 6, "completed"),)))
    assert found is not None
    assert [found.missing, found.waiting, found.one.sequence] == [(1,), (0,), 7]


def test_the_first_that_is_not_over_counts() -> None:
    """Ranks with a device call later collectives as well, as many as they like."""
    first = two(0, 7, "scheduled"), two(0, 8, "scheduled"), two(0, 9, "scheduled")
    second = two(1, 7), two(1, 8, "scheduled")
    assert behind(known(first, second)) is None
    found = behind(known(first, (two(1, 6, "completed"),)))
    assert found is not None
    assert [found.missing, found.one.sequence] == [(1,), 7]


def test_all_is_over() -> None:
    assert behind(known((two(0, 7, "completed"),), (two(1, 6, "completed"),))) is None


def test_a_rank_of_the_group_without_a_record_says_nothing() -> None:
    assert behind(known((collective(0, 7),), (collective(1, 6, "completed"),))) is None


def test_messages_between_two_ranks_have_other_numbers() -> None:
    some = known((two(0, 7, operation="gloo:send"),), (two(1, 3, operation="gloo:recv"),))
    assert [behind(some), mismatch(some)] == [None, None]


def test_sizes_that_differ() -> None:
    found = mismatch(known((two(0, 7),), (two(1, 7, sizes="[[12]]"),)))
    assert found is not None
    assert [found.group, found.number] == ["default_pg", 7]
    assert found.calls == (
        ("all_reduce of [[10]] ['Float']", (0,)),
        ("all_reduce of [[12]] ['Float']", (1,)),
    )


def test_sizes_that_may_differ() -> None:
    first, other = two(0, 7, operation="all_gather"), two(1, 7, operation="all_gather", sizes="[]")
    assert mismatch(known((first,), (other,))) is None


def test_what_is_over_did_not_differ() -> None:
    done = two(0, 7, "completed")
    assert mismatch(known((done,), (two(1, 7, sizes="[[12]]"),))) is None
    assert mismatch(known((done,), (two(1, 7, "completed", operation="barrier"),))) is None


def test_another_operation_differs_though_some_have_completed_theirs() -> None:
    """The rank that broadcasts only sends, and those that have received are over as well."""
    over = [
        (collective(rank, 7, "completed", operation="broadcast"), collective(rank, 8))
        for rank in range(3)
    ]
    found = mismatch(known(*over, (collective(3, 7, operation="barrier"),)))
    assert found is not None
    assert found.calls == (("broadcast", (0, 1, 2)), ("barrier", (3,)))


def test_the_most_frequent_call_comes_first() -> None:
    calls = "gloo:barrier", "gloo:all_reduce", "gloo:all_reduce", "gloo:all_reduce"
    some = [(collective(rank, 7, operation=call),) for rank, call in enumerate(calls)]
    found = mismatch(known(*some))
    assert found is not None
    assert found.calls == (
        ("all_reduce", (1, 2, 3)),
        ("barrier", (0,)),
    )
