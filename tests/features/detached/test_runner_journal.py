"""The journal of a job: its entries, and what stays of them when it is shortened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.features.detached import runner_journal as journal
from dsrun.launcher.features.detached.runner_journal import JournalEntry
from dsrun.launcher.head.run.events import Lost

from ...support.kept_jobs import event, message, output
from ...support.properties import same_examples

EVENT = Lost("n1", "gone", survived=True)

ENTRIES = [
    JournalEntry(1, 0.5, journal.STDOUT, b"hello\n", 3, "n0"),
    JournalEntry(2, 0.75, journal.STDERR, b"\x00\xff\x1b", 4_000_000, "h\udcff" * 40),
    JournalEntry(3, 1.0, journal.MESSAGE, "lost n1: é".encode()),
    JournalEntry(9, 2.0, journal.EVENT, b"{}"),
]
PACKED = [journal.pack(one) for one in ENTRIES]


def test_what_is_packed_is_read() -> None:
    assert journal.entries(b"".join(PACKED)) == ENTRIES
    assert journal.entries(b"") == []


def test_a_journal_that_was_cut_ends_with_the_last_whole_entry() -> None:
    whole = b"".join(PACKED)
    for size in range(len(whole)):
        found = journal.entries(whole[:size])
        assert found == ENTRIES[: len(found)]
        assert sum(map(len, PACKED[: len(found)])) <= size < len(b"".join(PACKED[: len(found) + 1]))


def test_a_place_to_go_on_from_is_behind_each_entry() -> None:
    whole = b"".join(PACKED)
    places = [behind for _, behind in journal.unpack(whole)]
    assert [next(journal.unpack(whole, at))[0] for at in places[:-1]] == ENTRIES[1:]


@pytest.mark.parametrize("damage", [b"\x09", b"\xff" * 4])
def test_what_is_damaged_ends_a_journal(damage: bytes) -> None:
    whole = bytearray(b"".join(PACKED))
    at = len(PACKED[0]) + (20 if len(damage) == 1 else 22)  # the kind, the length of the data
    whole[at : at + len(damage)] = damage
    assert journal.entries(bytes(whole)) == ENTRIES[:1]


@given(st.binary())
@same_examples
def test_no_bytes_are_too_strange(data: bytes) -> None:
    assert len(journal.entries(data)) <= len(data)


def test_there_is_less_room_for_each_of_many_ranks() -> None:
    assert [journal.room(ranks) for ranks in (0, 1, 16)] == [journal.PER_RANK] * 3
    assert journal.room(64) == 256 << 10
    assert journal.room(100_000) == journal.LEAST


def test_a_rank_that_prints_much_costs_no_other_its_output() -> None:
    loud = [output(0, b"x" * 1000) for _ in range(3000)]
    known = [output(1, b"traceback"), *loud, message("lost n1"), event(EVENT)]
    kept = journal.shortened(known)
    assert (kept[0].rank, kept[0].data) == (1, b"traceback")
    assert kept[-2:] == known[-2:]
    size = sum(map(journal.size, kept))
    assert journal.PER_RANK <= size < 1.01 * journal.PER_RANK
    assert size <= journal.limit(2)


def test_one_large_entry_is_cut() -> None:
    ranks = [output(rank, b"%07d" % rank * 9000) for rank in range(4096)]
    kept = journal.shortened(ranks)
    assert len(kept) == 4096
    assert {len(one.data) for one in kept} == {journal.WHOLE // 4096}
    assert kept[7].data.endswith(b"0000007")


def test_messages_and_events_are_bounded_as_well() -> None:
    kept = journal.shortened([message("m" * 1000), event(EVENT)] * 20_000)
    sizes = [sum(journal.size(one) for one in kept if one.kind == kind) for kind in journal.OTHERS]
    assert all(
        size < 1.01 * most for size, most in zip(sizes, journal.OTHERS.values(), strict=True)
    )
