"""Each verdict passes for what a good machine prints, and fails, by name, for what is wrong.

What was printed is that of the real commands with stand-ins, and NVML's and CUDA's own words.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from . import verdicts
from .checks import Check, Outcome
from .desk import Ran

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
TOTAL = 150_000_000_000
MIB = 1 << 20
DEVICE = {"name": "NVIDIA H200", "total": TOTAL, "uuid": UUID, "address": "0000:17:00.0"}
GPU = {**DEVICE, "processes": [], "driver": "580.159.03"}
LOOK: dict[str, Any] = {
    "torch": {"version": "2.11.0+cu130", "sum": 4.0, "devices": [DEVICE]},
    "nvml": [GPU],
    "proc": [{**GPU, "total": None}],
    "packages": {},
    "errors": {},
}
SEEN = {"devices": 1, "uuid": UUID, "sum": 4.0, "cpus": [0, 1, 2], "preloaded": True}


def ran(text: str = "", code: int | None = 0, **report: Any) -> Ran:
    """Return a command that printed this."""
    return Ran(("python", "bin/dsrun"), code, text, 1.0, report)


def printed(code: int = 0, **more: Any) -> Ran:
    """Return a job whose worker has printed what it sees."""
    return ran(f"warning: {{x}}\nlocalhost:0| {json.dumps({**SEEN, **more})}\n", code)


def changed(fields: dict[str, Any], *path: str | int, to: Any) -> dict[str, Any]:
    """Return fields in which one is another."""
    copied = copy.deepcopy(fields)
    inner: Any = copied
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = to
    return copied


NODE: dict[str, Any] = {"accelerator": "cuda", "devices": ["0"]}
STARTED = ran(world_size=1)
FACTS = [{"name": "NVIDIA H200"}]
TABLE = "NODE DEVICES\nlocalhost 1 x H200"
USAGE: dict[str, Any] = {"devices": [{"busy": 97, "used": 3000 * MIB, "total": TOTAL}]}
SCREEN = "HOST, RANK  STATE  DEVICE"
COUNTED = {"total": TOTAL, "free": TOTAL - 3000 * MIB}
CHECKED: dict[str, Any] = {"errors": [], "warnings": ["localhost: device 0 in use by pid 7 (root)"]}
FULL: dict[str, Any] = {"errors": [], "warnings": ["localhost: device 0 with only 80 GiB free"]}
BINDING = {"accelerator": "cuda", "cpus": "0-2", "address": "0000:17:00.0", "node": 0}
RECORDED: dict[str, Any] = {
    "sentence": "rank 0 waits for a signal",
    "ranks": [
        {
            "rank": 0,
            "problem": "",
            "place": {"kind": "signal", "function": "<module>", "where": "collectives.py:25"},
            "processes": [{"problem": ""}],
            "collectives": [
                {"operation": "all_reduce", "state": "completed"},
                {"operation": "barrier", "state": "completed"},
            ],
        }
    ],
}
UNREAD = changed(RECORDED, "ranks", 0, "place", to=None)
PLACE = {"kind": "device", "function": "spin", "where": "spin.py:19"}
HUNG: dict[str, Any] = {
    "odd": [0],
    "ranks": [
        {"rank": 1, "place": None, "problem": "", "processes": []},
        {"rank": 0, "place": PLACE, "problem": "", "processes": [{"problem": "no py-spy"}]},
    ],
}
HUNG_UNREAD = changed(HUNG, "ranks", 1, "place", to=None)
ALARM = "no progress for 6 s: rank 1 waits in all_reduce (spin.py:28); rank 0 (localhost) waits for"
ALARM += " the device in spin (spin.py:19), before collective 2"
METRICS = (
    'dsrun_device_memory_used_bytes{job_id="j",host="h",device="0",uuid="x"} 3145728000.0\n'
    f'dsrun_device_memory_bytes{{job_id="j",host="h",device="0",uuid="x"}} {TOTAL}.0\n'
)
OOM = "out of GPU memory on GPU 0: 279.40 GiB requested, 139.0 GiB of 139.7 GiB free"
WORDS = r"out of GPU memory on GPU 0: .* requested"


def failure(sentence: str = OOM, kind: str = "memory", code: int | None = 1) -> Ran:
    return ran("", code, verdict={"sentence": sentence, "class": kind})


Call = tuple["Callable[..., Iterator[Check]]", tuple[Any, ...]]

GOOD: dict[str, Call] = {
    "usable": (verdicts.usable, (LOOK,)),
    "detected": (verdicts.detected, (NODE, STARTED, 1)),
    "named": (verdicts.named, (LOOK, FACTS, TABLE)),
    "sees it": (verdicts.sees_it, ("by index", printed(), UUID)),
    "refused": (
        verdicts.refused,
        ("a slot", ran("no slot 77 (visible: slot 0)", 69), "no slot 77"),
    ),
    "explained": (verdicts.explained, (failure(), WORDS, "memory")),
    "used": (verdicts.used, (USAGE, SCREEN, 2048 * MIB, TOTAL)),
    "counted": (verdicts.counted, (COUNTED, 2048 * MIB, TOTAL)),
    "holders": (verdicts.holders, (CHECKED, 7, [7])),
    "bound": (verdicts.bound, (BINDING, SEEN, DEVICE, "0-7")),
    "reduced": (verdicts.reduced, (ran("reduced 1024.0 gathered 1024.0"),)),
    "recorded": (verdicts.recorded, (RECORDED,)),
    "preloaded": (verdicts.preloaded, (printed(),)),
    "hangs": (verdicts.hangs, (HUNG, ALARM, ran(code=143))),
    "measured": (verdicts.measured, (METRICS, 2048 * MIB, TOTAL)),
    "free": (verdicts.free, (ran(),)),
}
"""What is printed where all is well."""

BAD: list[tuple[str, int, Any, str]] = [
    (
        "usable",
        0,
        {**LOOK, "torch": None, "errors": {"torch": "no driver"}},
        "torch can use a device",
    ),
    ("usable", 0, changed(LOOK, "torch", "sum", to=3.0), "a kernel computes"),
    ("detected", 0, {**NODE, "accelerator": "cpu"}, "finds NVIDIA GPUs"),
    ("detected", 2, 2, "counts the devices"),
    ("detected", 1, ran(world_size=3), "a worker per device"),
    ("detected", 1, ran(code=1, world_size=1), "succeeds"),
    ("named", 0, changed(LOOK, "nvml", 0, "name", to="K80"), "NVML and torch agree on the name"),
    (
        "named",
        0,
        changed(LOOK, "nvml", 0, "address", to="x"),
        "NVML and torch agree on the address",
    ),
    ("named", 0, changed(LOOK, "nvml", 0, "total", to=1), "agree on its memory"),
    ("named", 0, changed(LOOK, "proc", 0, "uuid", to="GPU-2"), "/proc and torch agree on the uuid"),
    ("named", 1, [], "names the devices"),
    ("named", 2, "1 x K80", "its table"),
    ("sees it", 1, printed(devices=2), "sees one device"),
    ("sees it", 1, printed(uuid="GPU-2"), "the intended device"),
    ("sees it", 1, printed(sum=0), "a kernel computes"),
    ("sees it", 1, printed(code=1), "the job succeeds"),
    ("refused", 1, ran("no slot 77", 0), "nothing is started"),
    ("refused", 1, ran("Traceback", 69), "says why"),
    ("explained", 0, failure(code=0), "the job fails"),
    ("explained", 0, failure(code=None), "the job fails"),
    ("explained", 0, failure("something else"), "dsrun says"),
    ("explained", 0, failure(kind="unknown"), "right class"),
    ("explained", 0, ran("CUDA error", 1, verdict=None), "dsrun says"),
    ("used", 0, {"devices": []}, "top shows the device"),
    ("used", 0, changed(USAGE, "devices", 0, "total", to=1), "agree on its memory"),
    ("used", 0, changed(USAGE, "devices", 0, "used", to=0), "is in use"),
    ("used", 0, changed(USAGE, "devices", 0, "busy", to=0), "is busy"),
    ("used", 1, "HOST, RANK", "the table"),
    ("counted", 0, {"total": 0, "free": 0}, "the size"),
    ("counted", 0, {"total": TOTAL, "free": TOTAL}, "the free memory"),
    ("holders", 0, {"errors": [], "warnings": []}, "warns"),
    ("holders", 0, FULL, "names the process"),
    ("bound", 0, {**BINDING, "accelerator": "cpu"}, "has a device"),
    ("bound", 0, {**BINDING, "cpus": "0-1"}, "that dsrun reports"),
    ("bound", 0, {**BINDING, "address": "0000:99:00.0"}, "where the device is"),
    ("bound", 3, "0-1", "near the device"),
    ("reduced", 0, ran("reduced 2048.0 gathered 1024.0"), "right values"),
    ("reduced", 0, ran("reduced 1024.0 gathered 1024.0", 1), "succeeds"),
    ("recorded", 0, changed(RECORDED, "ranks", 0, "collectives", to=[]), "has an all_reduce"),
    (
        *("recorded", 0),
        changed(RECORDED, "ranks", 0, "collectives", 1, "state", to="started"),
        "collectives as completed",
    ),
    ("recorded", 0, UNREAD, "own stack"),
    (
        "preloaded",
        0,
        ran(f"workers import torch themselves: why\n{printed().text}"),
        "was preloaded",
    ),
    ("preloaded", 0, printed(preloaded=False), "a fork"),
    ("preloaded", 0, printed(sum=1.0), "computes correctly in the fork"),
    ("preloaded", 0, printed(code=1), "succeeds"),
    ("hangs", 0, {**HUNG, "odd": []}, "name the rank"),
    ("hangs", 0, HUNG_UNREAD, "show the line"),
    ("hangs", 0, changed(HUNG, "ranks", 1, "place", "kind", to="sleep"), "show the line"),
    ("hangs", 1, "", "the hang watch"),
    ("hangs", 2, ran(code=None), "SIGTERM"),
    ("measured", 0, "", "the memory in use"),
    ("measured", 1, 4000 * MIB, "the memory in use"),
    ("measured", 2, TOTAL // 2, "the size"),
    ("free", 0, ran(code=1), "can use the device"),
]
"""Which argument of a verdict is another one, what it is, and the check that has to fail."""

UNKNOWN: list[tuple[str, int, Any, str]] = [
    ("named", 0, {**LOOK, "nvml": [], "errors": {"nvml": "no pynvml"}}, "no pynvml"),
    ("named", 0, {**LOOK, "proc": []}, "/proc/driver/nvidia/gpus"),
    ("named", 0, {**LOOK, "proc": [], "nvml": []}, "neither NVML nor /proc"),
    ("named", 0, changed(LOOK, "torch", "devices", 0, "address", to=""), "torch does not report"),
    ("used", 0, changed(USAGE, "devices", 0, "busy", to=None), "how busy"),
    ("holders", 2, [], "lists no processes"),
    ("holders", 2, [4711], "not pids in this namespace"),
    ("bound", 0, {**BINDING, "address": ""}, "/proc/driver/nvidia/gpus"),
    ("bound", 2, {**DEVICE, "address": ""}, "does not report the address"),
    ("bound", 3, None, "NUMA node"),
    ("bound", 0, {**BINDING, "node": None}, "NUMA node"),
]
"""What a machine may hide, and a word of the reason why checks are skipped then."""

BY_PY_SPY = {"recorded", "hangs"}


def checks(name: str, at: int = -1, value: Any = None, *, py_spy: bool = True) -> list[Check]:
    """Return what comes of a verdict with one argument replaced."""
    judge, arguments = GOOD[name]
    given = (value if place == at else one for place, one in enumerate(arguments))
    more = {"py_spy": py_spy} if name in BY_PY_SPY else {}
    return list(judge(*given, **more))


@pytest.mark.parametrize("name", GOOD)
def test_all_passes_where_all_is_well(name: str) -> None:
    found = checks(name)
    assert found
    assert [one for one in found if one.outcome is not Outcome.PASSED] == []


@pytest.mark.parametrize(("name", "at", "value", "words"), BAD)
def test_what_is_wrong_fails_by_name(name: str, at: int, value: Any, words: str) -> None:
    failed = [one for one in checks(name, at, value) if one.outcome is Outcome.FAILED]
    assert any(words in one.what for one in failed), failed


@pytest.mark.parametrize(("name", "at", "value", "words"), UNKNOWN)
def test_what_is_hidden_is_skipped_with_the_reason(
    name: str, at: int, value: Any, words: str
) -> None:
    found = checks(name, at, value)
    assert [one for one in found if one.outcome is Outcome.FAILED] == []
    assert any(words in one.seen for one in found if one.outcome is Outcome.SKIPPED), found


@pytest.mark.parametrize(("name", "unread"), [("recorded", UNREAD), ("hangs", HUNG_UNREAD)])
def test_without_py_spy_a_stack_that_is_not_read_is_skipped(name: str, unread: Any) -> None:
    found = checks(name, 0, unread, py_spy=False)
    assert {one.outcome for one in found} == {Outcome.PASSED, Outcome.SKIPPED}
    assert all("py-spy" in one.seen for one in found if one.outcome is Outcome.SKIPPED)


def test_every_verdict_is_shown_to_fail() -> None:
    assert {name for name, *_ in BAD} == GOOD.keys()
    assert {judge for judge, _ in GOOD.values()} == {
        one
        for name, one in vars(verdicts).items()
        if getattr(one, "__module__", "") == verdicts.__name__
        and one.__annotations__["return"] == "Iterator[Check]"
        and not name.startswith("_")
    }


def test_numbers_of_a_list() -> None:
    assert verdicts.numbers("0-2,8\n") == {0, 1, 2, 8}
    assert verdicts.numbers("") == set()
