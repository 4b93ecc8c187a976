"""Whether all nodes have the same Python, packages, driver and code. Pure."""

from __future__ import annotations

from ..fleet.hosts import some_of
from .compared_node import odd_ones, python_of, shown
from .findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...control.facts import Facts
    from .compared_node import Odd, Subject
    from .findings import Finding

OWN_RULE = frozenset({"torch", "nccl", "driver", "cuda_driver"})
"""Versions that have a rule of their own."""

SHOWN = 5
"""Packages, and files, that are named; the rest are counted."""


def check(subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Yield what differs."""
    yield from _python(subjects)
    yield from _torch(subjects)
    yield from _packages(subjects)
    gpus = [one for one in subjects if one.has_gpus]
    for code, what in (("nccl", "NCCL"), ("driver", "driver")):
        for odd in odd_ones(gpus, lambda one, name=code: one.facts.versions.get(name)):  # type: ignore[misc]
            yield finding(code, odd.nodes, odd.words(what))
    for one in gpus:
        yield from _old_driver(one)


def _python(subjects: Sequence[Subject]) -> Iterator[Finding]:
    for odd in odd_ones(subjects, lambda one: _start(one.facts.python) or None):
        yield finding("python", odd.nodes, odd.words("Python"))


def _torch(subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Yield other versions of torch; builds are compared among nodes with the same version."""
    for one in filter(_lacks_torch, subjects):
        text, advice = no_torch(one.facts)
        yield finding("torch-missing", [one.name], text)._replace(advice=advice)
    subjects = [one for one in subjects if not _lacks_torch(one)]
    having = [one for one in subjects if "torch" in one.facts.versions]
    if not having:
        return
    releases = odd_ones(having, lambda one: _start(one.facts.versions["torch"]))
    for odd in releases:
        yield finding("torch", odd.nodes, odd.words("torch"))
    named = {name for odd in releases for name in odd.nodes}
    rest = [one for one in subjects if one.name not in named]
    for odd in odd_ones(rest, lambda one: one.facts.versions.get("torch", "")):
        yield finding("torch-build", odd.nodes, odd.words("torch"))


def no_torch(facts: Facts) -> tuple[str, str]:
    """Return what is said of a Python without torch, and what to do."""
    python = python_of(facts)
    return f"torch is not installed for {python}", f"{python} -m pip install torch (or --python)"


def _lacks_torch(one: Subject) -> bool:
    """Return whether torch is needed and not there; of some Pythons nothing is known."""
    return one.needs_torch and bool(one.facts.python) and "torch" not in one.facts.versions


def _packages(subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Yield other packages, one finding for all those of the same nodes."""
    names = {name for one in subjects for name in one.facts.versions} - OWN_RULE
    texts: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(names):
        for odd in odd_ones(subjects, lambda one, name=name: one.facts.versions.get(name, "")):  # type: ignore[misc]
            texts.setdefault(tuple(odd.nodes), []).append(odd.words(name))
    for nodes, found in texts.items():
        yield finding("packages", nodes, listed(found, "; "))


def _old_driver(one: Subject) -> Iterator[Finding]:
    built, supported = (one.facts.versions.get(name, "") for name in ("cuda", "cuda_driver"))
    if built and supported and _major(supported) < _major(built):
        text = f"the driver supports CUDA {supported}, but torch was built with CUDA {built}"
        yield finding("driver-old", [one.name], text)


def _major(version: str) -> int:
    number = version.partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 9 else 0


def _start(version: str) -> str:
    """Return the first two parts of a version."""
    return ".".join(version.partition("+")[0].split(".")[:2])


def check_code(subjects: Sequence[Subject], files: Mapping[str, list[str]]) -> Iterator[Finding]:
    """Yield scripts and other files that differ.

    Args:
        subjects: the nodes.
        files: for nodes whose files differ from most, which; as far as known (`differing`).
    """
    for odd in odd_ones(subjects, lambda one: one.facts.script or None):
        text = f"the script is not the same as on {some_of(odd.holders)}"
        yield finding("script", odd.nodes, text)
    for odd in odd_files(subjects):
        names = files.get(odd.nodes[0])
        which = f" ({listed([shown(name) for name in names])})" if names else ""
        text = f"*.py files{which} are not the same as on {some_of(odd.holders)}"
        yield finding("files", odd.nodes, text)


def odd_files(subjects: Sequence[Subject]) -> list[Odd]:
    """Return the nodes whose Python files differ from those of most."""
    return odd_ones(subjects, lambda one: one.facts.files or None)


def differing(one: dict[str, int], other: dict[str, int]) -> list[str]:
    """Return the names of files that only one of two nodes has, or with different sizes."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def listed(texts: Sequence[str], separator: str = ", ") -> str:
    """Return the first few texts, and how many more there are."""
    rest = len(texts) - SHOWN
    return separator.join(texts[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
