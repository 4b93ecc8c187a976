"""The steps that a backtracking matcher takes for a regular expression: a cost without a clock.

Python's own matcher works in C, where nothing counts. This one follows the same parse tree in the
same order, so its steps grow with the text as the time of the other one does.
"""

from __future__ import annotations

import math
import re
import sys
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING, Any

op: Any = import_module("re._constants" if sys.version_info >= (3, 11) else "sre_constants")
parser: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Node = tuple[Any, Any]
    """An operation of the parse tree with its arguments."""

MOST_STEPS = 1_200_000
"""A search is given up after so many: it is anything but linear."""

_DEPTH = 50_000
_REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, getattr(op, "POSSESSIVE_REPEAT", None)}
_ONE = {op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN}
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


class _GivenUpError(Exception):
    """The search has taken `MOST_STEPS`."""


def found(pattern: str, text: str, flags: int = 0) -> list[tuple[int, int]]:
    """Return where a pattern is found in a text, as `re.finditer` finds it."""
    search = _Search(parser.parse(pattern, flags), text)
    return [*search.spans()]


def steps(pattern: str, text: str, flags: int = 0, *, anchored: bool = False) -> int:
    """Return how many steps a search takes that goes through the whole text.

    Args:
        pattern: the regular expression.
        text: where it is searched; what it finds does not end the search.
        flags: those of `re`.
        anchored: whether it must match at the beginning, as with `re.match`.
    """
    search = _Search(parser.parse(pattern, flags), text)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_DEPTH)
    try:
        deque([search.end(0)] if anchored else search.spans(), maxlen=0)
    except _GivenUpError:
        pass
    finally:
        sys.setrecursionlimit(limit)
    return search.steps


