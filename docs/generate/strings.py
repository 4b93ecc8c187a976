"""Collect from the code every string that a person may read.

A string is collected when it reads as words and nothing around it shows that it is for a machine.
It reads as words when it has a space and either two words, or one word and a placeholder. A word is
letters alone, with an apostrophe or a hyphen inside and punctuation around it. `--option`,
`NAME_OF_A_VARIABLE`, `a/path`, `name=value`, `$NAME` and `%s` are not words.

These are left out, whatever they read as:

* docstrings, annotations, and what stands under `if TYPE_CHECKING:`;
* the option table and the help texts of `launcher/cli` (`HELP`), but not the errors raised there,
  and every call of `option(...)`: they have pages of their own;
* what is only compared, looked up or taken apart: operands of a comparison, keys of a subscript,
  patterns of a `match`, and arguments of the functions in `MACHINE_CALLS` (`re.compile`,
  `startswith`, `getattr` ...), the list of words in `"a b c".split()`;
* regular expressions, by their escapes, groups and alternatives (`REGEX`);
* scripts for a shell or for `python -c`, by their variables, operators and first word, and usage
  texts (`SCRIPT`);
* command lines: the strings in a list or tuple that has an option (`-x`, `--name`) among them.

What is left but never read by a person is listed in the catalogue under `[ignored]`. A new rule
must leave out at least three such strings and not one message.

A value in an f-string becomes a placeholder: `{self._host}` is `{host}`, `{", ".join(hosts)}` is
`{hosts}`. Only the places of the placeholders are compared with the catalogue, not their names.
"""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .literals import literals, template

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]

HELP = ("launcher/cli/option*.py", "launcher/cli/help/*")
"""Modules whose strings have pages of their own."""

WORD = re.compile(r"[^\w\s{}/$%=\\<>-]*[A-Za-z]+(?:['-][A-Za-z]+)*[^\w\s/$%=\\<>-]*")
PLACEHOLDER = re.compile(r"\{\w*\}")
REGEX = re.compile(r"\\[bdswAZSWD.(\[]|\(\?|\.[*+]|\[\^|\)\?\S|\|\^| \w+\|[\w(]")
SCRIPT = re.compile(r"\$[A-Za-z_({@?]|&&|\|\||>&|;;|; (do|then)\b|^(exec|import|usage:) |^#!")


class Found(NamedTuple):
    """A string of the code.

    Attributes:
        text: with placeholders for its values.
        path: the module, relative to the root.
        line: where the string begins.
    """

    text: str
    path: str
    line: int

    @property
    def area(self) -> str:
        """The part of the code that it belongs to; the catalogue has a file for each."""
        return area(self.path)


def area(path: str) -> str:
    """Return the area of a module: a folder of `launcher`, or `accelerator`."""
    top, *folders, _ = path.split("/")
    if top == "accelerator":
        return top
    return folders[0] if folders else "common"


def key(text: str) -> str:
    """Return what two texts have in common that differ in the names of their placeholders."""
    return PLACEHOLDER.sub("{}", text)


def collect(root: Path = ROOT) -> list[Found]:
    """Return every string of the code that a person may read, in the order of the code."""
    return [
        Found(text, name, line)
        for top in ("launcher", "accelerator")
        for path in sorted(root.glob(f"{top}/**/*.py"))
        for name in [path.relative_to(root).as_posix()]
        for text, line in strings(path.read_text(encoding="utf-8"), errors_only=_is_help(name))
    ]


def _is_help(path: str) -> bool:
    return any(fnmatch(path, pattern) for pattern in HELP)


def strings(source: str, *, errors_only: bool = False) -> Iterator[tuple[str, int]]:
    """Yield the strings of one module that a person may read, each with its line."""
    tree = ast.parse(source)
    raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    for node in raised if errors_only else [tree]:
        for literal in literals(node):
            text = template(literal)
            if is_read(text):
                yield text, literal.lineno


def is_read(text: str) -> bool:
    """Return whether a string reads as words, and is neither a script nor a regular expression."""
    if REGEX.search(text) or SCRIPT.search(text):
        return False
    tokens = text.split()
    words = [token for token in tokens if WORD.fullmatch(PLACEHOLDER.sub("", token))]
    values = [token for token in tokens if PLACEHOLDER.search(token)]
    return len(tokens) > 1 and (len(words) > 1 or bool(words and values))
