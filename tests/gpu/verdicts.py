"""Judge from the output of commands whether dsrun did its job. Pure.

Each function yields the checks of one subject. Fields that a machine does not report are skipped,
with the reason: containers and sandboxed kernels hide some of what a driver shows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .checks import check, same, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .checks import Check
    from .desk import Ran

    Fields = Mapping[str, Any]

NEAR = 0.1
"""Part of a device's memory by which two ways to measure its size may differ: torch leaves out what
the driver keeps for itself."""

WAITS = ("device", "code")
"""Kinds of a place in which a rank that waits for a kernel may be seen."""

STOPPED = 143
"""The exit code of a job that SIGTERM has ended."""


def near(what: str, seen: float, wanted: float) -> Check:
    """Return whether two sizes of one device's memory are about the same."""
    return check(what, abs(seen - wanted) <= NEAR * wanted, f"{seen:.0f} and {wanted:.0f} bytes")


def usable(look: Fields) -> Iterator[Check]:
    """Yield whether torch can use a device, which everything else needs."""
    why = look["errors"].get("torch", "")
    yield check("torch can use a device", look["torch"] is not None, why)
    if look["torch"] is not None:
        yield same("a kernel computes correctly", look["torch"]["sum"], 4.0)


def detected(node: Fields, ran: Ran, count: int) -> Iterator[Check]:
    """Yield whether dsrun finds the devices that torch finds, and starts a worker for each.

    Args:
        node: of `dsrun-check --json`.
        ran: a job without an option that says how many workers there are.
        count: how many devices torch has.
    """
    yield same("dsrun-check finds NVIDIA GPUs", node["accelerator"], "cuda")
    yield same("dsrun-check counts the devices that torch has", len(node["devices"]), count)
    yield same("a job starts a worker per device", ran.report.get("world_size"), count)
    yield same("the job succeeds", ran.code, 0)


def named(look: Fields, facts: Sequence[Fields], table: str) -> Iterator[Check]:
    """Yield whether names, UUIDs and sizes are the same by torch, NVML, /proc and dsrun-check.

    Args:
        look: what `programs/look.py` has printed.
        facts: the devices in the facts of `dsrun-check --json`.
        table: what `dsrun-check` has printed for people.
    """
    torch, nvml = look["torch"]["devices"][0], look["nvml"]
    if not nvml:
        yield skipped("NVML reports the name, the UUID and the memory", without_nvml(look))
    else:
        yield from _same_gpu("NVML", matching(torch, nvml), torch)
        yield near("NVML and torch agree on its memory", nvml[0]["total"] or 0, torch["total"])
    if not look["proc"]:
        yield skipped("/proc has the name and the UUID", "/proc/driver/nvidia/gpus is missing")
    else:
        yield from _same_gpu("/proc", matching(torch, look["proc"]), torch)
    if not nvml and not look["proc"]:
        yield skipped("dsrun-check names the devices", "neither NVML nor /proc lists them")
    else:
        yield same(
            "dsrun-check names the devices", [one["name"] for one in facts][:1], [torch["name"]]
        )
        short = torch["name"].removeprefix("NVIDIA ").split()[0]
        yield check("its table shows the model", short in table, f"{short} in {table[:400]!r}")


def without_nvml(look: Fields) -> str:
    """Return why NVML tells nothing, as with no module for it, or in a sandbox."""
    return f"NVML reports no GPU: {look['errors'].get('nvml', 'it lists none')}"


def matching(torch: Fields, told: Sequence[Fields]) -> Fields:
    """Return the GPU with the UUID that torch has for its first device, else the first."""
    return next((one for one in told if one["uuid"] and one["uuid"] == torch["uuid"]), told[0])


def _same_gpu(who: str, gpu: Fields, torch: Fields) -> Iterator[Check]:
    yield same(f"{who} and torch agree on the name", gpu["name"], torch["name"])
    for field in ("uuid", "address"):
        what = f"{who} and torch agree on the {field}"
        if not torch[field] or not gpu[field]:
            yield skipped(what, f"{'torch' if not torch[field] else who} does not report it here")
        else:
            yield same(what, gpu[field], torch[field])


def sees_it(how: str, ran: Ran, uuid: str) -> Iterator[Check]:
    """Yield whether the worker of a job with a mask saw one device, and the right one."""
    if ran.code != 0:
        yield check(f"{how}: the job succeeds", False, f"code {ran.code}: {ran.text[-300:]!r}")
        return
    seen = ran.json
    yield same(f"{how}: the worker sees one device", seen["devices"], 1)
    yield same(f"{how}: it is the intended device", seen["uuid"], uuid)
    yield same(f"{how}: a kernel computes correctly on it", seen["sum"], 4.0)


