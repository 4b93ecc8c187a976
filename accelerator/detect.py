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
"""Each vendor's module, and how a name in /dev begins without which there is no need to load it.

The first whose devices are there is taken.
"""

# DS_ACCELERATOR is DeepSpeed's, which takes torch's names for devices: `cuda` for AMD, too.
OVERRIDES = ("DSRUN_ACCELERATOR", "DS_ACCELERATOR")
"""Variables that name the vendor, the first that is set before the other."""

_NONE_VISIBLE = ("", "NoDevFiles")


def detect(environ: Mapping[str, str], root: str = "/") -> Accelerator:
    """The vendor that the environment names, else the first whose devices are below `root`.

    Raises:
        ValueError: DSRUN_ACCELERATOR or DS_ACCELERATOR names none that dsrun knows.
    """
    ours, deepspeeds = OVERRIDES
    if name := environ.get(ours):
        return known(name, ours)
    if name := environ.get(deepspeeds):
        found = (vendor for vendor in _present(root) if vendor.torch_device == name)
        return next(found, None) or known(name, deepspeeds)
    return next(_present(root), None) or _load("cpu")


def known(name: str, variable: str) -> Accelerator:
    """The vendor of this name, which `variable` has asked for.

    Raises:
        ValueError: dsrun knows none.
    """
    if name not in VENDORS:
        raise ValueError(f"{variable}: no accelerator '{name}' (known: {', '.join(VENDORS)})")
    return _load(name)


def named(name: str | None, option: str) -> dict[str, str]:
    """The variable that names this vendor to `detect`, as `option` asks; {} where it asks for none.

    Raises:
        ValueError: dsrun knows none of this name.
    """
    if not name:
        return {}
    known(name, option)
    return {OVERRIDES[0]: name}


def visible(
    accelerator: Accelerator, environ: Mapping[str, str], root: str = "/"
) -> tuple[str, ...]:
    """What a process started here could see, in order: the mask's entries, else all there are.

    Entries stay the strings they are (`2`, `0.1`, `GPU-8932f937`, `MIG-...`). CUDA and HIP see
    nothing from the first invalid entry on, and -1 is the customary one (CUDA programming guide,
    "CUDA Environment Variables"); `NoDevFiles` is Slurm's word for a job without devices.
    """
    outer = _outer(accelerator, environ)
    inner = _first_set(accelerator.visible_env, environ)
    # Slurm writes its choice to every vendor's variable unless gres.conf's Flags say which one:
    # what is written twice was chosen once.
    if inner is None or inner == _first_set(accelerator.outer_env, environ):
        if outer is not None:
            return tuple(str(index) for index in range(len(outer)))
        return present.names(accelerator, environ, root)
    entries = _entries(accelerator, inner)
    return entries if outer is None else _until(entries, lambda entry: _is_past(entry, outer))


def masks(accelerator: Accelerator, environ: Mapping[str, str]) -> dict[str, str]:
    """The masks that are in force, the outer one last."""
    groups = (accelerator.visible_env, accelerator.outer_env)
    names = (next((name for name in group if name in environ), None) for group in groups)
    return {name: environ[name] for name in names if name}


def locate(
    accelerator: Accelerator,
    entries: Sequence[str],
    environ: Mapping[str, str],
    root: str = "/",
) -> dict[str, str]:
    """The PCI address of each entry, as far as it is known; no vendor's library is asked."""
    from .hardware.locate import locate as addresses

    return addresses(accelerator, entries, _outer(accelerator, environ), environ, root)


def prefixes() -> tuple[str, ...]:
    """Names by prefix of the variables that some vendor's jobs need on every node.

    Of all vendors: the machine that a job is started from often has no devices itself.
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
    """The entries of the outer mask, None without one."""
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
    """`0-3` as the numbers it means; what is no range stays."""
    first, _, last = entry.partition("-")
    if not (first.isdigit() and last.isdigit() and len(last) < 5):
        return (entry,)
    return [str(number) for number in range(int(first), int(last) + 1)]


def _load(name: str) -> Accelerator:
    from importlib import import_module

    vendor: Accelerator = import_module(f".vendors.{name}", __package__).ACCELERATOR
    return vendor
