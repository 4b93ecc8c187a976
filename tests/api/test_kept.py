"""The newest output of a job."""

from __future__ import annotations

from dsrun.launcher.api.output import KeptOutput

from ..support.cost import LINEAR, growth


def test_all_output_is_kept_by_rank_and_stream() -> None:
    kept = KeptOutput()
    for rank, stream, data in [(0, 1, b"a"), (1, 1, b"b\n"), (0, 2, b"\xff"), (0, 1, b"c\n")]:
        kept.add(rank, stream, data)
    assert [kept.text(rank, stream) for rank in (0, 1) for stream in (1, 2)] == [
        "ac\n",
        "\N{REPLACEMENT CHARACTER}",
        "b\n",
        "",
    ]


def test_beyond_the_limit_the_longest_loses_its_oldest_lines() -> None:
    kept = KeptOutput(20)
    kept.add(1, 1, b"quiet\n")
    for number in range(100):
        kept.add(0, 1, b"%d\n" % number)
    assert kept.text(1, 1) == "quiet\n"
    assert kept.text(0, 1).endswith("98\n99\n")
    assert kept.text(0, 1).splitlines() == [
        str(one) for one in range(100 - len(kept.text(0, 1)) // 3, 100)
    ]
    assert len(kept.text(0, 1)) <= 14


def test_a_block_larger_than_the_limit_keeps_its_end() -> None:
    kept = KeptOutput(4)
    kept.add(0, 1, b"abcdefghij")
    assert kept.text(0, 1) == "ij"
    kept.add(0, 1, b"klmnopqrs\n")
    assert kept.text(0, 1) == "qrs\n"[-len(kept.text(0, 1)) :] != ""


def test_the_cost_is_linear() -> None:
    def work(size: int) -> None:
        kept = KeptOutput(1 << 14)
        for number in range(size):
            kept.add(number % 8, 1, b"a line\n")

    assert growth(work, 2000) < LINEAR