def refused(what: str, ran: Ran, words: str) -> Iterator[Check]:
    """Yield whether dsrun starts nothing, and says why."""
    yield same(f"{what}: nothing is started", ran.code, 69)
    yield check(f"{what}: dsrun says why", bool(re.search(words, ran.text)), ran.text[-300:])


def explained(ran: Ran, sentence: str, kind: str) -> Iterator[Check]:
    """Yield whether a job has failed, and dsrun has said why in the words that fit.

    Args:
        ran: the job.
        sentence: a regular expression for the sentence about the failure.
        kind: the class of the failure.
    """
    yield check("the job fails", ran.code not in {0, None}, f"code {ran.code}")
    verdict = ran.report.get("verdict") or {}
    told = verdict.get("sentence", "")
    seen = told or f"nothing; the output ends with {ran.text[-400:]!r}"
    yield check(f"dsrun says: {sentence}", bool(re.search(sentence, told)), seen)
    yield same("the failure is of the right class", verdict.get("class"), kind)


def counted(facts: Fields, held: int, total: int) -> Iterator[Check]:
    """Yield whether dsrun-check tells how much of the device's memory is free.

    Args:
        facts: of the device, in `dsrun-check --json`.
        held: bytes of it that a job holds.
        total: bytes of the device.
    """
    yield near("dsrun-check reports the size of the device", facts["total"], total)
    good = 0 < facts["free"] <= facts["total"] - held
    yield check("dsrun-check reports the free memory", good, f"{facts['free']} of {facts['total']}")


def used(usage: Fields, screen: str, held: int, total: int) -> Iterator[Check]:
    """Yield whether `dsrun-job top` tells how the device is used.

    Args:
        usage: of one host, as `dsrun-job top --json` has it.
        screen: its table for people.
        held: bytes that the job's worker holds of the device.
        total: bytes of the device.
    """
    devices = usage["devices"]
    yield check("top shows the device", bool(devices), devices)
    if not devices:
        return
    one = devices[0]
    yield near("top and torch agree on its memory", one["total"], total)
    yield check(
        "the memory that the job holds is in use", held <= one["used"] <= one["total"], one["used"]
    )
    if one["busy"] is None:
        yield skipped("a computing device is busy", "the driver does not report how busy it is")
    else:
        yield check("a computing device is busy", one["busy"] > 0, f"{one['busy']} %")
    yield check("the table shows the device", "DEVICE" in screen, screen[-600:])


def holders(checked: Fields, pid: int, listed: Sequence[int]) -> Iterator[Check]:
    """Yield whether dsrun-check says that another process holds the device's memory.

    Args:
        checked: what `dsrun-check --json` has printed.
        pid: the process, as it is known here.
        listed: the pids that NVML lists on the device.
    """
    texts = [*checked["errors"], *checked["warnings"]]
    about = [text for text in texts if re.search(r"devices? .*(in use by|only .* free)", text)]
    yield check("dsrun-check warns that the device is in use", bool(about), texts)
    what = "dsrun-check names the process that holds it"
    if not listed:
        yield skipped(what, "NVML lists no processes here, as in a container")
    elif pid not in listed:
        yield skipped(
            what, f"NVML lists {[*listed]}, which are not pids in this namespace: this is {pid}"
        )
    else:
        yield check(what, any(f"pid {pid}" in text for text in about), about)


def bound(binding: Fields, worker: Fields, look: Fields, near_cpus: str | None) -> Iterator[Check]:
    """Yield whether a worker is bound near its device.

    Args:
        binding: of the worker, in the report of its job.
        worker: what it has printed itself.
        look: what torch knows of the device.
        near_cpus: the CPUs of the device's NUMA node, None if the kernel does not tell it.
    """
    yield same("the worker has a device", binding["accelerator"], "cuda")
    cpus = sorted(numbers(binding["cpus"]))
    yield same("its CPUs are those that dsrun reports", worker["cpus"], cpus)
    what = "dsrun knows where the device is"
    if not binding["address"]:
        yield skipped(what, "/proc/driver/nvidia/gpus is missing, or does not show the order")
    elif not look["address"]:
        yield skipped(what, "this torch does not report the address")
    else:
        yield same(what, binding["address"], look["address"])
    what = "its CPUs are near the device"
    if near_cpus is None or binding["node"] is None:
        yield skipped(what, "the NUMA node of the device is unknown here")
    else:
        yield check(what, set(cpus) <= numbers(near_cpus), f"{binding['cpus']} of {near_cpus}")


