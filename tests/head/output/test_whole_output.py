"""Whatever ranks print, and whenever: no byte is lost, printed twice or put into another line."""

from __future__ import annotations

import os
import random
import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dsrun.launcher.api.events import Output
from dsrun.launcher.api.output import Printer
from dsrun.launcher.head.output.console import Console
from dsrun.launcher.head.output.labels import LONGEST, Labeller
from dsrun.launcher.head.output.terminal import LATEST, REDRAW, TerminalOutput
from dsrun.launcher.resources.ranges import show_slots

from ...support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

SEEDS = [range(first, first + 100) for first in range(0, 400, 100)]
RANKS = 3


# -- what ranks print, and what that says --------------------------------------------------------


def output(chance: random.Random, rank: int | str) -> list[bytes]:
    """Blocks of output; each text in it is unique among those of ranks with other names."""
    data = b""
    for number in range(chance.randrange(12)):
        name = f"{rank}.{number}"
        texts = ["", f"<{name}>", f"<{name} é€𝄞>", f"<{name}{'A' * 3000}>"]
        text = chance.choices([*texts, f"<{name}{'€' * LONGEST}>"], (2, 6, 3, 1, 0.3))[0]
        data += text.encode() + chance.choice([b"\n", b"\n", b"\r\n", b"\r", b"\r\r", b"\r\r\n"])
    if chance.random() < 0.3:
        data = data.rstrip(b"\r\n")
    at = sorted(chance.choices(range(len(data) + 1), k=chance.randrange(1, 9)))
    return [data[low:high] for low, high in zip([0, *at], [*at, len(data)], strict=True)]


class Segment(NamedTuple):
    """A text between carriage returns, and whether it is what is left of its line."""

    text: bytes
    last: bool


def segments(data: bytes) -> Iterator[Segment]:
    """What output says: all that is left of a line is to be shown, and the rest may be."""
    lines = data.split(b"\n")
    for line in lines if lines[-1].strip(b"\r") else lines[:-1]:
        *states, last = re.split(rb"\r+", line.rstrip(b"\r"))
        yield from (Segment(state, last=False) for state in states if state)
        yield Segment(last, last=True)


def check(blocks: Sequence[bytes], shown: Sequence[bytes]) -> None:
    """Whether what is shown of a rank is what it has printed."""
    left = iter(segments(b"".join(blocks)))
    for text in shown:
        for segment in left:
            if segment.text == text:
                break
            assert not segment.last, f"{segment.text!r:.80} is missing before {text!r:.80}"
        else:
            pytest.fail(f"{text!r:.80} was not printed, or not now")
    assert [segment.text for segment in left if segment.last] == []


def by_rank(text: bytes) -> list[list[bytes]]:
    """The texts of each rank in labelled lines, those in pieces joined."""
    shown: list[list[bytes]] = [[] for _ in range(RANKS)]
    assert text.endswith(b"\n") or not text
    for line in text.split(b"\n")[:-1]:
        if line.startswith(b"dsrun: "):
            continue
        label = re.match(rb"([0-9,-]+)([|+]) ", line)
        assert label, f"{line!r:.80} has no label"
        for rank in ranks_of(label[1].decode()):
            if label[2] == b"|":
                shown[rank].append(b"")
            shown[rank][-1] += line[label.end() :]
    return shown


def ranks_of(text: str) -> list[int]:
    """The ranks in a label."""
    ends = [part.split("-") for part in text.split(",")]
    return [rank for end in ends for rank in range(int(end[0]), int(end[-1]) + 1)]


# -- where it is printed -------------------------------------------------------------------------


def play(
    chance: random.Random,
    blocks: Sequence[Sequence[bytes]],
    feed: Callable[[int, bytes], None],
    between: Callable[[], None],
) -> None:
    """Print blocks of the ranks, mixed; other things happen in between."""
    left = {rank: iter(of_one) for rank, of_one in enumerate(blocks)}
    while left:
        rank = chance.choice([*left])
        block = next(left[rank], None)
        if block is None:
            del left[rank]
        else:
            feed(rank, block)
        between()


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
@pytest.mark.parametrize("fold", ["never", "always"])
def test_a_file_gets_every_line_once(tmp_path: Path, fold: str, seeds: range) -> None:
    for seed in seeds:
        to_file(tmp_path / str(seed), fold, random.Random(seed))


