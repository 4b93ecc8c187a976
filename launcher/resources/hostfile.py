"""Parse hostfiles in all common dialects, and the list of `--host`."""

from __future__ import annotations

import re
from functools import lru_cache

from ..common import files
from ..common.errors import UsageError
from ..specs.host import MAX_SLOTS, Host, Slot
from .names import check_name, in_brackets, is_ipv6
from .ranges import MAX_HOSTS, expand, located, parse_slots, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["ENCLOSED", "Host", "Slot", "parse_hostfile", "parse_hosts"]

ENCLOSED = re.compile(r"\[([^\[\]]+)\](?::(.*))?")
"""`[host]` or `[host]:rest`; the brackets allow text after an IPv6 address."""

_MAX_FAULTS = 10
_LIMITS = {"slots": MAX_SLOTS, "max_slots": MAX_SLOTS, "port": 65535}
_ALSO = {"maxslots": "max_slots"}

# Blanks around '=' belong to the word, so that a message can show and correct `slots = 4`.
_WORD = re.compile(r"\S+?\s*=\s*\S*|\S+")
_HEADING = re.compile(r"\[[^0-9\[\]]+\]")
_BRACKETS = re.compile(r"\[[^\]]*\]?")
# One item of the --host list after its comma; a comma in brackets does not separate items.
_ITEM = re.compile(r",((?:[^,\[]+|\[[^\]]*\]?)*)")
_BLOCK = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")

_INSTEAD_OF_NONE = {
    "slots": "; leave out slots for one worker per device, or leave out the host (--exclude HOST)"
}
"""Advice on values to write in place of zero, by field."""

_MEANT = {
    "{": "a range is written in square brackets: n[1-4]",
    " ": "several hosts are joined by commas: n1,n2",
    ";": "several hosts are joined by commas: n1,n2",
    "=": "the slots of a host are written n1:4",
}
"""Advice on characters that no item of --host can contain."""


def parse_hostfile(data: bytes, name: str) -> list[Host]:
    """Return the hosts of a hostfile, in its order; `hostfile.example` shows the whole syntax.

    Args:
        data: the file's bytes.
        name: the file's path as the user wrote it, for messages.

    Raises:
        UsageError: a line for each of the first ten errors, with file, line and column.
    """
    known: dict[str, list[Host]] = {}
    faults: list[str] = []
    text = files.text(data, name)
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            _add(known, _hosts_of_line(line.partition("#")[0], f"{name}:{number}"))
        except UsageError as fault:
            faults.append(str(fault))
        if len(faults) == _MAX_FAULTS:
            faults.append(f"{name}: {_MAX_FAULTS} bad lines; the rest was not read")
            break
    if faults:
        if kind := _foreign(text):
            raise UsageError(f"{name}: looks like {kind}; expected one host per line: n1 slots=8")
        raise UsageError("\n".join(faults))
    if not known:
        raise UsageError(f"{name}: names no hosts; expected lines such as 'worker-0 slots=8'")
    return [_sum(listed) for listed in known.values()]


def parse_hosts(text: str, where: str = "--host") -> list[Host]:
    """Return the hosts of a list such as `h1:4,me@h2:0-3,h[3-9]:0+2,[::1]:4`, in its order.

    After the colon comes a number of slots, or slots and ranges of slots joined by `+`.

    Raises:
        UsageError: an item is malformed; the message names it.
    """
    known: dict[str, list[Host]] = {}
    for item in map(str.strip, _ITEM.findall(f",{text}")):
        try:
            hosts = _hosts_of_item(item, where)
        except UsageError as fault:
            raise located(fault, where, item or text) from None
        _add(known, hosts)
    return [_sum(listed) for listed in known.values()]


