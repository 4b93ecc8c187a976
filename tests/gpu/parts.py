"""The parts of `make gpu`: what each tries, and its time limit in seconds."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import verdicts
from .checks import Outcome, check, outcome, skipped
from .desk import NotSeen, OverLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .checks import Check
    from .desk import Desk

MIB = 1 << 20
HELD = 2048
"""MiB held by the worker whose use of the device is observed."""

HANG = 2
"""Seconds, `--hang_timeout`; a rank that seems to compute is named after three times that."""

LEFT = 0.4
"""Share of the device's memory held by a process outside the job."""

TOO_MUCH = 0.9
"""Share that a job requests in addition."""

SOON = 12.0
"""Seconds for the device to appear in the metrics, which are written every five."""

ALARM = 12.0 * HANG
"""Seconds for the hang watch to report, which it does after three times the timeout."""

READABLE = 6.0
"""Seconds for the ranks to reach the place where they wait, and to be read there."""

ONE = ("--num_gpus", "1")
HIDDEN = ("--accelerator", "cpu", "--num_gpus", "2")
"""Two workers that see the same devices: dsrun chooses none for workers of this kind."""


class Gpu(NamedTuple):
    """The device under test.

    Attributes:
        look: the output of `programs/look.py`.
        mask: the entry of `CUDA_VISIBLE_DEVICES` that stands for it.
    """

    look: Mapping[str, Any]
    mask: str

    @property
    def torch(self) -> Mapping[str, Any]:
        """Torch's facts about it."""
        known: Mapping[str, Any] = self.look["torch"]["devices"][0]
        return known

    @property
    def total(self) -> int:
        """Bytes of its memory."""
        return int(self.torch["total"])

    def lacks(self, package: str) -> bool:
        """Return whether a package of Python is not installed."""
        return not self.look["packages"].get(package)


class Part(NamedTuple):
    """A part of `make gpu`.

    Attributes:
        seconds: its time limit.
        tries: runs it, and yields the checks.
        by_nvml: whether it is skipped if NVML reports no GPU.
    """

    name: str
    seconds: float
    tries: Callable[[Desk, Gpu], Iterator[Check]]
    by_nvml: bool = False


def _detection(desk: Desk, gpu: Gpu) -> Iterator[Check]:
    node = desk.tool("dsrun-check", "--json").json["nodes"][0]
    ran = desk.job("device.py")
    yield from verdicts.detected(node, ran, len(gpu.look["torch"]["devices"]))


def _names(desk: Desk, gpu: Gpu) -> Iterator[Check]:
    facts = desk.tool("dsrun-check", "--json").json["nodes"][0]["facts"]["devices"]
    yield from verdicts.named(gpu.look, facts, desk.tool("dsrun-check").text)


def _masks(desk: Desk, gpu: Gpu) -> Iterator[Check]:
    uuid = gpu.torch["uuid"]
    masks = {"by index": gpu.mask, "by UUID": uuid, "by a shortened UUID": uuid[:12]}
    for how, mask in masks.items():
        if not mask:
            yield skipped(how, "this torch does not report the UUID")
            continue
        ran = desk.job(*ONE, "device.py", CUDA_VISIBLE_DEVICES=mask)
        yield from verdicts.sees_it(how, ran, uuid)
    if uuid:
        host = ("--host", f"localhost:{uuid[:12]}")
        ran = desk.job(*host, "device.py", CUDA_VISIBLE_DEVICES=uuid)
        yield from verdicts.sees_it("by a slot that is a shortened UUID", ran, uuid)
    wrong = desk.job("--include", "localhost:77", "device.py")
    yield from verdicts.refused("a slot that does not exist", wrong, "no slot 77 .visible: slot")
    none = desk.job("device.py", CUDA_VISIBLE_DEVICES="-1")
    yield from verdicts.refused("a mask that hides all devices", none, r"CUDA_VISIBLE_DEVICES=-1")
    past = desk.job(*ONE, "device.py", CUDA_VISIBLE_DEVICES="77")
    yield from verdicts.explained(past, "found no device that it can use", "node")
    second = desk.job(*ONE, "second.py", CUDA_VISIBLE_DEVICES=gpu.mask)
    yield from verdicts.explained(second, "uses a device that this rank does not have", "script")


def _numbers(desk: Desk, gpu: Gpu) -> Iterator[Check]:
    metrics = desk.folder / "metrics.prom"
    words = (*ONE, "--metrics_file", str(metrics), "busy.py", str(HELD))
    with desk.started_job(*words) as running:
        job = running.until(r"up (\S+)")[1]
        told = partial(verdicts.measured, held=HELD * MIB, total=gpu.total)
        desk.wait(lambda: outcome(told(text_of(metrics))) is Outcome.PASSED, SOON)
        if gpu.lacks("rich"):
            yield skipped("dsrun-job top shows the device", "rich is not installed")
        else:
            shown = desk.tool("dsrun-job", "top", job, "--json").json["jobs"][0]["used"][0]
            screen = desk.tool("dsrun-job", "top", job).text
            yield from verdicts.used(shown, screen, HELD * MIB, gpu.total)
        (facts, *_) = desk.tool("dsrun-check", "--json").json["nodes"][0]["facts"]["devices"]
        yield from verdicts.counted(facts, HELD * MIB, gpu.total)
        yield from told(text_of(metrics))


def text_of(file: Path) -> str:
    """Return the contents of a file, "" if there is none yet."""
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def _binding(desk: Desk, gpu: Gpu) -> Iterator[Check]:
    ran = desk.job(*ONE, "--bind_to", "numa", "--report_bindings", "device.py")
    (binding,) = ran.report["bindings"]
    yield from verdicts.bound(binding, ran.json, gpu.torch, _cpus_near(binding["address"]))


