"""Make the rules on output from `--expect` and from the file of `--rules`."""

from __future__ import annotations

import re
from functools import partial

from ...cli import toml_file
from ...cli.durations import FORMS, seconds
from ...common import files
from ...common.errors import UsageError, reason
from ...common.text import one_line
from ...common.wording import either
from ...resources.ranges import parse_ranks
from ...specs.policies import ALERT_ACTIONS, EXPECT, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ...cli.options import Options

MOST = 100
"""Most rules in a file."""


def rules(options: Options) -> tuple[Rule, ...]:
    """Return the rules of a job.

    Raises:
        UsageError: options or the file are invalid.
    """
    own = _expected(options)
    return (*([own] if own else []), *(_of_file(options.rules) if options.rules else []))


def _expected(options: Options) -> Rule | None:
    given = {
        "--within": options.within,
        "--every": options.every,
        f"--on_missing {options.on_missing}": options.on_missing != "report",
    }
    names = [name for name, value in given.items() if value]
    if not options.expect:
        if names:
            raise UsageError(f"{names[0]}: only with --expect 'REGEX', the line that is expected")
        return None
    if not (options.within or options.every or options.stop_without_progress):
        raise UsageError(
            f"--expect {options.expect!r}: no time is given; add --within 10m for the first such"
            " line, --every 2m for each that follows, or --stop_without_progress N"
        )
    within, every, then = options.within, options.every, options.on_missing
    return _checked(lambda *_: EXPECT, Rule(EXPECT, options.expect, within, every, then=then))


def _of_file(path: str) -> list[Rule]:
    """Return the rules of a file.

    Raises:
        UsageError: the file cannot be read, or is invalid.
    """
    where = f"--rules {path}"
    try:
        data = files.read(path, toml_file.LIMIT)
    except OSError as error:
        raise UsageError(f"{where}: {reason(error)}") from None
    document, lines = toml_file.read(where, data)

    def place(*key: str) -> str:
        return f"{where}:{toml_file.line(lines, key)}"

    found = document.get("rule")
    if set(document) != {"rule"} or not isinstance(found, list) or not 1 <= len(found) <= MOST:
        other = next((key for key in document if key != "rule"), "")
        hint = f", not {one_line(other)[:40]}" if other else ""
        hint = "; [rule] needs two brackets" if isinstance(found, dict) else hint
        at = place(other or "rule") if document else where
        raise UsageError(f"{at}: expected 1 to {MOST} tables [[rule]] and nothing else{hint}")
    return [_of_table(partial(place, "rule", str(at)), at, one) for at, one in enumerate(found)]


def _of_table(place: Callable[..., str], at: int, table: object) -> Rule:
    """Return the rule of one table.

    Args:
        place: returns the file and the line of a key, or of the table.
        at: the number of earlier tables.
        table: the table, as read.
    """
    if not isinstance(table, dict):
        raise UsageError(f"{place()}: rule {at + 1}: expected a table [[rule]]")
    unknown = next((key for key in table if key not in KEYS), None)
    if unknown is not None:
        there = f"expected one of {', '.join(KEYS)}"
        meant = toml_file.meant(unknown, KEYS)
        raise UsageError(f"{place(unknown)}: {one_line(unknown)}: unknown key{meant}; {there}")
    values = {key: KEYS[key](f"{place(key)}: {key}", value) for key, value in table.items()}
    if "expect" not in values:
        raise UsageError(f"{place()}: expect: missing; give the regular expression of a line")
    name = values.pop("name", "") or str(at + 1)
    return _checked(place, Rule(f"rule {one_line(name)}", **values))


def _checked(place: Callable[..., str], rule: Rule) -> Rule:
    """Return a rule whose parts fit together.

    Raises:
        UsageError: the parts do not fit together.
    """
    try:
        pattern = re.compile(rule.expect.encode(), re.MULTILINE)
    except (re.error, RecursionError, OverflowError, UnicodeEncodeError) as error:
        where = f"{place('expect')}: {rule.expect!r}"
        raise UsageError(f"{where} is not a regular expression: {error}") from None
    if rule.name != EXPECT and not (rule.within or rule.every or rule.finite or rule.falls):
        raise UsageError(f"{place()}: nothing to watch; add within, every, finite or falls")
    for key, group in (("finite", rule.finite), ("falls", rule.falls)):
        known = {*pattern.groupindex, *map(str, range(pattern.groups + 1))}
        if group and group not in known:
            raise UsageError(f"{place(key)}: {key}: {rule.expect!r} has no group {group}")
    if bool(rule.falls) != bool(rule.over):
        key = "falls" if rule.falls else "over"
        raise UsageError(f"{place(key)}: falls and over: one needs the other (over = 100 lines)")
    return rule


def _text(where: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}: expected text, not {value!r}")
    return value


def _duration(where: str, value: object) -> float:
    try:
        found = seconds(str(value))
        if isinstance(value, bool) or not 0 < found < float("inf"):
            raise ValueError
    except ValueError:
        raise UsageError(f"{where}: expected a duration such as {FORMS}, not {value!r}") from None
    return found


def _group(where: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value in {"", 0}:
        raise UsageError(f"{where}: expected the name or number of a group, not {value!r}")
    return str(value)


def _count(where: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{where}: expected a number of lines, 1 or more, not {value!r}")
    return value


def _ranks(where: str, value: object) -> frozenset[int]:
    return parse_ranks(where, str(value) if isinstance(value, int) else _text(where, value))


def _alert_action(where: str, value: object) -> str:
    if value not in ALERT_ACTIONS:
        raise UsageError(f"{where}: expected {either(ALERT_ACTIONS)}, not {value!r}")
    return str(value)


KEYS: Mapping[str, Callable[[str, object], Any]] = {
    "name": _text,
    "expect": _text,
    "within": _duration,
    "every": _duration,
    "finite": _group,
    "falls": _group,
    "over": _count,
    "ranks": _ranks,
    "then": _alert_action,
}
"""The keys of a rule, and the readers of their values."""
