"""The step of the full check that tests each node alone: cores, memory, disks and devices.

All nodes are tested at once. Suspicious values are measured again, while the other nodes wait, in
turn with a node without any; only values that are low each time are reported.
"""

from __future__ import annotations

from functools import partial

from ...common.text import plain
from . import runner_device_tests as device_tests
from .measurements import Broken, Measure, Measured, Measurements
from .runner_steps import MeasuredFault, Step, StepRequest, StepResult, answered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from typing import TypeAlias

    from .json_types import DevicesJson
    from .runner_device_tests import Compared
    from .runner_steps import Answers, Script

    Rows: TypeAlias = dict[str, list[Measured]]
    Asking: TypeAlias = Generator[StepRequest, Answers, Rows]

SECONDS = 0.5
"""The seconds of each test of cores, memory or a device."""

LONGEST = {"cpu": 20.0, "memory": 20.0, "disk": 60.0, "device": 120.0}
"""Each test, in their order, and the seconds after which a node has not answered."""

TIMES = 4
"""The number of times that a suspicious value must be low."""

MOST = 8
"""Turns in which suspicious nodes are measured again; if there are more, several share one."""


def step(workdir: str = "", python: str = "") -> Step:
    """Return the step; the arguments are as in `Measure`."""
    return Step("devices", "device", partial(_script, Measure((), SECONDS, workdir, python)))


def _script(measure: Measure, names: Sequence[str]) -> Script:
    tests = _Tests(measure)
    found: Rows = {name: [] for name in names}
    for test in LONGEST:
        for name, rows in (yield from tests.ask([test], names)).items():
            found[name] += rows
    suspects = device_tests.suspects(found)
    named: list[Compared] = []
    for turn in _turns([*suspects]):
        named += yield from _again(tests, {name: suspects[name] for name in turn}, found)
    faults = [*tests.broken_devices(), *device_tests.faults(named)]
    measured: DevicesJson = {"values": device_tests.as_json(found)}
    return StepResult(tuple(faults), measured, tuple(tests.notes))


def _turns(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[at::MOST] for at in range(min(MOST, len(names)))]


def _again(
    tests: _Tests, suspects: Mapping[str, Sequence[Compared]], found: Rows
) -> Generator[StepRequest, Answers, list[Compared]]:
    """Measure suspects and another node in turn, until each value was good or `TIMES` are over."""
    reference = _reference(suspects, found)
    wanted = _programs(suspects)
    own: dict[str, list[list[Measured]]] = {name: [] for name in suspects}
    others: list[list[Measured]] = []
    named: list[Compared] = []
    for _ in range(TIMES):
        for name, rows in (yield from tests.ask(wanted, [*suspects], "again")).items():
            own[name].append(rows)
        others += (yield from tests.ask(wanted, [reference], "again")).values()
        named = [
            one
            for name, some in suspects.items()
            for one in device_tests.confirmed(some, own[name], others)
        ]
        if not named:
            break
    return named


def _programs(suspects: Mapping[str, Sequence[Compared]]) -> list[str]:
    wanted = {
        device_tests.TESTS[one.place[0]].program for some in suspects.values() for one in some
    }
    return [test for test in LONGEST if test in wanted]


def _reference(suspects: Mapping[str, Sequence[Compared]], found: Rows) -> str:
    """Return the node to compare with: the middle one of those that are not suspicious.

    On one node with several devices it is the node itself.
    """
    test, part = next(iter(suspects.values()))[0].place
    values = {
        name: row.value
        for name, rows in found.items()
        for row in rows
        if row.test == test and (row.part == part or part.startswith(device_tests.POOLED))
    }
    good = sorted((name for name in values if name not in suspects), key=lambda one: values[one])
    return good[len(good) // 2] if good else max(values, key=lambda one: values[one])


class _Tests:
    """Asks nodes to make tests, and collects what could not be measured.

    Attributes:
        notes: a line for each node and test without a result.
    """

    def __init__(self, measure: Measure) -> None:
        self.notes: list[str] = []
        self._measure = measure
        self._broken: dict[tuple[str, str], str] = {}

    def ask(self, tests: Sequence[str], names: Sequence[str], doing: str = "") -> Asking:
        """Return the rows of each node that has answered."""
        request = self._measure._replace(tests=tuple(tests))
        seconds = sum(LONGEST[test] for test in tests)
        words = " ".join((*tests, doing)).strip()
        requests = dict.fromkeys(names, request)
        answers = yield StepRequest("measure", requests, Measurements, seconds, words)
        good, failed = answered(answers, Measurements)
        self.notes += [f"{name}: {words}: {why}" for name, why in failed.items()]
        for name, one in good.items():
            self._note(name, one.broken)
        return {name: list(one.rows) for name, one in good.items()}

    def _note(self, name: str, broken: Sequence[Broken]) -> None:
        for part, text in broken:
            if (name, part) not in self._broken:
                self._broken[name, part] = plain(text)
                if not part.startswith(device_tests.POOLED):
                    self.notes.append(f"{name}: {plain(part)}: {plain(text)}")

    def broken_devices(self) -> list[MeasuredFault]:
        """Return a fault for each device that does not work."""
        advice = "look for driver errors (dmesg, nvidia-smi -q), and reset or replace it"
        return [
            MeasuredFault("broken_device", (name,), f"{plain(part)}: {text}", advice)
            for (name, part), text in self._broken.items()
            if part.startswith(device_tests.POOLED)
        ]