def _cpus_near(address: str) -> str | None:
    """Return the CPUs that the kernel calls local to a PCI device, None if unknown."""
    folder = Path(f"/sys/bus/pci/devices/{address}")
    known = address and text_of(folder / "numa_node").strip() not in {"", "-1"}
    return text_of(folder / "local_cpulist").strip() or None if known else None


def _nccl(desk: Desk, _: Gpu) -> Iterator[Check]:
    yield from verdicts.reduced(desk.job(*ONE, "collectives.py"))


def _recorder(desk: Desk, gpu: Gpu) -> Iterator[Check]:
    with desk.started_job(*ONE, "collectives.py", "wait") as running:
        job = running.until(r"up (\S+)")[1]
        stacks = _stacks(desk, job, lambda told: told["ranks"][0]["place"])
        yield from verdicts.recorded(stacks, py_spy=not gpu.lacks("py_spy"))


def _preload(desk: Desk, _: Gpu) -> Iterator[Check]:
    yield from verdicts.preloaded(desk.job(*ONE, "--preload", "torch", "device.py"))


def _stacks(
    desk: Desk, job: str, known: Callable[[Mapping[str, Any]], object]
) -> Mapping[str, Any]:
    """Return the stacks of a job, once they show enough, or after a few seconds.

    A new process cannot be read yet, and a rank may not have reached the place where it waits.
    """
    stacks: dict[str, Any] = {}

    def look() -> object:
        stacks.update(desk.tool("dsrun-job", "stacks", job, "--json").json)
        return known(stacks)

    desk.wait(look, READABLE)
    return stacks


def _hang(desk: Desk, gpu: Gpu) -> Iterator[Check]:
    with desk.started_job(*HIDDEN, "--hang_timeout", str(HANG), "spin.py") as running:
        job, alarm = running.until(r"up (\S+)")[1], ""
        stacks = _stacks(desk, job, lambda told: told["odd"] and told["ranks"][0]["place"])
        if stacks["ranks"][0]["place"]:
            desk.wait(lambda: "no progress for" in running.text, ALARM)
        if found := re.search(r"no progress for.*", running.text):
            alarm = found[0]
        ended = running.stop()
    yield from verdicts.hangs(stacks, alarm, ended, py_spy=not gpu.lacks("py_spy"))
    again = desk.job(*ONE, "device.py")
    yield from verdicts.free(again)


def _memory(desk: Desk, _: Gpu) -> Iterator[Check]:
    ran = desk.job(*ONE, "memory.py", "2")
    words = r"out of GPU memory on GPU 0: .* requested, .* of .* free"
    yield from verdicts.explained(ran, words, "memory")


def _access(desk: Desk, _: Gpu) -> Iterator[Check]:
    words = "a kernel on the device accessed memory that is not its own|Xid"
    yield from verdicts.explained(desk.job(*ONE, "access.py"), words, "unknown")


def _assertion(desk: Desk, _: Gpu) -> Iterator[Check]:
    words = "a check on the device failed"
    yield from verdicts.explained(desk.job(*ONE, "bounds.py"), words, "script")


def _shared(desk: Desk, _: Gpu) -> Iterator[Check]:
    ran = desk.job(*HIDDEN, "collectives.py")
    yield from verdicts.explained(ran, "two ranks use the same device", "script")
    more = desk.job("--num_gpus", "77", "device.py")
    yield from verdicts.refused("more workers than devices", more, "here: .*, workers: 77")


def _leftover(desk: Desk, _: Gpu) -> Iterator[Check]:
    with desk.started_program("hold.py", str(LEFT)) as holder:
        holder.until("holds")
        listed = [one["processes"] for one in desk.program("look.py").json["nvml"] or ()]
        checked = desk.tool("dsrun-check", "--json").json
        pids = [pid for some in listed for pid in some]
        yield from verdicts.holders(checked, holder.pid, pids)
        ran = desk.job(*ONE, "memory.py", str(TOO_MUCH))
    yield from verdicts.explained(ran, "out of GPU memory", "memory")


PARTS = (
    Part("detection", 30, _detection),
    Part("names", 20, _names),
    Part("masks", 60, _masks),
    Part("numbers", 40, _numbers, by_nvml=True),
    Part("binding", 20, _binding),
    Part("nccl", 30, _nccl),
    Part("flight recorder", 25, _recorder),
    Part("preload", 25, _preload),
    Part("hang", 55, _hang),
    Part("memory", 20, _memory),
    Part("illegal access", 20, _access),
    Part("device assert", 20, _assertion),
    Part("shared device", 30, _shared),
    Part("leftover", 35, _leftover),
)
"""In this order, the simplest first."""

WHOLE = 465.0
"""Seconds after which no command is started, so that the last one ends within 8 minutes."""


def tried(part: Part, desk: Desk, gpu: Gpu) -> list[Check]:
    """Return the checks of a part; any error in it becomes a failed check."""
    if part.by_nvml and not gpu.look["nvml"]:
        return [skipped(part.name, verdicts.without_nvml(gpu.look))]
    return gathered(part.tries(desk, gpu))


def gathered(checks: Iterator[Check]) -> list[Check]:
    """Return all checks: those before an exception, and a failed one for the exception."""
    found = []
    try:
        for one in checks:
            found.append(one)
    except (NotSeen, OverLimit) as error:
        found.append(check("it finishes in time, with the expected output", False, error))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        found.append(check("the output can be read", False, text))
    return found
