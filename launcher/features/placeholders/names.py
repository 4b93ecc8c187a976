"""The names of placeholders, and the search for them in words. Pure."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NAMES = (
    *("rank", "local_rank", "world_size", "node_rank", "nnodes", "master_addr", "master_port"),
    *("host", "hosts", "devices"),
)
"""The names. `hosts` is a list with commas in the order of the node ranks, `devices` a list of the
devices that a worker sees."""

PLACEHOLDER = re.compile(r"(?<![${])\{([a-z_]+)\}(?!\})")
"""A name in single braces: JSON, `${...}` of Hydra and `{{...}}` are other text."""

ALIKE = 0.75
"""The similarity to one of these (`difflib`) above which another name counts as a mistake."""


def mistakes(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each name in braces that resembles a placeholder, with the placeholder."""
    from difflib import get_close_matches

    for name in _found(words):
        near = [] if name in NAMES else get_close_matches(name, NAMES, 1, ALIKE)
        if near:
            yield name, near[0]


def filled(word: str, values: Mapping[str, str]) -> str:
    """Return a word with its placeholders filled in; unknown ones are left alone."""
    if "{" not in word:
        return word
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word)


def _found(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        yield from (found[1] for found in PLACEHOLDER.finditer(word))
