"""A lint of features: their halves stay apart, and one uses another only where a list says so."""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, cast

from importlinter import Contract, ContractCheck, fields, output

from .layers import imports_by_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grimp import ImportGraph

LAUNCHER = "dsrun.launcher."
FEATURES = f"{LAUNCHER}features."


class Half(Enum):
    """The programs that load a module."""

    NODE = "nodes"
    RUNNER = "the runner"
    BOTH = "commands that may run on a node themselves, and shapes that both halves send"


HALF_OF_FOLDER = {
    "node": Half.NODE,
    **dict.fromkeys(("cli", "head", "planning"), Half.RUNNER),
}
"""The half of each folder of the launcher that is of one half alone."""

HALF_OF_FILE = {
    "node": Half.NODE,
    **dict.fromkeys(("plan", "runner", "words"), Half.RUNNER),
}
"""The half of a feature's module, by the first word of its name."""


class FeatureFaults(NamedTuple):
    """Faults of the imports of features, as texts.

    Attributes:
        halves: imports of the other half.
        unlisted: features that use another one, which the list does not say.
        unused: what the list says and no feature does.
    """

    halves: Sequence[str]
    unlisted: Sequence[str]
    unused: Sequence[str]


class Features(Contract):
    """Features with two halves, and a list of those that use others: "one: other another"."""

    type_name = "features"

    uses = fields.ListField(subfield=fields.StringField())
    doors = fields.ListField(subfield=fields.StringField(), required=False, default=[])

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Look for imports that the list does not have."""
        del verbose
        doors = {*cast("list[str]", self.doors)}
        found = faults([*imports(graph, doors)], listed(cast("list[str]", self.uses)))
        return ContractCheck(kept=not any(found), metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print what is wrong."""
        found: FeatureFaults = check.metadata["found"]
        for words, some in (
            ("imports the other half: what both need belongs in messages", found.halves),
            ("is not in the list of features that use others", found.unlisted),
            ("is in the list of features that use others, and is not so", found.unused),
        ):
            for one in some:
                output.print_error(f"{one}: {words}")


def imports(graph: ImportGraph, doors: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the imports of the launcher's modules, those by a name in a table included."""
    modules = graph.modules
    for importer in sorted(modules):
        if importer.startswith(LAUNCHER):
            found = {*graph.find_modules_directly_imported_by(importer)}
            if importer not in doors:
                found |= {name for _, name in imports_by_name(importer, modules)}
            for imported in sorted(found):
                if imported.startswith(LAUNCHER):
                    yield importer.removeprefix(LAUNCHER), imported.removeprefix(LAUNCHER)


def listed(rows: Iterable[str]) -> set[tuple[str, str]]:
    """Return the pairs of a feature and another one that it uses."""
    split = (row.partition(":") for row in rows)
    return {(feature.strip(), other) for feature, _, others in split for other in others.split()}


def half(module: str) -> Half:
    """Return the half that a module is of, by its name below the launcher."""
    folder, _, rest = module.partition(".")
    if folder != "features":
        return HALF_OF_FOLDER.get(folder, Half.BOTH)
    file = rest.partition(".")[2].partition(".")[0]
    return HALF_OF_FILE.get(file.partition("_")[0], Half.BOTH)


def faults(imported: Iterable[tuple[str, str]], allowed: set[tuple[str, str]]) -> FeatureFaults:
    """Return the faults of these imports."""
    apart, used = [], defaultdict(list)
    for one, other in imported:
        if {half(one), half(other)} == {Half.NODE, Half.RUNNER}:
            apart.append(f"{one} -> {other}")
        pair = feature(one), feature(other)
        if all(pair) and pair[0] != pair[1]:
            used[pair].append(f"{one} -> {other}")
    unlisted = [one for pair in used.keys() - allowed for one in used[pair]]
    return FeatureFaults(
        apart, sorted(unlisted), sorted(": ".join(one) for one in allowed - used.keys())
    )


def feature(module: str) -> str:
    """Return the feature that a module belongs to, "" for none."""
    folder, _, rest = module.partition(".")
    return rest.partition(".")[0] if folder == "features" else ""
