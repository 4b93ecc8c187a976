"""Which vendor's devices this machine has, and which of them a process started here would see.

Only device files and the environment are read: torch and the vendors' libraries take seconds to
load, and may be missing where the launcher runs.
"""

import os
from collections.abc import Mapping
from importlib import import_module

from .base import Accelerator, choose, mask

__all__ = ["VENDORS", "choose", "detect", "mask", "prefixes", "visible"]

VENDORS = {
    "cuda": ".cuda",
    "cpu": ".cpu",
}
"""Where each vendor's ACCELERATOR is; the first whose devices are there is taken."""

# DS_ACCELERATOR is DeepSpeed's name for the same choice.
_OVERRIDES = ("DSRUN_ACCELERATOR", "DS_ACCELERATOR")

_NUMBER = "[0-9]*"
_NONE_VISIBLE = ("", "NoDevFiles")


def detect(environ: Mapping[str, str], root: str = "/") -> Accelerator:
    """The vendor that the environment names, else the first whose device files are below `root`.

    Raises:
        ValueError: DSRUN_ACCELERATOR or DS_ACCELERATOR names none that dsrun knows.
    """
    for variable in _OVERRIDES:
        if name := environ.get(variable):
            return _known(name, variable)
    for name in VENDORS:
        vendor = _load(name)
        if _count(vendor, root):
            return vendor
    return _load("cpu")


def visible(
    accelerator: Accelerator, environ: Mapping[str, str], root: str = "/"
) -> tuple[str, ...]:
    """What a process started here could see, in order: the mask's entries, else 0 to n-1.

    Entries stay the strings they are (`2`, `GPU-8932f937`, `MIG-...`). CUDA sees nothing from the
    first invalid entry on, and -1 is its customary one (CUDA programming guide, "CUDA Environment
    Variables"); `NoDevFiles` is Slurm's word for a job without devices.
    """
    if accelerator.visible_env is None:
        return ()
    text = environ.get(accelerator.visible_env)
    if text is None:
        return tuple(str(index) for index in range(_count(accelerator, root)))
    entries = [entry.strip() for entry in text.split(",")]
    ends = (at for at, entry in enumerate(entries) if _hides_the_rest(entry))
    return tuple(entries[: next(ends, None)])


def prefixes() -> tuple[str, ...]:
    """Names by prefix of the variables that some vendor's jobs need on every node.

    Of all vendors: the machine that a job is started from often has no devices itself.
    """
    return tuple({prefix for name in VENDORS for prefix in _load(name).env_prefixes})


def _hides_the_rest(entry: str) -> bool:
    return entry in _NONE_VISIBLE or entry.startswith("-")


def _known(name: str, variable: str) -> Accelerator:
    if name not in VENDORS:
        raise ValueError(f"{variable}: no accelerator '{name}' (known: {', '.join(VENDORS)})")
    return _load(name)


def _load(name: str) -> Accelerator:
    vendor: Accelerator = import_module(VENDORS[name], __package__).ACCELERATOR
    return vendor


def _count(accelerator: Accelerator, root: str) -> int:
    return sum(_count_files(root, files) for files in accelerator.device_files)


def _count_files(root: str, files: str) -> int:
    folder, stem = os.path.split(f"{root}/{files.removesuffix(_NUMBER)}")
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except OSError:
        return 0
    return sum(name.startswith(stem) and _is_number(name[len(stem) :]) for name in names)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