def is_linear(
    pattern: str, piece: str, flags: int = 0, *, head: str = "", anchored: bool = False
) -> bool:
    """Return whether the steps grow in proportion to a text that repeats a piece.

    A pattern without repetitions, or with bounded ones, takes a bounded number of steps from each
    place. The second look, at longer texts, is for patterns that have both kinds: below a bound as
    in `.{0,400}` these are like patterns without it.
    """
    if not _is_unbounded(parser.parse(pattern, flags)):
        return True

    def growth(small: int, large: int) -> float:
        texts = (head + piece * (size // len(piece) + 1) for size in (large, small))
        more, less = (steps(pattern, text, flags, anchored=anchored) for text in texts)
        return math.inf if more > MOST_STEPS else more / less

    return growth(32, 256) < 2 * 8 or growth(512, 2048) < 2 * 4


def _is_unbounded(tree: object) -> bool:
    """Return whether a part of a parse tree repeats something any number of times."""
    if isinstance(tree, tuple) and tree and tree[0] in _REPEATS and tree[1][1] == op.MAXREPEAT:
        return True
    parts = tree if isinstance(tree, tuple | list | parser.SubPattern) else ()
    return any(map(_is_unbounded, parts))


class _Search:
    """One search, and the steps that it has taken."""

    def __init__(self, tree: Any, text: str) -> None:
        self.steps = 0
        self._tree = tree
        self._flags = tree.state.flags
        self._text = text
        self._groups: dict[int, str] = {}
        self._fitting: dict[tuple[int, str], bool] = {}

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield where the pattern is found, one place after the other."""
        start = 0
        while start <= len(self._text):
            end = self.end(start)
            if end is not None:
                yield start, end
            start = max(start + 1, end or 0)

    def end(self, start: int) -> int | None:
        """Return where a match that begins here ends, None if there is none."""
        return next(self._sequence(self._tree, 0, start), None)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise _GivenUpError

    def _sequence(self, nodes: Sequence[Node], index: int, at: int) -> Iterator[int]:
        """Yield where the nodes from this index on may end if they begin here."""
        self._step()
        if index == len(nodes):
            yield at
            return
        for end in self._node(nodes[index], at):
            yield from self._sequence(nodes, index + 1, end)

    def _node(self, node: Node, at: int) -> Iterator[int]:
        kind, argument = node
        if kind in _ONE:
            if self._fits(node, at):
                yield at + 1
        elif kind in _REPEATS:
            yield from self._repeat(kind, argument, at)
        elif kind == op.BRANCH:
            for branch in argument[1]:
                yield from self._sequence(branch, 0, at)
        elif kind == op.SUBPATTERN:
            yield from self._group(argument[0], argument[3], at)
        elif self._holds(node, at):
            yield at
        elif kind == op.GROUPREF:
            text = self._groups.get(argument, "\0")
            if self._text.startswith(text, at):
                yield at + len(text)

    def _group(self, number: int | None, nodes: Sequence[Node], at: int) -> Iterator[int]:
        for end in self._sequence(nodes, 0, at):
            if number is not None:
                self._groups[number] = self._text[at:end]
            yield end

    def _repeat(self, kind: Any, argument: Any, at: int) -> Iterator[int]:
        ends: Iterable[int]
        least, most, nodes = argument
        if len(nodes) == 1 and nodes[0][0] in _ONE:
            ends = self._run_of_one(nodes[0], least, most, at)
            ends = ends if kind == op.MIN_REPEAT else reversed([*ends])
        else:
            ends = self._several(kind, least, most, nodes, at)
        for end in ends:
            self._step()
            yield end
            if kind not in {op.MAX_REPEAT, op.MIN_REPEAT}:
                return

    def _run_of_one(self, node: Node, least: int, most: int, at: int) -> Iterator[int]:
        """Yield where a run of single letters may end, the shortest first."""
        end = at
        while True:
            if end - at >= least:
                yield end
            if end - at >= most or not self._fits(node, end):
                return
            end += 1

    def _several(
        self, kind: Any, least: int, most: int, nodes: Sequence[Node], at: int
    ) -> Iterator[int]:
        if kind == op.MIN_REPEAT and least <= 0:
            yield at
        if most > 0:
            for end in self._sequence(nodes, 0, at):
                if end > at or least > 0:
                    yield from self._several(kind, least - 1, most - 1, nodes, end)
        if kind != op.MIN_REPEAT and least <= 0:
            yield at

    def _holds(self, node: Node, at: int) -> bool:
        """Return whether a condition without a width holds here."""
        kind, argument = node
        if kind in {op.ASSERT, op.ASSERT_NOT}:
            direction, nodes = argument
            start = at if direction > 0 else at - nodes.getwidth()[0]
            found = start >= 0 and next(self._sequence(nodes, 0, start), None) is not None
            return bool(found == (kind == op.ASSERT))
        if kind != op.AT:
            return False
        before, after = self._text[at - 1 : at], self._text[at : at + 1]
        lines = bool(self._flags & re.MULTILINE)
        boundary = bool(re.match(r"\w", before)) != bool(re.match(r"\w", after))
        conditions: dict[Any, bool] = {
            op.AT_BEGINNING: at == 0 or (lines and before == "\n"),
            op.AT_BEGINNING_STRING: at == 0,
            op.AT_END: not self._text[at:].strip("\n")[:1] or (lines and after == "\n"),
            op.AT_END_STRING: at == len(self._text),
            op.AT_BOUNDARY: boundary,
            op.AT_NON_BOUNDARY: not boundary,
        }
        return conditions[argument]

    def _fits(self, node: Node, at: int) -> bool:
        self._step()
        if at >= len(self._text):
            return False
        key = id(node), self._text[at]
        if key not in self._fitting:
            self._fitting[key] = self._fits_letter(node, self._text[at])
        return self._fitting[key]

    def _fits_letter(self, node: Node, letter: str) -> bool:
        kind, argument = node
        if self._flags & re.IGNORECASE and letter != letter.swapcase():
            flags, self._flags = self._flags, self._flags & ~re.IGNORECASE
            found = [self._fits_letter(node, one) for one in (letter.lower(), letter.upper())]
            self._flags = flags
            return any(found)
        if kind == op.IN:
            negated = bool(argument[0][0] == op.NEGATE)
            return any(self._fits_letter(one, letter) for one in argument[negated:]) != negated
        if kind == op.RANGE:
            return bool(argument[0] <= ord(letter) <= argument[1])
        if kind == op.CATEGORY:
            return bool(re.match(_CATEGORIES[argument], letter, self._flags & re.ASCII))
        if kind == op.ANY:
            return bool(letter != "\n" or self._flags & re.DOTALL)
        return bool((ord(letter) == argument) == (kind == op.LITERAL))
