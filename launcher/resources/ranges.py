"""Parse and format ranges of numbers, in host names (`node[01-16]`) and in slots (`0,2-3`)."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import product

from ..common.errors import UsageError
from ..specs.host import MAX_SLOTS, Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_HOSTS = 100_000

# These are compiled on first use, as most jobs do not need them.
_BRACKETS = r"\[([^\[\]]*)\]"
_SPAN = r"([0-9]{1,15})(?:-([0-9]{1,15}))?"
_DEVICE_ID = r"[A-Za-z]+-[A-Za-z0-9_./-]{1,200}"

LARGEST = 2**32 - 1
"""The largest number in use: Slurm numbers steps with 32 bits."""


def is_count(text: str) -> bool:
    """Return whether `text` is a number from 0 to `LARGEST`, without sign or blanks."""
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= LARGEST


def quoted(text: str) -> str:
    """Return `text` for an error message: quoted, on one line, escaped, and not too long."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def located(fault: UsageError, place: str, text: str) -> UsageError:
    """Return `fault` with its place, and with the bad text unless the message already has it."""
    shown = quoted(text)
    return UsageError(f"{place}: {fault}" if shown in str(fault) else f"{place}: {shown}: {fault}")


def expand(pattern: str) -> list[str]:
    """Return the names that a pattern such as `n[1-3,07]` stands for; several brackets multiply.

    Leading zeros are kept, as in `[08-11]`.

    Raises:
        UsageError: a bracket is malformed, or there are more than `MAX_HOSTS` names.
    """
    if "[" not in pattern and "]" not in pattern:
        return [pattern]
    parts = re.split(_BRACKETS, pattern)
    if any("[" in part or "]" in part for part in parts[::2]):
        raise UsageError("unmatched bracket; expected a pattern such as n[1-4]")
    lists = [[_span(item) for item in part.split(",")] for part in parts[1::2]]
    from math import prod

    if prod(sum(len(numbers) for numbers, _ in spans) for spans in lists) > MAX_HOSTS:
        raise UsageError(f"more than {MAX_HOSTS} hosts")
    choices = [[part] for part in parts]
    choices[1::2] = [[f"{n:0{width}}" for ns, width in spans for n in ns] for spans in lists]
    return ["".join(choice) for choice in product(*choices)]


def runs_of(names: Iterable[str]) -> list[list[str]]:
    """Group consecutive names whose last number goes up by one, and keep their order."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _next(runs[-1][-1]) == name:
            runs[-1].append(name)
        else:
            runs.append([name])
    return runs


def _next(name: str) -> str:
    before, number, after = _numbered(name)
    return f"{before}{int(number) + 1:0{len(number)}}{after}" if number else ""


def _numbered(name: str) -> tuple[str, str, str]:
    """Split a name at its last number: the text before it, the number ("" for none), the rest."""
    match = re.fullmatch(r"(.*?)([0-9]{1,15})([^0-9]*)", name, re.DOTALL)
    return (match[1], match[2], match[3]) if match else (name, "", "")


def spell(run: Sequence[str]) -> str:
    """Format a group of `runs_of` as `n[1-3]`, which `expand` reads; two names are written out."""
    if len(run) < 3:
        return ", ".join(run)
    (before, low, after), (_, high, _) = _numbered(run[0]), _numbered(run[-1])
    return f"{before}[{low}-{high}]{after}"


def parse_slots(text: str, separator: str = ",") -> tuple[Slot, ...]:
    """Return the slots of `0,2-3` or `GPU-8932f937,MIG-4cf1`, in the order written.

    Raises:
        UsageError: an item is not a slot, or a slot is listed twice.
    """
    return distinct(written(text, separator))


def written(text: str, separator: str = ",") -> Iterator[Slot]:
    """Yield the slots of a text for `parse_slots` in the order written, repeated ones as well.

    Raises:
        UsageError: an item is not a slot.
    """
    return (slot for item in text.split(separator) for slot in _slots(item))


def distinct(slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """Return the slots in their order.

    Raises:
        UsageError: a slot is listed twice.
    """
    seen: dict[Slot, None] = {}
    for slot in slots:
        if slot in seen:
            raise UsageError(f"slot {slot} is listed twice")
        seen[slot] = None
    return tuple(seen)


def show_slots(slots: Sequence[Slot]) -> str:
    """Return the shortest text that `parse_slots` reads as these slots."""
    runs: list[list[Slot]] = []
    for slot in slots:
        if runs and isinstance(slot, int) and runs[-1][-1] == slot - 1:
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def _slots(item: str) -> Sequence[Slot]:
    if re.fullmatch(_DEVICE_ID, item):
        return [item]
    numbers, _ = _span(item, "a slot such as 2, a range such as 0-3 or an id such as GPU-8932f937")
    if numbers[-1] >= MAX_SLOTS:
        raise UsageError(f"slot {numbers[-1]}: expected at most {MAX_SLOTS - 1}")
    return numbers


def _span(text: str, expected: str = "a number or a range such as 0-3") -> tuple[range, int]:
    """Return the numbers of `7` or `01-16`, and the width to which they are zero-padded."""
    match = re.fullmatch(_SPAN, text)
    if not match:
        raise UsageError(f"expected {expected}, not {quoted(text)}")
    low, high = match[1], match[2] or match[1]
    if int(high) < int(low):
        raise UsageError(f"range {quoted(text)}: the first number is larger than the last")
    width = len(low) if low.startswith("0") else 1
    if high != f"{int(high):0{width}}":
        raise UsageError(f"range {quoted(text)}: the numbers differ in their leading zeros")
    return range(int(low), int(high) + 1), width


def parse_ranks(where: str, text: str) -> frozenset[int]:
    """Return the ranks that an option lists.

    Raises:
        UsageError: an item is not a number; `where` names the option.
    """
    with suppress(UsageError):
        slots = parse_slots(text) if text else ()
        ranks = frozenset(slot for slot in slots if isinstance(slot, int))
        if len(ranks) == len(slots):
            return ranks
    raise UsageError(f"{where} {text!r}: expected ranks such as 0,8-15, each once")
