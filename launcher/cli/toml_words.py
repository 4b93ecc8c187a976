"""Messages for invalid TOML files: the error on a line, and its correct form. Pure.

A TOML library reports where parsing stopped, in terms of its grammar. The intended meaning is
guessed from the line itself.
"""

from __future__ import annotations

import json
import re

from ..common.records import NamedTuple
from ..common.text import one_line
from .options import table
from .parser import NO, YES
from .toml_file import TOKEN, keys, type_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .option import Option
    from .toml_file import Key

ARRAYS = (("role",), ("rule",))
"""Tables that may occur several times in a file, in double brackets."""

WORDS = ("args", "command")
"""Keys of a role whose values are lists of words."""

LONGEST = 60
"""Characters of a line, or of a value, that a message shows."""

QUOTES = "\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b\xab\xbb`\xb4"
"""Quotes of word processors, and accents in place of quotes."""

_MARKS = "\"'"

_NAME = r"[A-Za-z0-9_-]+"
_CONSTANT = r"""(?:"[^"\n]*"|'[^'\n]*'|[0-9]+|true|false)"""


class ErrorPlace(NamedTuple):
    """The place where a library stopped.

    Attributes:
        text: the contents of the file.
    """

    text: str
    at: int

    @property
    def number(self) -> int:
        """The line, from 1."""
        return self.text.count("\n", 0, self.at) + 1

    @property
    def line(self) -> str:
        """The whole line."""
        return self.text.split("\n")[self.number - 1].strip()

    @property
    def rest(self) -> str:
        """The rest of the line."""
        return self.text[self.at :].partition("\n")[0].strip()


def fault(text: str, error: str) -> tuple[int, str]:
    """Return the line of the error, from 1, and the error in words.

    Args:
        text: the contents of the file.
        error: the message of `tomllib`: `... (at line 2, column 12)` or `... (at end of document)`.
    """
    place = ErrorPlace(text, _offset(text, error))
    if error.startswith(("Cannot", "Duplicate")):
        return _twice(place)
    looks = (_foreign, _string, _characters, _brackets, _header, _setting)
    found = next(filter(None, (look(place) for look in looks)), None)
    return found or (place.number, f"{_shown(place.line)}: expected KEY = VALUE, or [TABLE]")


def _offset(text: str, error: str) -> int:
    found = re.search(r"at line ([0-9]+), column ([0-9]+)", error)
    if not found:
        return len(text.rstrip())
    before = text.split("\n")[: int(found[1]) - 1]
    return min(sum(len(line) + 1 for line in before) + int(found[2]) - 1, len(text))


def _shown(text: str) -> str:
    """Return the beginning of the quoted text of a message."""
    shown = one_line(text.strip())
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."


def _quoted(text: str) -> str:
    return f"'{text}'" if "\\" in text and "'" not in text else json.dumps(text, ensure_ascii=False)


# -- not TOML at all ------------------------------------------------------------------------------


def _foreign(place: ErrorPlace) -> tuple[int, str] | None:
    """Look for another format."""
    start, line = place.text.lstrip(), place.line
    if start[:1] in {"{", "<"} or re.match(r"\[\s*[{\"]", start):
        return 1, _looks_like("XML" if start[0] == "<" else "JSON")
    if line == "---":
        return place.number, _looks_like("YAML")
    if line.startswith(("//", ";", "/*")):
        return place.number, "a comment begins with #"
    name, colon, value = line.partition(":")
    if colon and re.fullmatch(rf"(?:-\s*)?\"?{_NAME}\"?\s*", name):
        return place.number, _colon(name.strip(' -"'), value.strip())
    return None


def _colon(name: str, value: str) -> str:
    if not value:
        return f"looks like YAML; expected TOML: [{name}]"
    if value[0] == "=":
        return f"expected a single =: {_assignment(name, value.strip('= '))}"
    return f"expected =, not a colon: {_assignment(name, value.rstrip(', '))}"


def _looks_like(kind: str) -> str:
    return f"looks like {kind}; expected TOML: [TABLE], and below it KEY = VALUE"


def _twice(place: ErrorPlace) -> tuple[int, str]:
    """Return the line of a duplicate, and the earlier key or table."""
    *before, last = [one for one in keys(place.text) if one.number <= place.number]
    same = (one for one in before if one.path == last.path or (last.header and _alike(one, last)))
    first = next(same, None)
    name = ".".join(map(one_line, last.name))
    if first is None:
        return last.number, f"{name}: an earlier line already uses it differently"
    if not last.header:
        return last.number, f"{name} is written twice, first on line {first.number}"
    if last.name in ARRAYS:
        what = f"write [[{name}]], once for each {name}"
    else:
        what = f"[{name}] is written twice; put its keys together"
    return last.number, f"{what}; the first is on line {first.number}"


