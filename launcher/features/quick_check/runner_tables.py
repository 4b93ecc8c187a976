"""The facts of nodes as text: a table, the differences, or everything. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...common.text import plain
from ...head.output.fold import fold, heading, ranges
from ...specs.plan import OWN_PYTHON
from .runner_findings import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...control.messages import Hello
    from .runner_answers import Answer

HEADINGS = ("NODE", "PYTHON", "TORCH", "NCCL", "DRIVER", "DEVICES", "CPUS", "MEMORY", "SHM", "TMP")

LONGEST = 300
"""Characters of a value that are shown."""

RED, YELLOW, GREEN = "31", "33", "32"

OWN = ("hostname", "machine", "free.", "device.", "network.")
"""Beginnings of names of values that are a node's own, and therefore not compared."""


class CheckedState(NamedTuple):
    """The result for a node: in a few words, and a colour (SGR)."""

    words: str
    colour: str


def table(
    answers: Mapping[str, Answer], states: Mapping[str, CheckedState], *, colour: bool
) -> list[str]:
    """Return the table, in which nodes with the same line share it."""
    rows = fold((name, (_cells(answers[name]), states[name])) for name in answers)
    cells = [
        (*HEADINGS, "STATE"),
        *((ranges(names), *row, state.words) for (row, state), names in rows.items()),
    ]
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    if not colour:
        return lines
    colours = [state.colour for _, state in rows]
    last = [len(line) - len(row[-1]) for line, row in zip(lines, cells, strict=True)]
    return [
        lines[0],
        *(
            f"{line[:at]}\x1b[{code}m{line[at:]}\x1b[0m"
            for line, at, code in zip(lines[1:], last[1:], colours, strict=True)
        ),
    ]


def _cells(answer: Answer) -> tuple[str, ...]:
    hello = answer.hello
    if hello is None or hello.facts is None:
        return ("-",) * (len(HEADINGS) - 1)
    facts, versions = hello.facts, hello.facts.versions
    free = {one.role: size(one.free) for one in facts.spaces}
    memory = min(filter(None, (facts.memory, facts.cgroup_memory)), default=0)
    cells = (
        facts.python,
        *(versions.get(name, "") for name in ("torch", "nccl", "driver")),
        _devices(hello),
        f"{facts.cpus:g}",
        size(memory) if memory else "",
        *(free.get(role, "") for role in ("shm", "tmp")),
    )
    return tuple(plain(cell)[:32] or "-" for cell in cells)


def pythons(answers: Mapping[str, Answer], origin: str) -> list[str]:
    """Return the Python of the workers on each node, one line each."""
    known = {name: one.hello.python for name, one in answers.items() if one.hello}
    whose = "dsrun's own" if origin == OWN_PYTHON else origin
    rows = fold((name, path) for name, path in known.items() if path)
    return [f"{ranges(names)}: workers run on {plain(p)} ({whose})" for p, names in rows.items()]


def _devices(hello: Hello) -> str:
    """Return the devices in a few words, as in `8 x NVIDIA H100`."""
    if not hello.devices:
        return ""
    models = {one.name for one in hello.facts.devices if one.name} if hello.facts else set()
    return f"{len(hello.devices)} x {min(models) if len(models) == 1 else hello.accelerator}"


def values(answer: Answer) -> dict[str, str]:
    """Return all facts of a node, as text by name."""
    hello = answer.hello
    if hello is None:
        return {}
    found = {
        "dsrun": hello.dsrun,
        "hostname": hello.hostname,
        "machine": hello.machine,
        "accelerator": hello.accelerator,
        "devices": " ".join(hello.devices),
        "slots": str(hello.slots),
        "python.path": hello.python,
        **dict(_facts(hello)),
        **answer.report,
    }
    return {plain(name): plain(value)[:LONGEST] for name, value in found.items() if value}


def _facts(hello: Hello) -> Iterator[tuple[str, str]]:
    facts = hello.facts
    if facts is None:
        return
    yield "python", facts.python
    yield from ((f"version.{name}", version) for name, version in facts.versions.items())
    yield "script", facts.script
    yield "files", facts.files
    yield "files.count", str(facts.file_count)
    yield from ((f"env.{name}", value or "(empty)") for name, value in facts.env.items())
    for name, limit in facts.limits.items():
        yield f"limit.{name}", "unlimited" if limit < 0 else str(limit)
    yield "memory", size(facts.memory)
    yield "memory.cgroup", size(facts.cgroup_memory) if facts.cgroup_memory else "unlimited"
    yield "cpus.usable", f"{facts.cpus:g}"
    yield from ((f"mtu.{name}", str(mtu)) for name, mtu in facts.mtus.items())
    for space in facts.spaces:
        yield f"space.{space.role}", f"{space.path} {size(space.total)}"
        yield f"free.{space.role}", size(space.free)
        yield f"writable.{space.role}", "yes" if space.writable else "no"
    for device in facts.devices:
        yield f"model.{device.id}", device.name
        yield f"total.{device.id}", size(device.total)
        yield f"device.{device.id}.free", size(device.free)
        yield f"device.{device.id}.users", ", ".join(device.users)
        yield f"device.{device.id}.problems", "; ".join(device.problems)


def differing(told: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return each fact that differs, with the nodes of each value, unless it always differs."""
    lines = []
    for name in _names(told):
        groups = fold((node, its.get(name, "none")) for node, its in told.items())
        if len(groups) > 1 and not name.startswith(OWN):
            lines.append(f"{name}:")
            lines += [f"  {ranges(nodes)}: {value}" for value, nodes in groups.items()]
    return lines


def everything(told: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return all values: those that all nodes have in common first, then those that differ."""
    lines: list[str] = []
    rest: list[str] = []
    for name in _names(told):
        groups = fold((node, its.get(name, "none")) for node, its in told.items())
        if len(groups) == 1:
            lines.append(f"  {name}: {next(iter(groups))}")
        else:
            rest.append(f"  {name}:")
            rest += [f"    {ranges(nodes)}: {value}" for value, nodes in groups.items()]
    title = [f"{heading(list(told))}:"] if told else []
    return [*title, *lines, *(["differing:"] if rest else []), *rest]


def _names(told: Mapping[str, Mapping[str, str]]) -> Sequence[str]:
    """Return the names of all values, in the order of their first appearance."""
    return list(dict.fromkeys(name for its in told.values() for name in its))
