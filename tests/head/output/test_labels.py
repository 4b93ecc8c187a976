"""Output made into labelled lines, and where the lines land."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

import pytest

from dsrun.launcher.head.output.labels import LONGEST, Labeller, Sanitizer

from ...support.cost import LINEAR, growth

LABEL = b"w:0| "


def labelled(blocks: Iterable[bytes], label: bytes = LABEL) -> bytes:
    labeller = Labeller(label)
    return b"".join([*(labeller.feed(block) for block in blocks), labeller.finish()])


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    """Return `data` in blocks, cut at random."""
    at = sorted(chance.choices(range(len(data) + 1), k=chance.randrange(12)))
    return [data[low:high] for low, high in zip([0, *at], [*at, len(data)], strict=True)]


def sanitized(blocks: Iterable[bytes]) -> bytes:
    sanitizer = Sanitizer()
    return b"".join(sanitizer.feed(block) for block in blocks)


# -- labelling ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", b""),
        (b"a", b"w:0| a\n"),
        (b"a\n", b"w:0| a\n"),
        (b"\n", b"w:0| \n"),
        (b"a\n\nb\n", b"w:0| a\nw:0| \nw:0| b\n"),
        (b"a\nb", b"w:0| a\nw:0| b\n"),
        (b"a\r\nb\r\n", b"w:0| a\nw:0| b\n"),
        (b"\r\n", b"w:0| \n"),
        (b"10%\r20%\r30%\n", b"w:0| 30%\n"),
        (b"10%\r20%\r\nnext\n", b"w:0| 20%\nw:0| next\n"),
        (b"a\nx\ry\nb\n", b"w:0| a\nw:0| y\nw:0| b\n"),
        (b"\r10%\r20%", b"w:0| 20%\n"),
        (b"10%\r20%\r", b"w:0| 20%\n"),
        (b"\r", b""),
        (b"\xff\xfe\x00\n", b"w:0| \xff\xfe\x00\n"),
        ("é\u2028x\x0b\x0c\n".encode(), "w:0| é\u2028x\x0b\x0c\n".encode()),
    ],
)
def test_lines_get_labels(data: bytes, lines: bytes) -> None:
    assert labelled([data]) == lines
    assert labelled(data[at : at + 1] for at in range(len(data))) == lines


def test_blocks_cut_anywhere_give_the_same_lines() -> None:
    chance = random.Random(1)
    for _ in range(3000):
        data = bytes(chance.choices(b"ab\r\n", weights=(4, 4, 2, 2), k=chance.randrange(1, 40)))
        whole = labelled([data])
        for _ in range(4):
            blocks = cut(data, chance)
            assert labelled(blocks) == whole, blocks


def test_plain_lines_are_labelled_one_by_one() -> None:
    chance = random.Random(2)
    for _ in range(300):
        lines = [chance.randbytes(9).translate(None, b"\r\n") for _ in range(chance.randrange(9))]
        data = b"".join(line + b"\n" for line in lines)
        assert labelled(cut(data, chance)) == b"".join(LABEL + line + b"\n" for line in lines)
        assert labelled(cut(data, chance), b"") == data


def test_an_unfinished_line_is_kept_and_its_former_states_are_known() -> None:
    labeller = Labeller(LABEL)
    assert labeller.feed(b"a\nloss") == b"w:0| a\n"
    assert (labeller.carry, labeller.state()) == (b"loss", b"")
    assert labeller.feed(b" 1\rloss 2\rlo") == b""
    assert (labeller.carry, labeller.state(), labeller.state()) == (b"lo", b"loss 2", b"")
    assert labeller.feed(b"ss 3\r") == b""
    assert (labeller.state(), labeller.state()) == (b"loss 3", b"")
    assert labeller.feed(b"loss 4\rloss 5") == b""
    assert labeller.finish() == b"w:0| loss 5\n"
    assert labeller.finish() == b""


def test_a_state_that_was_overwritten_is_not_one_of_the_next_line() -> None:
    """Or a number of ten thousand would be printed twice."""
    labeller = Labeller(LABEL)
    assert labeller.feed(b"1\r2") == b""
    assert labeller.feed(b"\nnext") == b"w:0| 2\n"
    assert labeller.state() == b""


def test_a_part_of_a_line_goes_on_in_place_or_with_a_plus() -> None:
    labeller = Labeller(LABEL)
    assert labeller.feed("né".encode()[:2]) == b""
    assert labeller.part() == b"w:0| n"
    assert labeller.part() == b""
    assert labeller.feed("é?".encode()[1:]) == b""
    assert labeller.part() == "é?".encode()
    labeller.open = False
    assert labeller.feed(b" yes\rno\n") == b"w:0+  yes\nw:0| no\n"


def test_a_line_without_end_is_shown_in_pieces() -> None:
    labeller = Labeller(b"w|0|3| ")
    half = b"x" * (LONGEST // 2)
    assert labeller.feed(half) == labeller.feed(half) == b""
    assert labeller.feed(b"y") == b"w|0|3| " + half + half + b"y\n"
    assert labeller.carry == b""
    assert labeller.feed(half) == labeller.feed(half) == b""
    assert labeller.feed(b"z") == b"w+0|3| " + half + half + b"z\n"
    assert labeller.feed(b"rest\nnew\n") == b"w+0|3| rest\nw|0|3| new\n"
    assert labeller.feed(half + half + b"y") == b"w|0|3| " + half + half + b"y\n"
    assert labeller.feed(b"\nnew\n") == b"w|0|3| new\n"


def test_a_long_line_in_one_block_stays_one_line() -> None:
    line = b"x" * (3 * LONGEST)
    assert labelled([line + b"\n"]) == LABEL + line + b"\n"


@pytest.mark.parametrize(
    "line", ["x\r{a}\n", "{r}x\n", "{r}", "x\r{a}\r", "x\r{a}", "{a}{r}\n"], ids=repr
)
def test_lines_are_split_in_linear_time(line: str) -> None:
    def feed(size: int) -> None:
        data = line.format(a="A" * size, r="\r" * size).encode()
        for _ in range(200):
            Labeller(LABEL).feed(data)

    assert growth(feed, 2_000) < LINEAR


# -- what a terminal is not told ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "left"),
    [
        (b"plain\r\n\ttext", b"plain\r\n\ttext"),
        (b"\x1b[31mred\x1b[0m \x1b[1;38;5;196mbold\x1b[m", None),
        (b"\x1b[38:2::1:2:3mcolour\x1b[K\x1b[0K", None),
        (b"\r\x1b[2Ka\x1b[1Kb\x1b[01Kc\x1b[0;1Kd", b"\rabcd"),
        (b"a\x1b]0;title\x07b", b"ab"),
        (b"a\x1b]0;title\x1b\\b", b"ab"),
        (b"a\x1b]52;c;ZXZpbA==\x07b", b"ab"),
        (b"a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", b"alinkb"),
        (b"a\x1bP+q544e\x1b\\b", b"ab"),
        (b"a\x1b_apc\x1b\\b", b"ab"),
        (b"a\x1b^pm\x1b\\b", b"ab"),
        (b"a\x1bXsos\x1b\\b", b"ab"),
        (b"a\x1b[2Jb\x1b[Hc\x1b[10;5Hd\x1b[3Ae", b"abcde"),
        (b"a\x1b[?1049hb\x1b[?25lc\x1b[!pd", b"abcd"),
        (b"a\x1b[6nb\x1b[cc\x1b[21td", b"abcd"),
        (b"a\x1bcb\x1b7c\x1b8d\x1b(0e\x1b#8f\x1b=g", b"abcdefg"),
        (b"a\x1bMb\x1bDc", b"abc"),
        (b"a\x1b(B\x1b[mb", b"a\x1b[mb"),
        # Ends in `m` but sets how keys are sent (xterm, modifyOtherKeys): no colour.
        (b"a\x1b[>4;2mb", b"ab"),
        ("é\x1b[31m€".encode(), None),
        # What progress bars, notebooks and texts from right to left are made of.
        ("1%\r2%\b\b3%\t█▏ « \xa0» … \u200e\u200f\u2065\u206a漢\u00a0é".encode(), None),
        (b"a\0b\x05c\x07d\x0be\x0cf\x0eg\x0fh\x18i\x1aj\x7fk", b"abcdefghijk"),
        ("a\x9b2Jb\x9d0;t\x07c\x80d\x9fe\x85f".encode(), b"a2Jb0;tcdef"),
        ("a\u202ab\u202ec\u2066d\u2069e".encode(), b"abcde"),
        # Bytes that are no UTF-8; those of C1 are acted upon as they are (xterm without UTF-8).
        (b"\xff\xc3\x9b\x9b\xe9\n", b"\xff\xc3\x9b\xe9\n"),
        (b"a\x9b2Jb\x90c\x9d0;t\x07\x9cd\xa0\xbf", b"a2Jbc0;td\xa0\xbf"),
        (
            b"\xc0\x9b \xe0\x82\x9b \xf0\x80\x82\x9b \xed\xb2\x9b \xf4\x90\x80\x80 ",
            b"\xc0 \xe0 \xf0 \xed\xb2 \xf4 ",
        ),
        ("ۛ\u2014\ud7db\U0001f600\U000d06db\U0010ffff".encode(), None),
    ],
)
def test_harmful_sequences_are_taken_out(data: bytes, left: bytes | None) -> None:
    expected = data if left is None else left
    assert sanitized([data]) == expected
    assert sanitized(data[at : at + 1] for at in range(len(data))) == expected


@pytest.mark.parametrize(
    "data",
    [
        # What is taken out must not leave a whole sequence behind.
        b"\x1b\x1b]x\x07]52;c;ZXZpbA==\x07.",
        b"\x1b\x1b[2J[2J.",
        # A terminal acts on a control character inside a sequence and goes on with it (ECMA-48).
        b"\x1b\n]52;c;ZXZpbA==\x07.",
        b"\x1b[\n2J.",
        b"\x1b[2\rJ.",
    ],
)
def test_sequences_in_sequences_are_taken_out(data: bytes) -> None:
    assert b"\x1b" not in sanitized([data])


@pytest.mark.parametrize("char", ["\x9b", "\u202e"])
def test_what_is_taken_out_does_not_make_another_whole(char: str) -> None:
    """In whatever depth, and however many: in one go each."""
    first, rest = char.encode()[:1], char.encode()[1:]
    for between in (b"\x07", b"\x1b[2J", "\u202e".encode(), "\x9b".encode()):
        data = first + between + rest
        assert char.encode() not in sanitized([data])
        assert char.encode() not in sanitized(data[at : at + 1] for at in range(len(data)))
    deep = first * LONGEST + rest * LONGEST
    assert char.encode() not in sanitized([deep])


def test_only_colours_are_left_however_the_stream_is_cut() -> None:
    chance = random.Random(3)
    pieces = [b"\x1b", b"[", b"]", b"P", b"\\", b"\x07", b"\n", b"0", b"2", b"?", b" ", b"m", b"K"]
    pieces += [b"\xc2", b"\xe2", b"\x80", b"\x9b", b"\xae"]
    for _ in range(5000):
        data = b"".join(chance.choices([*pieces, b"J", b"x"], k=chance.randrange(1, 16))) + b"..J."
        for blocks in ([data], cut(data, chance)):
            left = sanitized(blocks)
            assert not re.search(rb"\x1b(?!\[(?:[0-9:;]*m|0*K))|\x07", left), blocks
            assert not re.search("[\x80-\x9f\u202e]", left.decode(errors="replace")), blocks


# Of characters in UTF-8 that a terminal should show, and of what it should not get.
_PIECES = ["é".encode(), "—".encode(), "漢".encode(), "😀".encode(), b"a", b"\n", b"\x1b[31m"]
_BAD = [bytes([byte]) for byte in (*range(0x80, 0x100, 5), 0x9B, 0x9D, 0xC2, 0xE2)]
_BAD += [b"\x07", b"\x1b[2J", "\u202e".encode(), "\x9b".encode(), b"\xc0\x9b"]


def test_no_byte_of_a_control_is_left_whatever_comes_however_it_is_cut() -> None:
    chance = random.Random(4)
    for _ in range(20_000):
        data = b"".join(chance.choices(_PIECES + _BAD, k=chance.randrange(1, 12)))
        left = sanitized(cut(data, chance)).decode("utf-8", "surrogateescape")
        assert not re.search("[\x80-\x9f\udc80-\udc9f\u202e\x07]", left), data


def test_text_is_left_as_it_is_however_it_is_cut() -> None:
    chance = random.Random(5)
    for _ in range(5000):
        data = b"".join(chance.choices(_PIECES, k=chance.randrange(1, 12)))
        assert sanitized(cut(data, chance)) == data


@pytest.mark.parametrize("begun", [b"\x9b", b"\xe2", b"\x1b[", b"\x1b]"])
@pytest.mark.parametrize("then", [b"0", b"\x1b["])
def test_a_stream_is_cleaned_in_linear_time(begun: bytes, then: bytes) -> None:
    def feed(size: int) -> None:
        for end in (b"", b"\n"):
            assert len(sanitized([begun + then * size + end])) <= 2 * size + 3
            assert len(sanitized([(begun + then) * size + end])) <= 5 * size + 1

    assert growth(feed, 2000) < LINEAR


@pytest.mark.parametrize("begun", [b"\x1b]0;", b"\x1b[", b"\x1b ", b"\xe2"])
@pytest.mark.parametrize("then", [b" ", b"\x80"])
def test_it_is_so_byte_by_byte(begun: bytes, then: bytes) -> None:
    def feed(size: int) -> None:
        assert len(sanitized([begun, *[then] * size])) <= size + 3

    assert growth(feed, 1000) < LINEAR


def test_a_string_that_never_ends_takes_no_other_lines_with_it() -> None:
    left = sanitized([b"\x1b]0;title\nloss 0.5\n", b"loss 0.4\n"])
    assert left.endswith(b"\nloss 0.5\nloss 0.4\n")


# -- screens ------------------------------------------------------------------------------------
