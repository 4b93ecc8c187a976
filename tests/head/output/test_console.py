"""What the user sees of a job: on files, pipes and terminals."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.common.poll import ready
from dsrun.launcher.head.output.console import COLOURS, Console
from dsrun.launcher.head.output.labels import LONGEST
from dsrun.launcher.head.output.terminal import LATEST, LINES
from dsrun.launcher.resources.ranges import show_slots

from ...support.clock import Clock
from ...support.limits import HANG
from ...support.standard_streams import streams

FULL = Path("/dev/full")


Shown = pytest.CaptureFixture[str]


def run_until(loop: Loop, count: int, happened: list[object]) -> None:
    """Run until so much has happened; thirty seconds are too long for anything here."""

    def look() -> None:
        if len(happened) >= count:
            loop.stop()
        else:
            loop.call_later(0.001, look)

    late = loop.call_later(30.0, lambda: pytest.fail("it does not happen"))
    look()
    loop.run()
    late.cancel()


def test_each_stream_of_a_worker_goes_to_ours(capfd: Shown) -> None:
    loop, taken = Loop(), list[object]()
    console = Console(loop)
    console.label(3, "w0:3| ", {1, 2})
    console.feed(3, 1, b"one\ntwo\n", lambda: taken.append(1))
    console.feed(3, 2, b"wrong\nmo", lambda: taken.append(2))
    console.feed(3, 2, b"re\n", lambda: taken.append(3))
    run_until(loop, 3, taken)
    console.close()
    assert capfd.readouterr() == ("w0:3| one\nw0:3| two\n", "w0:3| wrong\nw0:3| more\n")
    assert sorted(taken, key=str) == [1, 2, 3]


def test_what_is_taken_is_told_from_the_loop(capfd: Shown) -> None:
    loop, taken = Loop(), list[object]()
    console = Console(loop)
    console.label(0, "", {1})
    console.feed(0, 1, b"x\n", lambda: taken.append(1))
    console.close()
    assert capfd.readouterr() == ("x\n", "")
    assert taken == []
    run_until(loop, 1, taken)


def test_streams_that_are_not_shown_are_taken_at_once(capfd: Shown) -> None:
    taken: list[int] = []
    console = Console(Loop())
    console.label(0, "a| ", {2})
    console.feed(0, 1, b"x\n", lambda: taken.append(1))
    console.feed(1, 2, b"x\n", lambda: taken.append(2))
    assert taken == [1, 2]
    console.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("ends", ["close", "tell"])
def test_a_last_line_without_an_end_gets_one(capfd: Shown, ends: str) -> None:
    console = Console(Loop())
    console.label(0, "a| ", {1, 2})
    for stream in (1, 2):
        console.feed(0, stream, b"last", lambda: None)
    if ends == "tell":
        console.print_report("dsrun: it failed\x07")
    console.close()
    report = "dsrun: it failed\\x07\n" if ends == "tell" else ""
    assert capfd.readouterr() == ("a| last\n", f"a| last\n{report}")


@pytest.mark.parametrize(
    ("level", "shows"),
    [
        ("debug", "dsrun: a\ndsrun: b\ndsrun: c\ndsrun: d\ndsrun: d\n"),
        ("info", "dsrun: b\ndsrun: c\ndsrun: d\ndsrun: d\n"),
        ("warning", "dsrun: c\ndsrun: d\ndsrun: d\n"),
        ("critical", ""),
    ],
)
def test_our_own_words_by_level(capfd: Shown, level: str, shows: str) -> None:
    console = Console(Loop(), level=level)
    console.log("a", "debug")
    console.log("b")
    console.log("c", "warning")
    console.log("d\nd", "error")
    assert [console.shows(one) for one in ("debug", "info")] == [
        level == "debug",
        shows[7:8] < "c" and bool(shows),
    ]
    console.close()
    assert capfd.readouterr() == ("", shows)


def test_our_own_words_are_plain(capfd: Shown) -> None:
    console = Console(Loop())
    console.log("n1: \x1b[2J\x1b[31mred\x1b[0m\udcff")
    console.close()
    assert capfd.readouterr() == ("", "dsrun: n1: \\x1b[2Jred\\xff\n")


def test_one_file_for_both_keeps_the_order(tmp_path: Path) -> None:
    path = tmp_path / "both"
    with path.open("wb") as both, streams(both.fileno(), both.fileno()):
        console = Console(Loop())
        console.label(0, "", {1, 2})
        for number in range(200):
            console.feed(0, 1 + number % 2, b"%d\n" % number, lambda: None)
        console.log("done")
        console.close()
    assert path.read_text() == "".join(f"{n}\n" for n in range(200)) + "dsrun: done\n"


@pytest.mark.parametrize(
    ("colour", "coloured"), [("auto", False), ("never", False), ("always", True)]
)
def test_labels_in_a_file_have_a_colour_only_when_asked(
    capfd: Shown, colour: str, coloured: bool
) -> None:
    console = Console(Loop(), colour=colour)
    for rank in (0, 11):
        console.label(rank, f"{rank}| ", {1})
        console.feed(rank, 1, b"x\n", lambda: None)
    console.label(1, "", {1})
    console.feed(1, 1, b"y\n", lambda: None)
    console.close()
    labels = [f"\x1b[{COLOURS[at]}m{text}\x1b[0m" for at, text in ((0, "0| "), (1, "11| "))]
    assert capfd.readouterr().out.split("\n")[:3] == [
        *(f"{label}x" for label in (labels if coloured else ["0| ", "11| "])),
        "y",
    ]


class Terminal(NamedTuple):
    """A terminal: what is written to `fd` can be read from `screen`."""

    screen: int
    fd: int

    def shows(self, end: bytes) -> bytes:
        """Return what is on it up to this text."""
        data = b""
        while not data.endswith(end):
            assert ready([self.screen], HANG), data
            data += os.read(self.screen, 4096)
        return data.replace(b"\r\n", b"\n")


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Let the standard streams be a terminal meanwhile."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    both = Terminal(*pty.openpty())
    with streams(both.fd, both.fd):
        yield both
    for fd in both:
        os.close(fd)


def test_a_terminal_gets_colours_and_nothing_that_harms(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as both:
        console = Console(Loop())
        console.label(0, "0| ", {1})
        console.feed(0, 1, b"a\x1b[2J\x1b[31mred\n", lambda: None)
        console.log("ours")
        console.log("again")
        console.close()
        label = f"\x1b[{COLOURS[0]}m0| \x1b[0m".encode()
        # Ours come without the colour that the worker has left behind, which is said once.
        expected = label + b"a\x1b[31mred\n\x1b[0mdsrun: ours\ndsrun: again\n"
        assert both.shows(b"again\r\n") == expected


def test_own_lines_break_at_spaces_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    with terminal(monkeypatch) as both:
        console = Console(Loop())
        console.log("no accelerator found: workers run on the CPU")
        console.close()
        lines = b"dsrun: no accelerator found:\n  workers run on the CPU\n"
        assert both.shows(b"CPU\r\n") == lines


def test_a_terminal_still_shows_what_was_printed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch):
        console = Console(Loop())
        console.label(0, "0| ", {1, 2})
        console.feed(0, 2, b"Traceback:\nValueError", lambda: None)
        assert console.still_shows(["Traceback:", "ValueError"])
        console.log("\n".join("line" for _ in range(LINES)))
        assert not console.still_shows(["Traceback:", "ValueError"])
        console.close()


def test_a_file_has_them_above_the_report_if_it_is_the_same_file(capfd: Shown) -> None:
    console = Console(Loop())
    console.label(0, "0| ", {1, 2})
    console.feed(0, 2, b"ValueError\n", lambda: None)
    console.feed(0, 1, b"step 1\n", lambda: None)
    assert console.still_shows(["ValueError"])
    assert not console.still_shows(["step 1"])  # which is in the file of standard output
    console.log("\n".join("line" for _ in range(LINES)))
    assert not console.still_shows(["ValueError"])
    console.close()
    assert capfd.readouterr().err.startswith("0| ValueError\n")


def test_a_terminal_has_a_status_where_words_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as both:
        console = Console(Loop())
        console.status("1/2 hosts\x07")
        console.close()
        assert both.shows(b"\x1b[J") == b"1/2 hosts\\x07\r\x1b[J"


def test_a_quiet_console_has_no_status(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as both:
        console = Console(Loop(), level="warning")
        console.status("1/2 hosts")
        console.log("end", "warning")
        console.close()
        assert both.shows(b"end\r\n") == b"dsrun: end\n"


def test_a_file_has_no_status(capfd: Shown) -> None:
    console = Console(Loop())
    console.status("1/2 hosts")
    console.close()
    assert capfd.readouterr() == ("", "")


def test_an_unfinished_line_stands_at_the_foot_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with terminal(monkeypatch) as both:
        loop = Loop()
        console = Console(loop)
        console.label(0, "0| ", {1, 2})
        console.feed(0, 2, b"name? ", lambda: None)
        loop.add_reader(both.screen, loop.stop)
        loop.run()
        assert both.shows(b"name? ").endswith(b"0| \x1b[0mname? ")
        console.close()


def test_a_reader_that_is_gone_is_told_from_the_loop(tmp_path: Path) -> None:
    loop, told = Loop(), list[object]()
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    err = tmp_path / "err"
    with err.open("wb") as file, streams(write_fd, file.fileno()):
        console = Console(loop)
        console.on_broken_pipe = lambda: told.append("gone")
        console.label(0, "", {1})
        console.feed(0, 1, b"x\n", lambda: None)
        run_until(loop, 1, told)
        console.close()
    os.close(write_fd)
    assert told == ["gone"]
    assert err.read_text() == ""


@pytest.mark.parametrize("ended", [False, True], ids=["runs", "has ended"])
def test_a_stream_that_cannot_be_written_is_named_and_the_job_goes_on(
    tmp_path: Path, ended: bool
) -> None:
    loop, taken = Loop(), list[object]()
    err = tmp_path / "err"
    with FULL.open("wb") as full, err.open("wb") as file, streams(full.fileno(), file.fileno()):
        console = Console(loop)
        console.label(0, "", {1})
        console.feed(0, 1, b"x\n", lambda: taken.append(1))
        console.feed(0, 1, b"y\n", lambda: taken.append(2))
        if not ended:
            run_until(loop, 2, taken)
            loop.call_later(0.0, loop.stop)
            loop.run()
        console.close()
    said = (
        "dsrun: cannot write to standard output (No space left on device); continuing without it\n"
    )
    assert err.read_text() == said


def test_a_standard_error_that_cannot_be_written_is_not_told_of_there(tmp_path: Path) -> None:
    loop, taken = Loop(), list[object]()
    out = tmp_path / "out"
    with FULL.open("wb") as full, out.open("wb") as file, streams(file.fileno(), full.fileno()):
        console = Console(loop)
        console.on_broken_pipe = lambda: pytest.fail("nobody is gone")
        console.label(0, "", {2})
        console.feed(0, 2, b"x\n", lambda: taken.append(1))
        run_until(loop, 1, taken)
        console.close()
    assert out.read_text() == ""


# -- the streams of another process ---------------------------------------------------------------


def test_another_processs_streams_are_written_and_then_closed() -> None:
    loop, over = Loop(), list[object]()
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    console = Console(loop, fds=(out_end, err_end), environ={})
    console.label(0, "r0| ", {1, 2})
    console.feed(0, 1, b"one\nunfinished", lambda: None)
    console.log("said")
    console.finish(lambda: over.append(1))
    assert over == [], "it is told from the loop"
    run_until(loop, 1, over)
    with os.fdopen(out, "rb") as pipe:
        assert pipe.read() == b"r0| one\nr0| unfinished\n", "it ends, as the other end is closed"
    with os.fdopen(err, "rb") as pipe:
        assert pipe.read() == b"dsrun: said\n"


def test_one_file_as_both_of_its_streams_is_closed_twice() -> None:
    loop, over = Loop(), list[object]()
    read, write = os.pipe()
    console = Console(loop, fds=(write, os.dup(write)), environ={})
    console.log("said")
    console.finish(lambda: over.append(1))
    run_until(loop, 1, over)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"dsrun: said\n"


def test_a_reader_that_stalls_delays_the_end_for_a_second() -> None:
    clock, over = Clock(), list[object]()
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    console = Console(clock.loop, fds=(out_end, err_end), environ={})
    console.label(0, "", {1})
    console.feed(0, 1, b"x" * 200_000 + b"\n", lambda: None)
    console.finish(lambda: over.append(1))
    clock.go(0.9)
    assert over == []
    clock.go(0.2)
    assert over == [1]
    with os.fdopen(out, "rb") as pipe:
        assert len(pipe.read()) == 200_001, "what was written is read to its end all the same"
    clock.settle()
    assert over == [1]
    os.close(err)


# -- the same line of several ranks ---------------------------------------------------------------


def folding(console: Console, ranks: int = 3) -> Console:
    """Have it print the lines of these ranks, and the same line of several once."""
    console.fold(ranks, lambda some: f"n:{show_slots(some)}| ")
    for rank in range(ranks):
        console.label(rank, f"n:{rank}| ", {1, 2})
    return console


def nothing() -> None:
    """Nobody wants to know."""


@pytest.mark.parametrize(("fold", "folds"), [("auto", False), ("never", False), ("always", True)])
def test_a_file_gets_the_same_line_of_several_ranks_once_if_that_is_wanted(
    capfd: Shown, fold: str, folds: bool
) -> None:
    loop, taken = Loop(), list[object]()
    console = Console(loop, fold=fold)
    assert console.folds == folds
    if folds:
        console.fold(3, lambda some: f"n:{show_slots(some)}| ")
    for rank in range(3):
        console.label(rank, f"n:{rank}| ", {1, 2})
        console.feed(rank, 1, b"up\n", lambda: taken.append(1))
    run_until(loop, 3, taken)
    console.close()
    each = "".join(f"n:{rank}| up\n" for rank in range(3))
    assert capfd.readouterr() == ("n:0-2| up\n" if folds else each, "")


@pytest.mark.parametrize("fold", ["auto", "never"])
def test_a_terminal_gets_it_once_with_the_colour_of_the_first(
    monkeypatch: pytest.MonkeyPatch, fold: str
) -> None:
    with terminal(monkeypatch) as both:
        console = Console(Loop(), fold=fold)
        assert console.folds == (fold == "auto")
        if console.folds:
            folding(console)
            for rank, stream in ((1, 1), (2, 2)):
                console.feed(rank, stream, b"up\n", nothing)
            console.close()
            label = f"\x1b[{COLOURS[1]}mn:1-2| \x1b[0m".encode()
            assert both.shows(b"up\r\n") == label + b"up\n"
        console.close()


@pytest.mark.parametrize("flushed", [False, True], ids=["one rank", "flushed"])
def test_who_waits_for_nobody_is_printed_though_the_clock_stands(flushed: bool) -> None:
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    screen = Console(Clock().loop, fold="always", fds=(out_end, err_end), environ={})
    console = folding(screen, 2 if flushed else 1)
    console.feed(0, 1, b"up\n", nothing)
    if flushed:
        console.flush(nothing)
    assert os.read(out, 99) == b"n:0| up\n"
    console.close()
    for fd in (out, err):
        os.close(fd)


@pytest.mark.parametrize("says", ["log", "report", "round"])
def test_what_waits_is_printed_before_what_comes_then(tmp_path: Path, says: str) -> None:
    path = tmp_path / "both"
    with path.open("wb") as both, streams(both.fileno(), both.fileno()):
        console = folding(Console(Loop(), fold="always"))
        console.feed(2, 2, b"wrong\n", nothing)
        if says == "log":
            console.log("it failed")
        elif says == "report":
            console.print_report("it failed")
        else:
            folding(console, 1).feed(0, 1, b"it failed\n", nothing)
        console.close()
    first, second = path.read_text().splitlines()
    assert first == "n:2| wrong"
    assert second.endswith("it failed")


def test_an_endless_line_is_not_folded_and_keeps_its_place(capfd: Shown) -> None:
    console = folding(Console(Loop(), fold="always"), 2)
    console.feed(0, 1, b"before\n" + b"x" * (LONGEST + 1), nothing)
    console.feed(0, 1, b"y\nafter\n", nothing)
    console.feed(0, 1, b"last\n", nothing)
    console.close()
    assert capfd.readouterr().out == (
        f"n:0| before\nn:0| {'x' * (LONGEST + 1)}\nn:0+ y\nn:0| after\nn:0| last\n"
    )


def test_bars_of_several_ranks_are_one_line_in_a_file_behind_the_lines_before(
    capfd: Shown,
) -> None:
    clock = Clock()
    console = folding(Console(clock.loop, fold="always"))
    for rank in range(3):
        console.feed(rank, 1, b"10%|#\r", nothing)
    clock.go(LATEST - 0.1)
    console.feed(0, 1, b"\rsaved\n11%|#\r", nothing)
    clock.go(0.1)
    console.close()
    lines = capfd.readouterr().out.splitlines()
    assert lines[:3] == ["n:0| saved", "n:0| 11%|#", "n:1-2| 10%|#"]


def test_the_last_line_of_a_rank_is_printed_before_it_gets_another_label(capfd: Shown) -> None:
    console = Console(Loop())
    for label in ("n1:0| ", "n2:0| "):
        console.label(0, label, {1})
        console.feed(0, 1, b"last", nothing)
    console.label(0, "", {2})
    console.close()
    assert capfd.readouterr() == ("n1:0| last\nn2:0| last\n", "")


def test_equal_bars_of_several_ranks_are_one_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as both:
        monkeypatch.setenv("COLUMNS", "100")
        loop = Loop()
        console = folding(Console(loop, colour="always"))
        for rank, bar in enumerate((b"10%|#\r", b"20%|##\r", b"10%|#\r")):
            console.feed(rank, 2, bar, nothing)
        loop.add_reader(both.screen, loop.stop)
        loop.run()
        labels = [f"\x1b[{COLOURS[at]}mn:{text}| \x1b[0m" for at, text in ((0, "0,2"), (1, "1"))]
        rows = f"{labels[0]}10%|#\n{labels[1]}20%|##"
        assert both.shows(b"##") == rows.encode()
        console.close()
