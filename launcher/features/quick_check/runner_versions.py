"""Checks that all nodes have equal Python, packages, driver and code. Pure."""

from __future__ import annotations

from ...head.fleet.hosts import some_of
from .runner_findings import finding, outliers, python_of, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...control.facts import Facts
    from .runner_findings import ComparedNode, Finding, Outlier

OWN_RULE = frozenset({"torch", "nccl", "driver", "cuda_driver", "image"})
"""Versions with separate rules."""

SHOWN = 5
"""Packages, and files, that are named; the rest are counted."""


def check(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    """Yield findings about differences."""
    yield from _python(compared)
    yield from _torch(compared)
    yield from _packages(compared)
    for outlier in outliers(compared, lambda one: one.facts.versions.get("image")):
        yield finding("image", outlier.nodes, outlier.words("container"))
    gpus = [one for one in compared if one.has_gpus]
    for code, what in (("nccl", "NCCL"), ("driver", "driver")):
        for outlier in outliers(gpus, lambda one, name=code: one.facts.versions.get(name)):  # type: ignore[misc]
            yield finding(code, outlier.nodes, outlier.words(what))
    for one in gpus:
        yield from _old_driver(one)


def _python(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    for outlier in outliers(compared, lambda one: _start(one.facts.python) or None):
        yield finding("python", outlier.nodes, outlier.words("Python"))


def _torch(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    """Yield other versions of torch; builds are compared among nodes with the same version."""
    for one in filter(_lacks_torch, compared):
        text, advice = no_torch(one.facts)
        yield finding("torch-missing", [one.name], text)._replace(advice=advice)
    compared = [one for one in compared if not _lacks_torch(one)]
    having = [one for one in compared if "torch" in one.facts.versions]
    if not having:
        return
    releases = outliers(having, lambda one: _start(one.facts.versions["torch"]))
    for outlier in releases:
        yield finding("torch", outlier.nodes, outlier.words("torch"))
    named = {name for outlier in releases for name in outlier.nodes}
    rest = [one for one in compared if one.name not in named]
    for outlier in outliers(rest, lambda one: one.facts.versions.get("torch", "")):
        yield finding("torch-build", outlier.nodes, outlier.words("torch"))


def no_torch(facts: Facts) -> tuple[str, str]:
    """Return the message about a Python without torch, and the remedy."""
    python = python_of(facts)
    return f"torch is not installed for {python}", f"{python} -m pip install torch (or --python)"


def _lacks_torch(one: ComparedNode) -> bool:
    """Return whether needed torch is missing; False for a Python that was not examined."""
    return one.needs_torch and bool(one.facts.python) and "torch" not in one.facts.versions


def _packages(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    """Yield other packages, one finding per set of nodes."""
    names = {name for one in compared for name in one.facts.versions} - OWN_RULE
    texts: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(names):
        for outlier in outliers(compared, lambda one, name=name: one.facts.versions.get(name, "")):  # type: ignore[misc]
            texts.setdefault(tuple(outlier.nodes), []).append(outlier.words(name))
    for nodes, found in texts.items():
        yield finding("packages", nodes, listed(found, "; "))


def _old_driver(one: ComparedNode) -> Iterator[Finding]:
    built, supported = (one.facts.versions.get(name, "") for name in ("cuda", "cuda_driver"))
    if built and supported and _major(supported) < _major(built):
        text = f"the driver supports CUDA {supported}, but torch was built with CUDA {built}"
        yield finding("driver-old", [one.name], text)


def _major(version: str) -> int:
    number = version.partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 9 else 0


def _start(version: str) -> str:
    return ".".join(version.partition("+")[0].split(".")[:2])


def check_code(
    compared: Sequence[ComparedNode], files: Mapping[str, list[str]]
) -> Iterator[Finding]:
    """Yield scripts and other files that differ.

    Args:
        compared: the nodes.
        files: the `differing` files of nodes, as far as known.
    """
    for outlier in outliers(compared, lambda one: one.facts.script or None):
        text = f"the script is not the same as on {some_of(outlier.holders)}"
        yield finding("script", outlier.nodes, text)
    for outlier in outlier_files(compared):
        names = files.get(outlier.nodes[0])
        which = f" ({listed([shown(name) for name in names])})" if names else ""
        text = f"*.py files{which} are not the same as on {some_of(outlier.holders)}"
        yield finding("files", outlier.nodes, text)


def outlier_files(compared: Sequence[ComparedNode]) -> list[Outlier]:
    """Return the nodes whose Python files differ from most nodes' files."""
    return outliers(compared, lambda one: one.facts.files or None)


def differing(one: dict[str, int], other: dict[str, int]) -> list[str]:
    """Return the names of files that only one of two nodes has, or that differ in size."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def listed(texts: Sequence[str], separator: str = ", ") -> str:
    """Return the first few texts, and the number of the others."""
    rest = len(texts) - SHOWN
    return separator.join(texts[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
