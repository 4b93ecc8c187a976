"""Where the workers' lines land: a terminal, or a file."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable

import pytest

from dsrun.launcher.head.output.labels import LONGEST, Labeller
from dsrun.launcher.head.output.terminal import (
    LATEST,
    REDRAW,
    ROWS,
    StreamOutput,
    TerminalOutput,
    may_move,
)

from ...support.clock import Clock
from ...support.standard_streams import streams

LABEL = b"w:0| "


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
    screen = StreamOutput(clock.loop, writer(written))
    told: list[str] = []
    screen.show(1, b"a\nb\n", lambda: told.append("out"))
    screen.show(2, b"", lambda: told.append("nothing"))
    screen.status("waiting")
    screen.clear()
    assert written == [(1, b"a\nb\n")]
    assert told == ["out", "nothing"]


def test_a_file_gets_a_moving_line_once_a_second(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    bar = unfinished(b"\r1%")
    screen.open_line((0, 2), bar)
    clock.go(LATEST - 0.01)
    for percent in range(2, 50):
        bar.feed(b"\r%d%%" % percent)
        screen.open_line((0, 2), bar)
    assert written == []
    clock.go(0.01)
    assert written == [(2, b"w:0| 48%\n")]
    clock.go(LATEST)
    assert written[1:] == [(2, b"w:0| 49%")]
    screen.show(2, bar.feed(b"\r100%\n"), None)
    screen.open_line((0, 2), bar)
    clock.go(LATEST)
    assert written[2:] == [(2, b"\nw:0| 100%\n")]


def test_a_line_that_has_moved_and_now_waits_is_left_open(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    line = unfinished(b"\r1%")
    for more in (b"", b", continue?"):
        line.feed(more)
        screen.open_line((0, 1), line)
        clock.go(LATEST)
    assert written == [(1, b"w:0| 1%"), (1, b", continue?")]


def test_a_file_gets_a_line_that_waits_and_its_end_later(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    prompt = unfinished(b"name? ")
    screen.open_line((0, 1), prompt)
    clock.go(LATEST)
    assert written == [(1, b"w:0| name? ")]
    screen.show(1, prompt.feed(b"x\n"), None)
    assert written[1:] == [(1, b"x\n")]


def test_a_line_that_comes_slowly_waits_until_nothing_more_comes(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    slow = Labeller(LABEL)
    for part in (b"a", b"b", b"c", b"d"):
        slow.feed(part)
        screen.open_line((0, 1), slow)
        clock.go(LATEST * 0.9)
    assert written == []
    clock.go(2 * LATEST)
    assert written == [(1, b"w:0| abcd")]


def test_a_line_that_waits_is_shown_once_the_others_have_ended(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    prompt, other = unfinished(b"name? "), unfinished(b"x", b"w:1| ")
    screen.open_line((0, 1), prompt)
    screen.open_line((1, 1), other)
    clock.go(3 * LATEST)
    screen.show(1, other.feed(b"\n"), None)
    screen.open_line((1, 1), other)
    clock.go(LATEST)
    assert written == [(1, b"w:1| x\n"), (1, b"w:0| name? ")]


def test_a_long_line_that_waits_between_two_pieces_is_shown_once(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    labeller = Labeller(LABEL)
    key = 0, 1
    for block in (b"a" * (LONGEST + 1), b"b", b"c\n"):
        screen.show(1, labeller.feed(block), None)
        screen.open_line(key, labeller)
        clock.go(LATEST)
    shown = b"".join(data for _, data in written)
    assert shown == LABEL + b"a" * (LONGEST + 1) + b"\n" + LABEL.replace(b"|", b"+") + b"bc\n"


def test_a_line_between_ends_the_one_that_stands_open(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    prompt = unfinished(b"name? ")
    screen.open_line((0, 1), prompt)
    clock.go(LATEST)
    screen.show(1, b"w:1| other\n", None)
    screen.show(1, prompt.feed(b"x\n"), None)
    assert b"".join(data for _, data in written) == b"w:0| name? \nw:1| other\nw:0+ x\n"


def test_a_file_gets_the_last_line_with_an_end(written: Written) -> None:
    screen = StreamOutput(Clock().loop, writer(written))
    screen.finish(1, unfinished(b"last"))
    screen.finish(1, Labeller(LABEL))
    assert written == [(1, b"w:0| last\n")]


def test_a_terminal_redraws_bars_in_place(written: Written) -> None:
    clock = Clock()
    screen = TerminalOutput(clock.loop, writer(written))
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
    screen = TerminalOutput(Clock().loop, writer(written))
    screen.status("1/2 hosts")
    screen.status("2/2 hosts")
    screen.status("")
    assert written == [(2, b"1/2 hosts"), (2, b"\r\x1b[J2/2 hosts"), (2, b"\r\x1b[J")]


def test_a_terminal_shows_the_newest_bars_only(written: Written) -> None:
    clock = Clock()
    screen = TerminalOutput(clock.loop, writer(written))
    for rank in range(ROWS + 3):
        screen.open_line((rank, 1), unfinished(b"x", b"%d| " % rank))
    clock.go(REDRAW)
    rows = [b"%d| x" % rank for rank in range(3, ROWS + 3)]
    assert written == [(2, b"\n".join(rows))]


def test_a_bar_that_has_ended_is_gone_from_the_terminal(written: Written) -> None:
    clock = Clock()
    screen = TerminalOutput(clock.loop, writer(written))
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
    screen = TerminalOutput(Clock().loop, writer(written))
    screen.status("x" * 500)
    assert written == [(2, b"x" * (width - 1) + b"\x1b[0m")]


def test_rows_are_cut_to_the_width_and_colours_are_not_counted(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    clock = Clock()
    screen = TerminalOutput(clock.loop, writer(written))
    screen.open_line((0, 1), unfinished(b"x" * 500, b"\x1b[36mw:0| \x1b[0m"))
    clock.go(REDRAW)
    ((_, row),) = written
    # No terminal here: eighty columns, the last one left free.
    assert row == b"\x1b[36mw:0| \x1b[0m" + b"x" * 74 + b"\x1b[0m"


def test_a_line_that_has_ended_is_not_written_again(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    prompt = unfinished(b"name? ")
    screen.open_line((0, 1), prompt)
    screen.show(1, prompt.feed(b"x\n"), None)
    screen.open_line((0, 1), prompt)
    clock.go(2 * LATEST)
    assert written == [(1, b"w:0| name? x\n")]


def test_of_several_lines_that_wait_none_is_left_open(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    for rank in (0, 1):
        screen.open_line((rank, 1), unfinished(b"name? "))
    clock.go(LATEST)
    assert written == []


def test_one_line_stands_open_at_a_time(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    for rank in (0, 1):
        screen.open_line((rank, 1), unfinished(b"name? ", b"%d| " % rank))
        clock.go(LATEST)
    assert written == [(1, b"0| name? ")]
    screen.open_line((2, 2), unfinished(b"name? ", b"2| "))
    clock.go(LATEST)
    assert written[1:] == [(2, b"2| name? ")]


def test_a_terminal_is_not_drawn_anew_for_a_line_that_was_not_there(written: Written) -> None:
    clock = Clock()
    screen = TerminalOutput(clock.loop, writer(written))
    screen.open_line((0, 1), Labeller(LABEL))
    clock.go(REDRAW)
    assert written == []
    bar = unfinished(b"1%")
    screen.open_line((0, 1), bar)
    clock.go(REDRAW)
    bar.finish()
    screen.open_line((0, 1), bar)
    clock.go(REDRAW)
    assert written == [(2, b"w:0| 1%"), (2, b"\r\x1b[J")]


def test_a_terminal_is_drawn_anew_at_most_ten_times_a_second(written: Written) -> None:
    clock = Clock()
    screen = TerminalOutput(clock.loop, writer(written))
    bar = unfinished(b"\r1%")
    for percent in range(40):
        bar.feed(b"\r%d%%" % percent)
        screen.open_line((0, 1), bar)
        clock.go(REDRAW / 4)
    assert 7 <= len(written) <= 10


def test_what_is_shown_above_a_terminals_foot_is_told(written: Written) -> None:
    screen, told = TerminalOutput(Clock().loop, writer(written)), list[str]()
    screen.show(1, b"", lambda: told.append("nothing"))
    screen.show(1, b"x\n", lambda: told.append("x"))
    assert (told, written) == (["nothing", "x"], [(1, b"x\n")])


def test_a_terminal_that_ends_shows_nothing_of_an_empty_line(written: Written) -> None:
    screen = TerminalOutput(Clock().loop, writer(written))
    screen.finish(1, Labeller(LABEL))
    assert written == []


def test_twelve_rows_and_a_status(written: Written) -> None:
    assert ROWS == 12
    clock = Clock()
    screen = TerminalOutput(clock.loop, writer(written))
    screen.status("all")
    for rank in range(ROWS):
        screen.open_line((rank, 1), unfinished(b"x", b"%d| " % rank))
    clock.go(REDRAW)
    assert written[-1][1].count(b"\n") == ROWS
    assert written[-1][1].endswith(b"11| x\nall")
    screen.clear()
    assert written[-1] == (2, b"\r\x1b[%dA\x1b[J" % ROWS)


def test_a_moving_line_is_written_once_a_second_however_often_it_moves(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    bar = unfinished(b"\r1%")
    for percent in (1, 2):
        bar.feed(b"\r%d%%\r" % percent)
        screen.open_line((0, 2), bar)
        clock.go(LATEST / 2)
    assert written == [(2, b"w:0| 2%\n")]
    clock.go(LATEST / 4)
    bar.feed(b"\r3%\r")
    screen.open_line((0, 2), bar)
    clock.go(LATEST * 0.99)
    assert len(written) == 1
    clock.go(LATEST / 100)
    assert written[1:] == [(2, b"w:0| 3%\n")]
    screen.finish(2, bar)
    assert len(written) == 2


def test_both_streams_of_a_rank_in_one_file_are_lines_of_their_own(written: Written) -> None:
    clock = Clock()
    screen = StreamOutput(clock.loop, writer(written))
    prompt, error = unfinished(b"name? "), unfinished(b"war")
    screen.open_line((0, 1), prompt)
    screen.open_line((0, 1), error)
    screen.show(1, error.feed(b"ning\n"), None)
    screen.open_line((0, 1), error)
    clock.go(LATEST)
    assert written == [(1, b"w:0| warning\n"), (1, b"w:0| name? ")]


@pytest.mark.parametrize("stream", [1, 2])
def test_either_stream_tells_how_wide_a_terminal_is(
    written: Written, monkeypatch: pytest.MonkeyPatch, stream: int
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    main, fd = pty.openpty()
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
    with open(os.devnull, "wb") as null:  # noqa: PTH123
        both = (fd, null.fileno()) if stream == 1 else (null.fileno(), fd)
        with streams(*both):
            TerminalOutput(Clock().loop, writer(written)).status("x" * 500)
    os.close(main)
    os.close(fd)
    assert written == [(2, b"x" * 19 + b"\x1b[0m")]


def test_the_last_lines_replace_the_live_area_of_a_terminal(written: Written) -> None:
    clock = Clock()
    screen = TerminalOutput(clock.loop, writer(written), lambda: 80)
    bars = [unfinished(b"84%", label) for label in (b"0| ", b"1| ")]
    for rank, bar in enumerate(bars):
        screen.open_line((rank, 2), bar)
    clock.go(REDRAW)
    for bar in bars:
        screen.finish(2, bar)
    assert [data for _, data in written] == [
        b"0| 84%\n1| 84%",
        b"\r\x1b[1A\x1b[J0| 84%\n1| 84%",
        b"\r\x1b[J1| 84%\n",
    ]