def _alike(one: Key, other: Key) -> bool:
    return one.header and one.name == other.name


# -- strings and characters -----------------------------------------------------------------------


def _tokens(place: ErrorPlace) -> Iterator[re.Match[str]]:
    """Yield the tokens that begin before the place."""
    for match in re.finditer(TOKEN, place.text):
        if match.start() >= place.at and place.at < len(place.text):
            return
        yield match


def _string(place: ErrorPlace) -> tuple[int, str] | None:
    """Look for a text without its end, or with a backslash that means something else."""
    last = next((one for one in reversed([*_tokens(place)]) if one[0][0] in "\"'"), None)
    if last is None or last.end() < place.at:
        return None
    token, number = last[0], place.text.count("\n", 0, last.start()) + 1
    mark = token[:3] if token[:3] in {'"""', "'''"} else token[0]
    if mark == '"' and "\\" in token:
        inner = token[1:].removesuffix('"')
        meant = "" if "'" in inner else f": '{_shown(inner)}'"
        return number, f"a \\ within \"...\" begins an escape; write '...' instead{meant}"
    closed = len(token) >= 2 * len(mark) and token.endswith(mark)
    return None if closed else (number, f"the closing {mark} is missing: {_shown(token)}")


def _characters(place: ErrorPlace) -> tuple[int, str] | None:
    """Look for invisible characters, and for those similar to TOML's."""
    found = next((one for one in place.line if one in QUOTES), "")
    if found:
        return place.number, f"{found} is not a quote in TOML; write \" or '"
    odd = next((one for one in place.line if not one.isprintable() and one != "\t"), "")
    if not odd:
        return None
    name = odd.encode("unicode_escape").decode()
    return place.number, f"an invisible character, {name}; remove it"


# -- brackets -------------------------------------------------------------------------------------


def _brackets(place: ErrorPlace) -> tuple[int, str] | None:
    """Look for a list or a table in brackets that continues."""
    opened = _opened(place)
    if opened is None or re.search(r"=\s*\{[^=:]*\}", place.line):  # {rank} is a text
        return None
    bracket, number = opened
    again = re.match(rf"\[|{_NAME}\s*=", place.rest)
    if bracket == "[" and (not place.rest or (again and number < place.number)):
        return number, "the list has no closing ]"
    if bracket == "{" and not (place.rest and number == place.number):
        return number, "a table in { } must end on the same line"
    return place.number, _item(place)


def _item(place: ErrorPlace) -> str:
    """Return the error in an item of a list or a table, in words."""
    if place.rest[0] in "]}":
        return f"no comma before {place.rest[0]}"
    if place.rest[0] in ",:":
        return f"expected a value before {_shown(place.rest)}"
    bare = re.match(r"[^\s,\"'\[\]{}=#][^,\"'\[\]{}=#]*", place.rest)
    if bare:
        return f"text needs quotes: {_shown(_quoted(bare[0].strip()))}"
    return f"a comma is missing before {_shown(place.rest)}"


def _opened(place: ErrorPlace) -> tuple[str, int] | None:
    """Return the innermost bracket of a value that is open at the place, and its line."""
    stack: list[tuple[str, int]] = []
    number, value = 1, False
    for token in _tokens(place):
        between = place.text[_line_start(place.text, token.start()) : token.start()]
        sign = token[0]
        value = value if stack else "=" in between
        if sign in {"[", "{"} and value:
            stack.append((sign, number))
        elif sign in {"]", "}"} and stack:
            stack.pop()
        number += sign.count("\n")
    return stack[-1] if stack else None


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _header(place: ErrorPlace) -> tuple[int, str] | None:
    """Look for the name of a table that is not written correctly."""
    line = place.line
    if not line.startswith("["):
        return None
    marks = 2 if line.startswith("[[") else 1
    name, close, after = line[marks:].partition("]")
    shown = f"{'[' * marks}{_shown(name)}{']' * marks}"
    if not name.strip():
        return place.number, "a table without a name"
    after = after.removeprefix("]" * (marks - 1))
    if close and after.strip() and not after.lstrip().startswith(("#", "]")):
        return place.number, f"{shown} needs its own line; write {_shown(after)} below it"
    first, *more = name.strip().split(".", 1)
    if more and not re.fullmatch(_NAME, more[0]):
        meant = f"[{first}.{_quoted(more[0].strip())}]"
        return place.number, f"quote a name with anything but letters, digits, _ and -: {meant}"
    return place.number, f"expected {shown}"


