"""Findings of the quick check: the table that docs/checks.md shows, and their lines."""

from __future__ import annotations

from enum import Enum

from ...common.records import NamedTuple
from ...common.text import plain
from ...head.fleet.hosts import some_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...control.facts import Facts
    from ...specs.host import Slot

LONGEST = 60
"""Characters of a value that are shown."""


class ComparedNode(NamedTuple):
    """One node.

    Attributes:
        name: the host's name, as the user wrote it.
        workers: the number of workers there, 0 if unknown.
        slots: the devices that they use; None for all.
        accelerator: the kind of its devices, "" if unknown.
        ahead: the seconds that its wall clock is ahead of this machine's, at least and at most;
            None if unknown.
        needs_torch: whether its workers will probably import torch.
    """

    name: str
    facts: Facts
    workers: int = 0
    slots: tuple[Slot, ...] | None = None
    accelerator: str = ""
    ahead: tuple[float, float] | None = None
    needs_torch: bool = False

    @property
    def has_gpus(self) -> bool:
        """True if it has devices with their own libraries and driver."""
        return bool(self.facts.devices) or self.accelerator not in {"", "cpu"}


class Outlier(NamedTuple):
    """Nodes that differ from most.

    Attributes:
        nodes: those that have this value.
        value: their value.
        common: the value of most nodes; in a tie, the first node's.
        holders: the nodes that have it.
    """

    nodes: list[str]
    value: str
    common: str
    holders: list[str]

    def words(self, what: str) -> str:
        """Return e.g. `torch 2.3.1, but 2.4.0 on n1 and n2`."""
        return f"{what} {shown(self.value)}, but {shown(self.common)} on {some_of(self.holders)}"


def python_of(facts: Facts) -> str:
    """Return the path of the workers' Python, as a person can paste it into a shell."""
    from shlex import quote

    return quote(plain(facts.python_path))


def outliers(
    compared: Sequence[ComparedNode], value: Callable[[ComparedNode], str | None]
) -> list[Outlier]:
    """Return the nodes without the most common value, by their value.

    Nodes without a value (None) are left out.
    """
    groups: dict[str, list[str]] = {}
    for one in compared:
        its = value(one)
        if its is not None:
            groups.setdefault(its, []).append(one.name)
    if len(groups) < 2:
        return []
    common = max(groups, key=lambda its: len(groups[its]))
    holders = groups.pop(common)
    return [Outlier(nodes, its, common, holders) for its, nodes in groups.items()]


def typical(values: Sequence[float]) -> float:
    """Return the upper median."""
    return sorted(values)[len(values) // 2]


def shown(value: str) -> str:
    """Return a value as it is shown: not empty, and not too long."""
    if not value:
        return "none"
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 3]}..."


