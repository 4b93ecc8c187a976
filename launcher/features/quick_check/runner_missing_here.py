"""Advice on a script or a folder that nodes lack, but this machine has."""

from __future__ import annotations

import os
import re

from ...common import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LACKS = re.compile(
    r"no such (?P<kind>script|folder): (?P<path>/.*?)(?: \(--workdir names another\))?"
)
"""Messages of `node.checks.preflight` about missing scripts and folders."""


def advised(problems: Sequence[str]) -> list[str]:
    """Return the problems of nodes, `HOSTS: TEXT` each, with `--sync` where it would help."""
    return [f"{line}{_advice(line)}" for line in problems]


def _advice(line: str) -> str:
    folder = folder_to_sync(line)
    return f"; it is on this machine: add --sync {folder}" if folder else ""


def with_names(problems: Sequence[str]) -> list[str]:
    """Return the problems; if the script is missing here, too, with the scripts that are here."""
    return [f"{line}{_advice(line) or _names(line)}" for line in problems]


def _names(line: str) -> str:
    lacks = LACKS.fullmatch(line.partition(": ")[2])
    if lacks is None or lacks["kind"] != "script":
        return ""
    from ...common.scripts import present

    folder, name = os.path.split(lacks["path"])
    return present(name if folder == _current() else lacks["path"], folder)


def folder_to_sync(line: str) -> str:
    """Return the folder for `--sync` that ends the problem in this line, "" if none does."""
    lacks = LACKS.fullmatch(line.partition(": ")[2])
    if lacks is None or not system.exists(lacks["path"]):
        return ""
    folder = lacks["path"] if lacks["kind"] == "folder" else os.path.dirname(lacks["path"])
    return "." if _holds_here(folder) else folder


def _current() -> str:
    try:
        return system.getcwd()
    except FileNotFoundError:
        return ""


def _holds_here(folder: str) -> bool:
    """Return whether a folder is the current one, or in it; nobody copies the root."""
    current = _current()
    return current not in {"", "/"} and os.path.commonpath([current, folder]) == current
