"""Runs of numbers as people write them: in host names (`node[01-16]`) and in slots (`0,2-3`)."""

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

# Compiled when they are used first: most jobs use none.
_BRACKETS = r"\[([^\[\]]*)\]"
_SPAN = r"([0-9]{1,15})(?:-([0-9]{1,15}))?"
_DEVICE_ID = r"[A-Za-z]+-[A-Za-z0-9_./-]{1,200}"


def quoted(text: str) -> str:
    """`text` as an error message may show it: on one line, without control characters, cut."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def located(fault: UsageError, place: str, text: str) -> UsageError:
    """`fault` told with its place, and with the text that is bad unless it shows that itself."""
    shown = quoted(text)
    return UsageError(f"{place}: {fault}" if shown in str(fault) else f"{place}: {shown}: {fault}")


def expand(pattern: str) -> list[str]:
    """The names that `pattern` stands for: a `[1-3,07]` in it counts, several multiply.

    Zeros in front of a number are kept, as in `[08-11]`.

    Raises:
        UsageError: A bracket cannot be read, or there are more than `MAX_HOSTS` names.
    """
    if "[" not in pattern and "]" not in pattern:
        return [pattern]
    parts = re.split(_BRACKETS, pattern)
    if any("[" in part or "]" in part for part in parts[::2]):
        raise UsageError("unmatched bracket; expected such as n[1-4]")
    lists = [[_span(item) for item in part.split(",")] for part in parts[1::2]]
    from math import prod

    if prod(sum(len(numbers) for numbers, _ in spans) for spans in lists) > MAX_HOSTS:
        raise UsageError(f"more than {MAX_HOSTS} hosts")
    choices = [[part] for part in parts]
    choices[1::2] = [[f"{n:0{width}}" for ns, width in spans for n in ns] for spans in lists]
    return ["".join(choice) for choice in product(*choices)]


def runs_of(names: Iterable[str]) -> list[list[str]]:
    """Return names in their order, those together whose last number counts up by one."""
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
    """Return what is before the last number of a name, the number, "" for none, and the rest."""
    found = re.fullmatch(r"(.*?)([0-9]{1,15})([^0-9]*)", name, re.DOTALL)
    return (found[1], found[2], found[3]) if found else (name, "", "")


def spell(run: Sequence[str]) -> str:
    """Return a run of names as `expand` reads it: `n[1-3]`; two are written out."""
    if len(run) < 3:
        return ", ".join(run)
    (before, low, after), (_, high, _) = _numbered(run[0]), _numbered(run[-1])
    return f"{before}[{low}-{high}]{after}"


def parse_slots(text: str, separator: str = ",") -> tuple[Slot, ...]:
    """The slots of `0,2-3` or `GPU-8932f937,MIG-4cf1`, in the order in which they are written.

    Raises:
        UsageError: An item is no slot, or a slot is listed twice.
    """
    return distinct(written(text, separator))


def written(text: str, separator: str = ",") -> Iterator[Slot]:
    """Yield the slots of such a text one by one, and as often as they are written.

    Raises:
        UsageError: An item is no slot.
    """
    return (slot for item in text.split(separator) for slot in _slots(item))


def distinct(slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """`slots` in their order.

    Raises:
        UsageError: One of them comes twice.
    """
    seen: dict[Slot, None] = {}
    for slot in slots:
        if slot in seen:
            raise UsageError(f"slot {slot} is listed twice")
        seen[slot] = None
    return tuple(seen)


def show_slots(slots: Sequence[Slot]) -> str:
    """The shortest text that `parse_slots` reads as `slots`."""
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
        raise UsageError(f"slot {numbers[-1]} is above {MAX_SLOTS - 1}")
    return numbers


def _span(text: str, expected: str = "a number or a range such as 0-3") -> tuple[range, int]:
    """The numbers of `7` or `01-16`, and the width to which zeros fill them."""
    match = re.fullmatch(_SPAN, text)
    if not match:
        raise UsageError(f"expected {expected}, not {quoted(text)}")
    low, high = match[1], match[2] or match[1]
    if int(high) < int(low):
        raise UsageError(f"the range {quoted(text)} runs backwards")
    width = len(low) if low.startswith("0") else 1
    if high != f"{int(high):0{width}}":
        raise UsageError(f"the ends of the range {quoted(text)} have different zeros in front")
    return range(int(low), int(high) + 1), width


def parse_ranks(where: str, text: str) -> frozenset[int]:
    """Return the ranks that an option lists.

    Raises:
        UsageError: they are no numbers; `where` names the option.
    """
    with suppress(UsageError):
        slots = parse_slots(text) if text else ()
        ranks = frozenset(slot for slot in slots if isinstance(slot, int))
        if len(ranks) == len(slots):
            return ranks
    raise UsageError(f"{where} {text!r}: expected ranks such as 0,8-15, each once")