# -- one key --------------------------------------------------------------------------------------


def _setting(place: ErrorPlace) -> tuple[int, str] | None:
    """Look at `KEY = VALUE`."""
    key, equals, value = place.line.partition("=")
    key, value = key.strip(), value.partition(" #")[0].strip()
    if not (equals and key):
        return place.number, _without_equals(place.line)
    if key.startswith("export "):
        variable = f"{key[7:].strip()}={value.strip(_MARKS)}"
        return place.number, f"variables need a list: export = [{_shown(_quoted(variable))}]"
    if not re.fullmatch(rf"{_NAME}(?:\.{_NAME})*", key):
        meant = "_".join(key.strip("\"'-").replace("-", " ").split())
        hint = f"; write {meant}" if meant in table() else ""
        return place.number, f"{_shown(key)}: a key has only letters, digits, _ and -{hint}"
    return place.number, _value(key, value)


def _without_equals(line: str) -> str:
    key, value = (*line.lstrip("-").split(None, 1), "", "")[:2]
    row = _row(key)
    if row is None:
        return f"{_shown(line)}: expected KEY = VALUE, or [TABLE]"
    alone = "true" if row.kind == "bool" else "..."
    return f"expected KEY = VALUE: {_assignment(key, value) if value else f'{key} = {alone}'}"


def _value(key: str, value: str) -> str:
    """Return the error in a value, and its correct form."""
    if not value:
        return f"{key} has no value; give it one, or leave out this line"
    if value.startswith("="):
        return f"one = is enough: {_assignment(key, value.lstrip('= '))}"
    if more := _more(key, value):
        return more
    if value[0] in "\"'[" or (value[0] == "{" and "=" in value):
        return f"{key}: expected one value, not {_shown(value)}"
    if value.lower() in {"none", "null", "nil"} and not _takes(key, value):
        return f"TOML has no {value}; leave out this line to use the default"
    rule, meant = _written(key, value)
    return f"{rule}: {key} = {_shown(meant)}" if meant else f"{key}: {rule}, not {_shown(value)}"


def _more(key: str, value: str) -> str:
    """Return the error in the text after a value, in words."""
    if re.fullmatch(rf"{_CONSTANT}(?:\s*,\s*{_CONSTANT})+,?", value):
        return f"several values need a list: {key} = [{_shown(value)}]"
    first = re.match(rf"{_CONSTANT}(?=[\s,;])", value)
    rest = value[first.end() :].strip() if first else ""
    shown = f"{key} = {_shown(first[0])}" if first else ""
    if re.match(rf"[,;]?\s*{_NAME}\s*=", rest):
        return f"one key per line: {shown}, then {_shown(rest.lstrip(',; '))}"
    if rest[:2] == "//":
        return f"a comment begins with #: {shown} # {_shown(rest[2:])}"
    return f"nothing may follow a value: {shown}" if rest in {";", ","} else ""


def _takes(key: str, value: str) -> bool:
    """Return whether an option accepts this text as its value."""
    row = _row(key)
    return row is None or value.lower() in {*row.choices, *row.suggestions}


def _row(key: str) -> Option | None:
    return table().get(key.replace("-", "_"), ("", None))[1]


def _assignment(key: str, value: str) -> str:
    return f"{key} = {_shown(_written(key, value)[1] or value)}"


def _written(key: str, value: str) -> tuple[str, str]:
    """Return a rule of TOML, and the value written by this rule; "" if it cannot be a value."""
    if re.fullmatch(_CONSTANT, value) and not (value[0] == "0" and value.strip("0")):
        return "a value stands alone", value
    if key in WORDS:
        return "a list of words", f"[{', '.join(map(_quoted, value.split()))}]"
    if key == "env":
        name, _, text = value.strip("{} ").partition("=")
        return "a table of variables", f"{{ {name.strip()} = {_quoted(text.strip())} }}"
    if value[0] == "(":
        items = [one.strip(f"{_MARKS} ") for one in value.strip("(),; ").split(",")]
        return "a list needs brackets", f"[{', '.join(map(_quoted, items))}]"
    return _one_value(_row(key), value)


def _one_value(row: Option | None, value: str) -> tuple[str, str]:
    small, kind = value.lower(), "" if row is None else row.kind
    if kind == "bool" and small in YES | NO - {""}:
        return "a flag is true or false, in lower case", "true" if small in YES else "false"
    if value.isdecimal():
        return "a number has no leading zeros", value.lstrip("0") or "0"
    if row is not None and kind in {"bool", "int"}:
        return f"expected {type_of(row)}", ""
    return "text needs quotes", _quoted(value)