def _foreign(text: str) -> str:
    """Return the kind of a file that is not a hostfile, "" if unknown."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    first, words = lines[0], {line.split()[0].lower() for line in lines}
    if first[0] == "{" or first.startswith(("[{", '["', "[[")):
        return "JSON or TOML"
    if first.startswith("---") or first.endswith(":") or any(one[:2] == "- " for one in lines):
        return "YAML"
    return "an ssh configuration" if {"host", "hostname"} <= words else ""


def _add(known: dict[str, list[Host]], hosts: Iterable[Host]) -> None:
    for host in hosts:
        listed = known.setdefault(host.name.lower(), [])
        if listed and not _alike(listed[0], host):
            first = listed[0].where
            place = f" (first at {first})" if first != host.where else ""
            raise UsageError(
                f"{host.where}: host {host.name!r} is listed twice{place}; "
                "write it once, with all its slots"
            )
        listed.append(host)
        if len(known) > MAX_HOSTS:
            raise UsageError(f"{host.where}: more than {MAX_HOSTS} hosts")


def _alike(first: Host, other: Host) -> bool:
    """Return whether two entries of a host can be added up.

    Files of Open MPI and PBS have one line per slot, or several lines with a number of slots.
    """
    counts = [host.slots and host.slots == tuple(range(len(host.slots))) for host in (first, other)]
    logins = [(host.user, host.port, host.block) for host in (first, other)]
    return logins[0] == logins[1] and counts in ([None, None], [True, True])


def _sum(listed: Sequence[Host]) -> Host:
    first, last = listed[0], listed[-1]
    if first is last:
        return first
    count = sum(len(host.slots or (0,)) for host in listed)
    if count > MAX_SLOTS:
        raise UsageError(f"{last.where}: host {last.name!r} has more than {MAX_SLOTS} slots")
    return first._replace(slots=tuple(range(count)), times=len(listed))


def _hosts_of_line(line: str, where: str) -> list[Host]:
    if _HEADING.fullmatch(line.strip()):
        raise UsageError(
            f"{where}: {quoted(line.strip())} is a heading, as in Ansible's files; a hostfile has"
            " none, only one host per line"
        )
    parser = _LineParser()
    for word in _WORD.finditer(line):
        try:
            parser.add(word[0])
        except UsageError as fault:
            raise located(fault, f"{where}:{word.start() + 1}", word[0]) from None
    return parser.hosts(where)


class _LineParser:
    """Parses the words of one line of a hostfile."""

    def __init__(self) -> None:
        self._user: str | None = None
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._block = ""

    def add(self, word: str) -> None:
        if "," in word and "," in _BRACKETS.sub("", word):
            raise UsageError("no commas in a hostfile; write one host per line")
        if re.fullmatch(r"[A-Za-z0-9._-]+;[A-Za-z0-9._;-]+", word):
            raise UsageError("no ; in a hostfile; write one host per line")
        if re.search(r"[0-9]\.\.[A-Za-z]*[0-9]", word):
            raise UsageError(_MEANT["{"])
        if self._names and word.startswith("block="):
            self._set_block(word.removeprefix("block="))
            return
        if self._names:
            self._set(*_option(word))
            return
        self._user, address = _login(word)
        self._names, tail = _names(address)
        if tail is not None:
            field = "port" if ENCLOSED.fullmatch(address) else "slots"
            self._set(field, _number(tail, field))

    def hosts(self, where: str) -> list[Host]:
        slots, port, most = map(self._numbers.get, ("slots", "port", "max_slots"))
        if most is not None and slots is not None and most < slots:
            raise UsageError(f"{where}: slots={slots} is more than max_slots={most}")
        devices = None if slots is None else tuple(range(slots))
        user, block = self._user, self._block
        return [Host(name, devices, user, port, where, 1, block) for name in self._names]

    def _set_block(self, name: str) -> None:
        if self._block:
            raise UsageError("block is given twice")
        if not _BLOCK.fullmatch(name):
            raise UsageError("block must be a name of letters, digits and . _ -")
        self._block = name

    def _set(self, field: str, number: int) -> None:
        if field in self._numbers:
            raise UsageError(f"{field} is given twice")
        self._numbers[field] = number


@lru_cache
def _option(word: str) -> tuple[str, int]:
    """Return the field and the number of an option after a host; most lines repeat one of a few."""
    key, _, value = word.partition("=")
    field = key.rstrip().replace("-", "_")
    field = _ALSO.get(field, field)
    if field not in _LIMITS:
        expected = "expected 'slots=N', 'max_slots=N', 'port=N' or 'block=NAME'"
        raise UsageError(f"{expected}{_advice(word, field)}")
    if not value or key != key.rstrip() or value != value.lstrip():
        raise UsageError(f"write '{field}={value.strip() or 'N'}', without spaces")
    return field, _number(value, field)


def _advice(word: str, field: str) -> str:
    if "=" not in word:
        return f"; write slots={word}" if word.isdigit() else "; write one host per line"
    if field.startswith("ansible_"):
        return "; Ansible's variables are not read: write USER@ADDRESS port=N"
    return {"user": "; write USER@HOST", "gpus": "; write slots=N"}.get(field, "")


def _number(text: str, field: str) -> int:
    limit = _LIMITS[field]
    digits = text.isascii() and text.isdigit() and len(text) < 10
    if not digits or not 1 <= int(text) <= limit:
        advice = _INSTEAD_OF_NONE.get(field, "") if digits and not int(text) else ""
        raise UsageError(f"{field} must be a number from 1 to {limit}, not {quoted(text)}{advice}")
    return int(text)


def _hosts_of_item(item: str, where: str) -> list[Host]:
    if not item:
        raise UsageError("an item is empty; expected hosts joined by commas, without spaces: n1,n2")
    meant = next((_MEANT[sign] for sign in _MEANT if sign in item), "")
    if meant:
        raise UsageError(meant)
    if item.replace("-", "").isdigit():
        raise UsageError("is not a host name; slots are joined by '+', as in 'h:0-3+5'")
    user, address = _login(item)
    names, tail = _names(address)
    slots = None if tail is None else _counted_or_listed(tail)
    return [Host(name, slots, user, None, where) for name in names]


def _counted_or_listed(text: str) -> tuple[Slot, ...]:
    if not text.isdigit():
        return parse_slots(text, "+")
    if not text.strip("0"):
        raise UsageError(
            "a single number is the number of slots; write '0-0' for slot 0 alone, the host"
            " without ':0' for one worker per device, or leave out the host"
        )
    return tuple(range(_number(text, "slots")))


def _login(text: str) -> tuple[str | None, str]:
    if "//" in text:
        raise UsageError("is a URL; give only the host name (and the ssh port with --ssh_port)")
    user, at, address = text.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise UsageError(f"{quoted(user)} is not a user name")
    return (user if at else None), address


def _ipv6(address: str) -> str:
    meant = in_brackets(address)
    if not is_ipv6(address):
        advice = f"; write {meant}" if meant else ""
        raise UsageError(
            f"{quoted(address)} is neither HOST:N nor an IPv6 address (--ssh_port sets a port)"
            f"{advice}"
        )
    return address


def _names(address: str) -> tuple[list[str], str | None]:
    """Return the host names that `address` stands for, and the text after the colon."""
    enclosed = ENCLOSED.fullmatch(address)
    if enclosed:
        names, tail = [enclosed[1]], enclosed[2]
    elif address.count(":") > 1:
        names, tail = [_ipv6(address)], None
    else:
        stem, colon, after = address.partition(":")
        names, tail = expand(stem), after if colon else None
    for name in names:
        check_name(name)
    if len({*names}) < len(names):
        raise UsageError("names a host twice")
    return names, tail
