"""Which vendor's devices this machine has, and which of them a process started here would see.

Only device files and the environment are read: torch and the vendors' libraries take seconds to
load, and may be missing where the launcher runs.
"""

from __future__ import annotations

import os

from .hardware import present
from .vendors.base import choose, mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .vendors.base import Accelerator

__all__ = [
    "OVERRIDES",
    "VENDORS",
    "choose",
    "detect",
    "known",
    "locate",
    "mask",
    "masks",
    "named",
    "prefixes",
    "visible",
]

VENDORS: dict[str, tuple[str, ...]] = {
    "cuda": ("nvidia",),
    "rocm": ("kfd",),
    "xpu": ("dri",),
    "npu": ("davinci",),
    "hpu": ("accel", "hl"),
    "mlu": ("cambricon_dev",),
    "musa": ("mtgpu",),
    "sdaa": ("tcaicard",),
    "neuron": ("neuron",),
    "tpu": ("accel", "vfio"),
    "mps": (),
    "cpu": (),
}
"""Each vendor's module, and prefixes of names in /dev; without such a name it is not loaded.

The first vendor whose devices are present is chosen.
"""

# DS_ACCELERATOR is DeepSpeed's variable, with torch's names for devices: `cuda` for AMD as well.
OVERRIDES = ("DSRUN_ACCELERATOR", "DS_ACCELERATOR")
"""Variables that name the vendor; the first takes precedence."""

_NONE_VISIBLE = ("", "NoDevFiles")


def detect(environ: Mapping[str, str], root: str = "/") -> Accelerator:
    """Return the vendor that the environment names, else the first whose devices are below `root`.

    Raises:
        ValueError: DSRUN_ACCELERATOR or DS_ACCELERATOR names a vendor that dsrun does not know.
    """
    ours, deepspeeds = OVERRIDES
    if name := environ.get(ours):
        return known(name, ours)
    if name := environ.get(deepspeeds):
        matching = (vendor for vendor in _present(root) if vendor.torch_device == name)
        return next(matching, None) or known(name, deepspeeds)
    return next(_present(root), None) or _load("cpu")


def known(name: str, variable: str) -> Accelerator:
    """Return the vendor of this name, which is the value of `variable`.

    Raises:
        ValueError: dsrun does not know it.
    """
    if name not in VENDORS:
        raise ValueError(f"{variable}: no accelerator '{name}' (known: {', '.join(VENDORS)})")
    return _load(name)


def named(name: str | None, option: str) -> dict[str, str]:
    """Return the variable that makes `detect` choose this vendor, the value of `option`, if any.

    Raises:
        ValueError: dsrun does not know it.
    """
    if not name:
        return {}
    known(name, option)
    return {OVERRIDES[0]: name}


def visible(
    accelerator: Accelerator, environ: Mapping[str, str], root: str = "/"
) -> tuple[str, ...]:
    """Return what a process started here would see, in order: the mask's entries, else all devices.

    Entries are kept as written (`2`, `0.1`, `GPU-8932f937`, `MIG-...`). CUDA and HIP ignore
    everything from the first invalid entry on, usually -1 (CUDA programming guide, "CUDA
    Environment Variables"). Slurm writes `NoDevFiles` for a job without devices.
    """
    outer = _outer(accelerator, environ)
    inner = _first_set(accelerator.visible_env, environ)
    # Slurm writes its choice to every vendor's variable unless gres.conf's Flags name one: the same
    # value in both masks is one choice.
    if inner is None or inner == _first_set(accelerator.outer_env, environ):
        if outer is not None:
            return tuple(str(index) for index in range(len(outer)))
        return present.names(accelerator, environ, root)
    entries = _entries(accelerator, inner)
    return entries if outer is None else _until(entries, lambda entry: _is_past(entry, outer))


def masks(accelerator: Accelerator, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the masks in effect, the outer one last."""
    groups = (accelerator.visible_env, accelerator.outer_env)
    names = (next((name for name in group if name in environ), None) for group in groups)
    return {name: environ[name] for name in names if name}


def locate(
    accelerator: Accelerator,
    entries: Sequence[str],
    environ: Mapping[str, str],
    root: str = "/",
) -> dict[str, str]:
    """Return the PCI address of each entry for which it is known; no vendor's library is used."""
    from .hardware.locate import locate as addresses

    return addresses(accelerator, entries, _outer(accelerator, environ), environ, root)


def prefixes() -> tuple[str, ...]:
    """Return the name prefixes of the variables that a vendor's jobs need on every node.

    These are of all vendors: the machine that starts a job often has no devices itself.
    """
    return tuple({prefix for name in VENDORS for prefix in _load(name).env_prefixes})


def _present(root: str) -> Iterator[Accelerator]:
    try:
        files = os.listdir(os.path.join(root, "dev"))
    except OSError:
        files = []
    for name, signs in VENDORS.items():
        if any(file.startswith(signs) for file in files):
            vendor = _load(name)
            if present.devices(vendor, root):
                yield vendor


def _first_set(variables: Sequence[str], environ: Mapping[str, str]) -> str | None:
    return next((environ[name] for name in variables if name in environ), None)


def _outer(accelerator: Accelerator, environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the entries of the outer mask, None without one."""
    text = _first_set(accelerator.outer_env, environ)
    return None if text is None else _entries(accelerator, text)


def _entries(accelerator: Accelerator, text: str) -> tuple[str, ...]:
    entries = [entry.strip() for entry in text.split(",")]
    if accelerator.ranges:
        entries = [number for entry in entries for number in _range(entry)]
    return _until(entries, _hides_the_rest)


def _until(entries: Sequence[str], ends: Callable[[str], bool]) -> tuple[str, ...]:
    at = next((at for at, entry in enumerate(entries) if ends(entry)), None)
    return tuple(entries[:at])


def _hides_the_rest(entry: str) -> bool:
    return entry in _NONE_VISIBLE or entry.startswith("-")


def _is_past(entry: str, outer: Sequence[str]) -> bool:
    return entry.isdigit() and int(entry) >= len(outer)


def _range(entry: str) -> Sequence[str]:
    """Return the numbers of a range such as `0-3`; any other entry is kept."""
    first, _, last = entry.partition("-")
    if not (first.isdigit() and last.isdigit() and len(last) < 5):
        return (entry,)
    return [str(number) for number in range(int(first), int(last) + 1)]


def _load(name: str) -> Accelerator:
    from importlib import import_module

    vendor: Accelerator = import_module(f".vendors.{name}", __package__).ACCELERATOR
    return vendor
