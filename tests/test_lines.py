"""Output made into labelled lines, and where the lines land."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable

import pytest

from dsrun.launcher.common.text import plain
from dsrun.launcher.head.output.labels import LONGEST, Labeller, Sanitizer
from dsrun.launcher.head.output.terminal import (
    LATEST,
    REDRAW,
    ROWS,
    LiveScreen,
    PlainScreen,
    may_move,
)

from .clock import Clock

LABEL = b"w:0| "


def labelled(blocks: Iterable[bytes], label: bytes = LABEL) -> bytes:
    labeller = Labeller(label)
    return b"".join([*(labeller.feed(block) for block in blocks), labeller.end()])


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


def test_an_unfinished_line_is_kept_and_known_to_move() -> None:
    labeller = Labeller(LABEL)
    assert labeller.feed(b"a\nloss") == b"w:0| a\n"
    assert (labeller.carry, labeller.moving) == (b"loss", False)
    assert labeller.feed(b" 1\r") == b""
    assert (labeller.carry, labeller.moving) == (b"loss 1\r", True)
    labeller.moving = False
    assert labeller.feed(b"loss 2") == b""
    assert (labeller.carry, labeller.moving) == (b"loss 2", True)
    assert labeller.end() == b"w:0| loss 2\n"
    assert labeller.end() == b""


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
    assert labeller.feed(b"\nnew\n") == b"w+0|3| \nw|0|3| new\n"


def test_a_long_line_in_one_block_stays_one_line() -> None:
    line = b"x" * (3 * LONGEST)
    assert labelled([line + b"\n"]) == LABEL + line + b"\n"


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
        # Bytes that are no UTF-8.
        (b"\xff\xc3\x9b\x9b\xe9\n", None),
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


def test_a_string_that_never_ends_takes_no_other_lines_with_it() -> None:
    left = sanitized([b"\x1b]0;title\nloss 0.5\n", b"loss 0.4\n"])
    assert left.endswith(b"\nloss 0.5\nloss 0.4\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc é 漢 \u200e", "a\tb\nc é 漢 \u200e"),
        ("\x1b[31mred\x1b[0m \x1b[2J", r"red \x1b[2J"),
        ("\x9b2J\x85\x7f\x07\r\0", r"\x9b2J\x85\x7f\x07\x0d\x00"),
        ("\u202a\u202e\u2066\u2069\u202f\u2065", "\\u202a\\u202e\\u2066\\u2069\u202f\u2065"),
    ],
)
def test_foreign_text_among_our_own_is_spelled_out(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert plain(shown) == shown


# -- screens ------------------------------------------------------------------------------------


Written = list[tuple[int, bytes]]
Write = Callable[[int, bytes, Callable[[], None] | None], None]


def writer(written: Written) -> Write:
    def write(stream: int, data: bytes, done: Callable[[], None] | None) -> None:
        if data:
            written.append((stream, data))
        if done is not None:
            done()

    return write


@pytest.fixture
def written() -> Written:
    return []


def unfinished(data: bytes, label: bytes = LABEL) -> Labeller:
    labeller = Labeller(label)
    assert labeller.feed(data) == b""
    return labeller


def test_a_file_gets_whole_lines_as_they_come(written: Written) -> None:
    clock = Clock()
    screen = PlainScreen(clock.loop, writer(written))
    told: list[str] = []
    screen.show(1, b"a\nb\n", lambda: told.append("out"))
    screen.show(2, b"", lambda: told.append("nothing"))
    screen.status("waiting")
    screen.clear()
    assert written == [(1, b"a\nb\n")]
    assert told == ["out", "nothing"]


def test_a_file_gets_a_moving_line_once_a_second(written: Written) -> None:
    clock = Clock()
    screen = PlainScreen(clock.loop, writer(written))
    bar = unfinished(b"\r1%")
    screen.open_line((0, 2), bar)
    clock.go(LATEST - 0.01)
    for percent in range(2, 50):
        bar.feed(b"\r%d%%" % percent)
        screen.open_line((0, 2), bar)
    assert written == []
    clock.go(0.01)
    assert written == [(2, b"w:0| 49%\n")]
    clock.go(LATEST)
    assert len(written) == 1
    screen.show(2, bar.feed(b"\r100%\n"), None)
    screen.open_line((0, 2), bar)
    clock.go(LATEST)
    assert written[1:] == [(2, b"w:0| 100%\n")]


def test_a_line_that_has_moved_and_now_waits_is_left_open(written: Written) -> None:
    clock = Clock()
    screen = PlainScreen(clock.loop, writer(written))
    line = unfinished(b"\r1%")
    for more in (b"", b", continue?"):
        line.feed(more)
        screen.open_line((0, 1), line)
        clock.go(LATEST)
    assert written == [(1, b"w:0| 1%\n"), (1, b"w:0| 1%, continue?")]


def test_a_file_gets_a_line_that_waits_and_its_end_later(written: Written) -> None:
    clock = Clock()
    screen = PlainScreen(clock.loop, writer(written))
    prompt = unfinished(b"name? ")
    screen.open_line((0, 1), prompt)
    clock.go(LATEST)
    assert written == [(1, b"w:0| name? ")]
    screen.show(1, prompt.feed(b"x\n"), None)
    assert written[1:] == [(1, b"x\n")]


def test_a_line_between_ends_the_one_that_stands_open(written: Written) -> None:
    clock = Clock()
    screen = PlainScreen(clock.loop, writer(written))
    prompt = unfinished(b"name? ")
    screen.open_line((0, 1), prompt)
    clock.go(LATEST)
    screen.show(1, b"w:1| other\n", None)
    screen.show(1, prompt.feed(b"x\n"), None)
    assert b"".join(data for _, data in written) == b"w:0| name? \nw:1| other\nw:0| name? x\n"


def test_a_file_gets_the_last_line_with_an_end(written: Written) -> None:
    screen = PlainScreen(Clock().loop, writer(written))
    screen.finish(1, unfinished(b"last"))
    screen.finish(1, Labeller(LABEL))
    assert written == [(1, b"w:0| last\n")]


def test_a_terminal_redraws_bars_in_place(written: Written) -> None:
    clock = Clock()
    screen = LiveScreen(clock.loop, writer(written))
    one, two = unfinished(b"1%"), unfinished(b"2%", b"w:1| ")
    screen.open_line((0, 1), one)
    screen.open_line((1, 1), two)
    assert written == []
    clock.go(REDRAW)
    assert written.pop() == (2, b"w:0| 1%\nw:1| 2%")
    screen.show(1, b"w:2| line\n", None)
    assert written.pop() == (1, b"\r\x1b[1A\x1b[Jw:2| line\nw:0| 1%\nw:1| 2%")
    two.feed(b"\r3%")
    screen.open_line((1, 1), two)
    clock.go(REDRAW)
    assert written.pop() == (2, b"\r\x1b[1A\x1b[Jw:0| 1%\nw:1| 3%")
    screen.clear()
    assert written.pop() == (2, b"\r\x1b[1A\x1b[J")
    screen.finish(1, two)
    assert written == [(1, b"w:1| 3%\n")]


def test_a_terminal_shows_a_status_and_takes_it_away(written: Written) -> None:
    screen = LiveScreen(Clock().loop, writer(written))
    screen.status("1/2 hosts")
    screen.status("2/2 hosts")
    screen.status("")
    assert written == [(2, b"1/2 hosts"), (2, b"\r\x1b[J2/2 hosts"), (2, b"\r\x1b[J")]


def test_a_terminal_shows_the_newest_bars_only(written: Written) -> None:
    clock = Clock()
    screen = LiveScreen(clock.loop, writer(written))
    for rank in range(ROWS + 3):
        screen.open_line((rank, 1), unfinished(b"x", b"%d| " % rank))
    clock.go(REDRAW)
    rows = [b"%d| x" % rank for rank in range(3, ROWS + 3)]
    assert written == [(2, b"\n".join(rows))]


def test_a_bar_that_has_ended_is_gone_from_the_terminal(written: Written) -> None:
    clock = Clock()
    screen = LiveScreen(clock.loop, writer(written))
    bar = unfinished(b"99%")
    screen.open_line((0, 1), bar)
    clock.go(REDRAW)
    screen.show(1, bar.feed(b"\r100%\n"), None)
    screen.open_line((0, 1), bar)
    clock.go(REDRAW)
    assert b"".join(data for _, data in written) == b"w:0| 99%\r\x1b[Jw:0| 100%\n"


@pytest.mark.parametrize(
    ("colour", "environ", "moves"),
    [
        ("auto", {"TERM": "xterm"}, True),
        ("auto", {"TERM": "xterm", "NO_COLOR": ""}, True),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, False),
        ("auto", {"TERM": "dumb"}, False),
        ("auto", {}, False),
        ("never", {"TERM": "xterm"}, False),
        ("always", {"TERM": "xterm", "NO_COLOR": "1"}, True),
        ("always", {"TERM": "dumb"}, False),
    ],
)
def test_whose_cursor_is_moved(colour: str, environ: dict[str, str], moves: bool) -> None:
    assert may_move(colour, environ) == moves


@pytest.mark.parametrize(("columns", "width"), [("20", 20), ("0", 80), ("9" * 5000, 80), ("x", 80)])
def test_columns_are_as_wide_as_the_user_says(
    written: Written, monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    screen = LiveScreen(Clock().loop, writer(written))
    screen.status("x" * 500)
    assert written == [(2, b"x" * (width - 1) + b"\x1b[0m")]


def test_rows_are_cut_to_the_width_and_colours_are_not_counted(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    clock = Clock()
    screen = LiveScreen(clock.loop, writer(written))
    screen.open_line((0, 1), unfinished(b"x" * 500, b"\x1b[36mw:0| \x1b[0m"))
    clock.go(REDRAW)
    ((_, row),) = written
    # No terminal here: eighty columns, the last one left free.
    assert row == b"\x1b[36mw:0| \x1b[0m" + b"x" * 74 + b"\x1b[0m"