def size(count: float) -> str:
    """Return a number of bytes in words, as in `1.5 GiB`."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    at = 0
    while count >= 1024 and at < len(units) - 1:
        count, at = count / 1024, at + 1
    return f"{count:.3g} {units[at]}" if count < 1000 else f"{count:.0f} {units[at]}"


MOST = 5
"""Lines for one kind of finding; the rest are counted."""


class Severity(Enum):
    """The effect of a finding: an error prevents the start, a warning is a line."""

    ERROR = "error"
    WARNING = "warning"


class FindingRule(NamedTuple):
    """One row of the table.

    Attributes:
        severity: error only for findings that certainly break a job, or ruin it silently.
        condition: the condition for the finding.
        advice: the remedy.
    """

    severity: Severity
    condition: str
    advice: str


class Finding(NamedTuple):
    """A fault of some nodes.

    Attributes:
        code: its row in the table (docs/checks.md).
        severity: the row's severity, whatever `--strict` says.
        nodes: the names of the nodes, in their order.
        text: the fault, and the comparison that shows it.
        advice: the remedy.
    """

    code: str
    severity: Severity
    nodes: tuple[str, ...]
    text: str
    advice: str


SAME_PACKAGES = "install the same versions on all nodes"
SAME_DRIVER = "update the driver on these nodes"
ROOM = "remove files there, or name another folder"
ULIMIT = "raise it there (ulimit, limits.conf, or the container's settings)"

TABLE: dict[str, FindingRule] = {
    "torch": FindingRule(
        Severity.ERROR,
        "The first two parts of torch's version differ.",
        SAME_PACKAGES,
    ),
    "torch-build": FindingRule(
        Severity.WARNING,
        "The rest of torch's version differs, or only other nodes have torch.",
        SAME_PACKAGES,
    ),
    "torch-missing": FindingRule(
        Severity.WARNING,
        "The workers' Python has no torch, although the script imports it or `dsrun-check` was"
        " given no script.",
        "PYTHON -m pip install torch (or --python)",
    ),
    "nccl": FindingRule(
        Severity.ERROR,
        "NCCL's version differs between nodes with devices.",
        SAME_PACKAGES,
    ),
    "python": FindingRule(
        Severity.WARNING,
        "The first two parts of the version of the workers' Python differ.",
        "choose the same one on all nodes (--python)",
    ),
    "image": FindingRule(
        Severity.ERROR,
        "The nodes' containers are made from different images (`--container`).",
        "pull or copy the same image on all nodes",
    ),
    "packages": FindingRule(
        Severity.WARNING,
        "The version of another package, or of the CUDA that torch was built with, differs.",
        SAME_PACKAGES,
    ),
    "driver": FindingRule(
        Severity.WARNING,
        "The version of the devices' driver differs.",
        SAME_DRIVER,
    ),
    "driver-old": FindingRule(
        Severity.WARNING,
        "The driver supports only an older major version of CUDA than torch was built with.",
        SAME_DRIVER,
    ),
    "script": FindingRule(
        Severity.ERROR,
        "The content of the script differs.",
        "copy the same files to all nodes (--sync=DIR does)",
    ),
    "files": FindingRule(
        Severity.WARNING,
        "Names or sizes of the `*.py` files below the working folder differ (at most 2,000 files).",
        "copy the same files to all nodes (--sync=DIR does)",
    ),
    "clock": FindingRule(
        Severity.WARNING,
        "The wall clock is off by more than 1 s, beyond the error of the measurement.",
        "synchronise the clock there (chronyd, ntpd)",
    ),
    "device-model": FindingRule(
        Severity.WARNING,
        "The devices are a different model.",
        "select nodes with the same devices (--include)",
    ),
    "device-count": FindingRule(
        Severity.WARNING,
        "Fewer devices than on most nodes; compared only if dsrun uses all devices.",
        "look for a failed device, or set --num_gpus",
    ),
    "device-problem": FindingRule(
        Severity.WARNING,
        "The driver reports a problem with a device.",
        "have the device checked, or leave it out (--exclude)",
    ),
    "device-users": FindingRule(
        Severity.WARNING,
        "Other processes use a device of the job.",
        "stop them, or choose other devices (--exclude)",
    ),
    "device-memory": FindingRule(
        Severity.WARNING,
        "Less than 80 % of a device's memory is free, and no process is known to use it.",
        "see what uses it, or choose other devices (--exclude)",
    ),
    "shm-full": FindingRule(
        Severity.ERROR,
        "Less than 1 MiB is free in /dev/shm, or it has no room for another file; collectives and"
        " data loaders need it.",
        ROOM,
    ),
    "space-low": FindingRule(
        Severity.WARNING,
        "Less than 1 GiB and less than 10 %, or fewer than 1,000 files, are left in a folder that"
        " the job may write to: the working, log or temporary folder.",
        ROOM,
    ),
    "shm": FindingRule(
        Severity.WARNING,
        "Less than 64 MiB per worker is free in /dev/shm.",
        "remove old files from it, or make it larger (in a container: --shm-size)",
    ),
    "tmp": FindingRule(
        Severity.WARNING,
        "The temporary folder is not writable.",
        "set TMPDIR to another folder",
    ),
    "nofile": FindingRule(
        Severity.WARNING,
        "The limit of open files is below 1,024, or below 4,096 and a quarter of most nodes'.",
        ULIMIT,
    ),
    "nproc": FindingRule(
        Severity.WARNING,
        "The process limit is below 1,024.",
        ULIMIT,
    ),
    "memlock": FindingRule(
        Severity.WARNING,
        "The limit of locked memory on a node with devices is below a quarter of most nodes'.",
        ULIMIT,
    ),
    "memory": FindingRule(
        Severity.WARNING,
        "The memory (of the machine, or the cgroup's limit) is less than half of most nodes', or"
        " the cgroup's limit leaves less than 256 MiB per worker.",
        "look for a limit set by the container or the scheduler",
    ),
    "cpus": FindingRule(
        Severity.WARNING,
        "The workers may use at most half as many CPUs as on most nodes.",
        "look for a limit set by the container or the scheduler",
    ),
    "mtu": FindingRule(
        Severity.WARNING,
        "The MTU of a network interface differs from that of the same interface on other nodes;"
        " interfaces of containers, virtual machines and tunnels are not compared.",
        "set the same MTU on all nodes and switches (ip link set INTERFACE mtu N)",
    ),
    "env": FindingRule(
        Severity.WARNING,
        "A variable that libraries read has a different value; variables that name local"
        " things (interfaces, cards, folders, device masks) are not compared.",
        "set the same value on all nodes (--export)",
    ),
}
"""Every kind of finding, by its code."""


def finding(code: str, nodes: Iterable[str], text: str) -> Finding:
    """Return a finding of the table."""
    rule = TABLE[code]
    return Finding(code, rule.severity, tuple(dict.fromkeys(nodes)), text, rule.advice)


def lines(found: Sequence[Finding]) -> list[str]:
    """Return a line for each finding, and one for the rest of a kind that has too many."""
    shown: dict[str, list[str]] = {}
    for one in found:
        shown.setdefault(one.code, []).append(line(one))
    return [text for code, texts in shown.items() for text in _shortened(code, texts)]


def line(one: Finding) -> str:
    """Return a finding as one line: nodes, fault, comparison and remedy."""
    return f"check: {some_of(one.nodes)}: {one.text}; {one.advice}"


def _shortened(code: str, texts: Sequence[str]) -> Sequence[str]:
    rest = len(texts) - MOST
    if rest <= 0:
        return texts
    return [*texts[:MOST], f"check: {rest} more findings of this kind ({code})"]