def numbers(text: str) -> set[int]:
    """Return the numbers of a list such as `0-3,8`."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def reduced(ran: Ran) -> Iterator[Check]:
    """Yield whether collectives over NCCL have worked at world size 1."""
    yield same("the job succeeds", ran.code, 0)
    what = "all_reduce, broadcast and all_gather return the right values"
    yield check(what, "reduced 1024.0 gathered 1024.0" in ran.text, ran.text[-400:])


def recorded(stacks: Fields, *, py_spy: bool) -> Iterator[Check]:
    """Yield whether the stacks of a job have what torch's flight recorder has of NCCL.

    Args:
        stacks: what `dsrun-job stacks --json` has printed.
        py_spy: whether py-spy is installed.
    """
    (rank,) = stacks["ranks"]
    found = [(one["operation"], one["state"]) for one in rank["collectives"]]
    names = {operation for operation, _ in found}
    yield check("the flight recorder has an all_reduce", "all_reduce" in names, found)
    over = bool(found) and all(state == "completed" for _, state in found)
    yield check("the flight recorder has all collectives as completed", over, found)
    what = "the rank's own stack can be read"
    if rank["place"] is None and not py_spy:
        yield skipped(what, f"{UNREAD}: {_problem(rank)}")
    else:
        yield check(what, rank["place"] is not None, stacks["sentence"])


UNREAD = "py-spy is not installed, and the process could not write its own stack"


def _problem(rank: Fields) -> str:
    return "; ".join(one["problem"] for one in rank["processes"]) or rank["problem"]


def preloaded(ran: Ran) -> Iterator[Check]:
    """Yield whether a worker was forked after the import of torch, and can use the device."""
    why = re.search(r"(?:workers import torch|not preloaded).*", ran.text)
    yield check("torch was preloaded", why is None, why[0] if why else "")
    if ran.code != 0:
        yield check("the job succeeds", False, f"code {ran.code}: {ran.text[-400:]!r}")
        return
    yield same("the worker is a fork with torch imported", ran.json["preloaded"], True)
    yield same("a kernel computes correctly in the fork", ran.json["sum"], 4.0)


def hangs(stacks: Fields, alarm: str, ended: Ran, *, py_spy: bool) -> Iterator[Check]:
    """Yield whether dsrun says which rank waits for its device, and can end it.

    Args:
        stacks: of the job, while a kernel of rank 0 spins and rank 1 waits for rank 0.
        alarm: the line of the watch for hangs, "" if none has come.
        ended: the job, which got SIGTERM after that.
        py_spy: whether py-spy is installed.
    """
    first = next(one for one in stacks["ranks"] if one["rank"] == 0)
    yield same("stacks name the rank that the other one waits for", stacks["odd"], [0])
    whats = "stacks show the line that waits for the device", "the hang watch names this line"
    if first["place"] is None and not py_spy:
        # CUDA waits in a loop, and only a process that rests gets the signal to write its stack.
        yield from (skipped(what, f"{UNREAD}: {_problem(first)}") for what in whats)
    else:
        place = first["place"] or {"kind": "", "function": "", "where": ""}
        text = f"{place['kind']} {place['function']} {place['where']}"
        good = place["kind"] in WAITS and place["where"].startswith("spin.py:")
        yield check(whats[0], good, text)
        good = bool(re.search(r"rank 0 .*spin\.py:", alarm))
        yield check(whats[1], good, alarm or "it printed nothing")
    yield same("SIGTERM stops a job whose kernel spins", ended.code, STOPPED)


def measured(text: str, held: int, total: int) -> Iterator[Check]:
    """Yield whether the metrics of a job have the memory of the device."""
    sizes = {
        name: float(value)
        for name, value in re.findall(r"^dsrun_(device_\w+)\{[^}]*\} (\S+)$", text, re.MULTILINE)
    }
    seen = sizes or f"no line of a device in {text[-300:]!r}"
    in_use = sizes.get("device_memory_used_bytes", 0.0)
    yield check("metrics include the memory in use", held <= in_use <= 1.1 * total, seen)
    yield near(
        "metrics include the size of the device", sizes.get("device_memory_bytes", 0.0), total
    )


def free(ran: Ran) -> Iterator[Check]:
    """Yield whether the device can be used again after what was stopped on it."""
    yield same("the next job can use the device", ran.code, 0)
