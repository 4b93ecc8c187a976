"""Prints a line that several ranks write within a moment once.

Each line waits up to `WAIT` for identical ones, but only until all ranks have written it.
Waiting lines are in one list, in the order in which they will be printed. A rank's line joins an
equal one behind the newest line that the rank shares with others; lines that the rank alone has
written in between are put before it. So the lines of a rank keep their order. Equal blocks are
compared as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import groupby

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop

    Written = Callable[[], None]

WAIT = 0.2
"""Seconds that a line waits for identical ones."""

STEP = 0.02
"""Seconds: lines that arrive within this time are printed together, without a timer for each."""

MOST = 512 * 1024
"""Bytes that may wait."""

SEARCHES = 4000
"""Searches within `WAIT`; above that, lines are printed as they come, too many to be read."""

AHEAD, NEAR, TRIES = 256, 16, 8
"""Lines examined by a search; lines examined before each equal line; and equal lines examined."""

LABELS = 1000
"""Sets of ranks whose labels are kept."""


class FoldedLines:
    """The lines of several ranks on their way to one stream.

    Attributes:
        label: returns the prefix of a line of some ranks.
    """

    def __init__(
        self,
        loop: Loop,
        ranks: int,
        label: Callable[[Sequence[int]], bytes],
        show: Callable[[bytes, Sequence[Written]], None],
    ) -> None:
        """Fold the lines of this number of ranks.

        Args:
            loop: runs the timers.
            ranks: the number of ranks that print; a line written by all does not wait.
            label: returns the label of a line of several ranks, given in order.
            show: prints labelled lines, and then calls functions.
        """
        self._loop, self._ranks, self.label, self._show = loop, ranks, label, show
        self._named: dict[int, tuple[list[int], bytes]] = {}
        self._lines: list[bytes] = []
        self._sets: list[int] = []  # the writers of each line: a bit for each rank
        self._dues: list[float] = []  # the deadline for printing each line, in ascending order
        self._blocks: dict[int, _Blocks] = {}
        self._size = self._searches = 0
        self._since = 0.0
        self._timer = False

    def add(self, rank: int, data: bytes, written: Written) -> None:
        """Add whole lines of a rank; `written` is passed to `show` with the last one."""
        now = self._loop.clock()
        if now >= self._since + WAIT:
            self._since, self._searches = now, 0
        lines = data[:-1].split(b"\n") if data else []
        blocks = self._blocks.setdefault(rank, _Blocks())
        blocks.add(len(lines), written)
        if not lines:
            if done := blocks.print(0):
                self._show(b"", done)
            return
        ready = self._place(1 << rank, lines, (now + WAIT) // STEP * STEP)
        full = self._size > MOST or self._searches > SEARCHES
        self._print(len(self._lines) if full else ready)
        if self._lines and not self._timer:
            self._wake()

    def flush(self) -> None:
        """Print all that waits."""
        self._print(len(self._lines))

    # -- identical lines -------------------------------------------------------------------------

    def _place(self, bit: int, lines: list[bytes], due: float) -> int:
        """Join waiting lines, or add new ones; return how many need not wait any longer."""
        shared, own = self._newest(bit)
        same = [] if own else self._lines[shared + 1 : shared + 1 + len(lines)]
        done = len(same) if same == lines[: len(same)] else 0
        ready = self._join(bit, shared + 1, done)
        shared += done
        while done < len(lines):
            # Without lines of others behind the newest shared one there is nothing to join.
            if len(self._lines) == shared + 1 + len(own) or self._searches > SEARCHES:
                self._append(bit, lines[done:], due)
                break
            found = self._find(bit, lines[done], shared, own[-1] if own else shared)
            if found < 0:
                own.append(len(self._lines))
                self._append(bit, lines[done : done + 1], due)
            else:
                shared, own = self._move(bit, own, found), []
                ready = max(ready, self._join(bit, shared, 1))
            done += 1
        return ready

    def _newest(self, bit: int) -> tuple[int, list[int]]:
        """Return the index of the newest line that a rank shares, -1 for none, and its own since.

        If a rank has many own lines, the earlier ones count as shared: they keep their place.
        """
        own: list[int] = []
        for at in range(len(self._sets) - 1, -1, -1):
            if len(own) == AHEAD:
                return at, own[::-1]
            if self._sets[at] == bit:
                own.append(at)
            elif self._sets[at] & bit:
                return at, own[::-1]
        return -1, own[::-1]

    def _find(self, bit: int, line: bytes, shared: int, newest: int) -> int:
        """Return the index of the line that a rank can join, -1 for none.

        A line that is indented or empty belongs to the line before it, as in a traceback: it is
        equal only if the line before is equal, too.
        """
        self._searches += 1
        at, end = shared, shared + 1 + AHEAD
        for _ in range(TRIES):
            try:
                at = self._lines.index(line, at + 1, end)
            except ValueError:
                return -1
            alone = line[:1].strip() or self._before(at) == newest
            if alone and not self._sets[at] & bit:
                return at
        return -1

    def _before(self, at: int) -> int:
        """Return the index of the previous line by the ranks that wrote this one, -1 for none."""
        who, places = self._sets[at], range(at - 1, max(at - 1 - NEAR, -1), -1)
        return next((place for place in places if self._sets[place] & who), -1)

    def _append(self, bit: int, lines: list[bytes], due: float) -> None:
        self._lines += lines
        self._sets += [bit] * len(lines)
        self._dues += [due] * len(lines)
        self._size += sum(map(len, lines)) + len(lines)

    def _move(self, bit: int, own: list[int], found: int) -> int:
        """Move a rank's own lines before the line that it joins; return the line's new index."""
        behind = [at for at in own if at > found]
        moved = [self._lines[at] for at in behind]
        for at in reversed(behind):
            del self._lines[at], self._sets[at], self._dues[at]
        self._lines[found:found] = moved
        self._sets[found:found] = [bit] * len(moved)
        self._dues[found:found] = [self._dues[found]] * len(moved)
        return found + len(moved)

    def _join(self, bit: int, at: int, count: int) -> int:
        """Add a rank to lines; return how many of them all ranks have now written."""
        end, sets = at + count, self._sets
        sets[at:end] = [one | bit for one in sets[at:end]]
        return end if count and sets[end - 1].bit_count() >= self._ranks else 0

    # -- when they are printed -------------------------------------------------------------------

    def _wake(self) -> None:
        self._timer = True
        self._loop.call_later(self._dues[0] - self._loop.clock(), self._tick)

    def _tick(self) -> None:
        self._timer = False
        self._print(bisect_right(self._dues, self._loop.clock()))
        if self._lines:
            self._wake()

    def _print(self, count: int) -> None:
        if not count:
            return
        lines, sets = self._lines[:count], self._sets[:count]
        del self._lines[:count], self._sets[:count], self._dues[:count]
        self._size -= sum(map(len, lines)) + count
        parts: list[bytes] = []
        written: list[Written] = []
        at = 0
        for who, group in groupby(sets):
            same = len(list(group))
            ranks, label = self._name(who)
            parts.append(label + (b"\n" + label).join(lines[at : at + same]) + b"\n")
            for rank in ranks:
                written += self._blocks[rank].print(same)
            at += same
        self._show(b"".join(parts), written)

    def _name(self, who: int) -> tuple[list[int], bytes]:
        """Return the ranks of a set, and their label."""
        if who not in self._named:
            if len(self._named) >= LABELS:
                self._named.clear()
            ranks = [rank for rank, bit in enumerate(bin(who)[:1:-1]) if bit == "1"]
            self._named[who] = ranks, self.label(ranks)
        return self._named[who]


class _Blocks:
    """The blocks of one rank, until all their lines are printed."""

    def __init__(self) -> None:
        self._added = self._printed = 0
        self._written: deque[tuple[int, Written]] = deque()

    def add(self, lines: int, written: Written) -> None:
        """Note a block with this number of lines."""
        self._added += lines
        self._written.append((self._added, written))

    def print(self, lines: int) -> list[Written]:
        """Note that this number of further lines is printed; return the calls that are due."""
        self._printed += lines
        done = []
        while self._written and self._written[0][0] <= self._printed:
            done.append(self._written.popleft()[1])
        return done