def to_file(path: Path, fold: str, chance: random.Random) -> None:
    """Print to a file, at random times, and check what is there then."""
    same = fold == "always" and chance.random() < 0.5
    blocks = [output(chance, "same" if same else rank) for rank in range(RANKS)]
    clock = Clock()
    fds = tuple(os.open(one, os.O_WRONLY | os.O_CREAT) for one in (path, os.devnull))
    console = Console(clock.loop, fold=fold, fds=(fds[0], fds[1]))
    for rank in range(RANKS):
        console.label(rank, f"{rank}| ", {1})
    if console.folds:
        console.fold(RANKS, lambda ranks: f"{show_slots(ranks)}| ")

    def between() -> None:
        if chance.random() < 0.4:
            clock.go(chance.choice([0.01, 0.1, LATEST, 2 * LATEST]))

    play(chance, blocks, lambda rank, data: console.feed(rank, 1, data, _nothing), between)
    console.close()
    for of_one, shown in zip(blocks, by_rank(path.read_bytes()), strict=True):
        check(of_one, shown)


def _nothing() -> None:
    pass


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_a_terminal_is_left_with_every_line_once(seeds: range) -> None:
    for seed in seeds:
        to_terminal(random.Random(seed))


def to_terminal(chance: random.Random) -> None:
    """Print to a terminal, and check what it shows then."""
    blocks = [output(chance, rank) for rank in range(RANKS)]
    clock, screen = Clock(), Screen()
    terminal = TerminalOutput(clock.loop, lambda _, data, __: screen.write(data), lambda: 80)
    labellers = [Labeller(b"%d| " % rank) for rank in range(RANKS)]

    def feed(rank: int, data: bytes) -> None:
        terminal.show(1, labellers[rank].feed(data), None)
        terminal.open_line((rank, 1), labellers[rank])

    def between() -> None:
        if chance.random() < 0.4:
            clock.go(REDRAW)
        if chance.random() < 0.1:
            terminal.show(2, b"dsrun: a message\n", None)

    play(chance, blocks, feed, between)
    terminal.clear()
    for labeller in labellers:
        terminal.finish(1, labeller)
    for of_one, shown in zip(blocks, by_rank(screen.text()), strict=True):
        check(of_one, shown)


class Screen:
    """A terminal as far as it is used for what is redrawn (ECMA-48: CR, LF, CUU, ED)."""

    def __init__(self) -> None:
        self._rows = [b""]
        self._row = 0

    def write(self, data: bytes) -> None:
        for part in re.split(rb"(\n|\r|\x1b\[[0-9]*[AJ])", data):
            if part == b"\n":
                self._row += 1
                self._rows[self._row :] = self._rows[self._row :] or [b""]
            elif part.endswith(b"A") and part.startswith(b"\x1b["):
                self._row -= int(part[2:-1])
            elif part == b"\x1b[J":
                self._rows[self._row :] = [b""]
            elif part != b"\r":
                self._rows[self._row] += part

    def text(self) -> bytes:
        return b"\n".join(self._rows)


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_a_notebook_gets_every_line_once(capfd: pytest.CaptureFixture[str], seeds: range) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        blocks = [output(chance, rank) for rank in range(RANKS)]
        printer = Printer()
        for rank in range(RANKS):
            printer.label(rank, f"{rank}| ", [1])
        play(chance, blocks, partial(print_output, printer), _nothing)
        printer.finish("")
        shown = capfd.readouterr().out.encode()
        for of_one, of_shown in zip(blocks, by_rank(shown), strict=True):
            check(of_one, of_shown)


def print_output(printer: Printer, rank: int, data: bytes) -> None:
    printer.output(Output(rank=rank, stream=1, data=data))
