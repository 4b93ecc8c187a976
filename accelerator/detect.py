"""The vendor of this machine's devices, and the devices that a process started here would see.

Only device files and the environment are read: torch and the vendors' libraries take seconds to
load, and may be missing where the launcher runs.
"""

from __future__ import annotations

import os

from .hardware import present
from .vendors import OVERRIDES, VENDORS, known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .vendors import Accelerator

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
    return next(_present(root), None) or VENDORS["cpu"]


def visible(
    accelerator: Accelerator, environ: Mapping[str, str], root: str = "/"
) -> tuple[str, ...]:
    """Return the devices visible to a process here, in order: the mask's entries, else all devices.

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
    """Return the PCI address of each entry, if known; no vendor's library is used."""
    from .hardware.locate import locate as addresses

    return addresses(accelerator, entries, _outer(accelerator, environ), environ, root)


def _present(root: str) -> Iterator[Accelerator]:
    try:
        files = os.listdir(os.path.join(root, "dev"))
    except OSError:
        files = []
    for vendor in VENDORS.values():
        if any(file.startswith(vendor.in_dev) for file in files) and present.devices(vendor, root):
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


def choose(slots: Sequence[int | str], visible: Sequence[str]) -> tuple[str, ...]:
    """Return the entries of `visible` that the slots mean.

    Slots are positions in `visible`. If any slot is not a position, all of them are read as names
    instead: an entry's text, or the beginning of one UUID, as CUDA itself allows (CUDA programming
    guide, "CUDA Environment Variables").

    Raises:
        ValueError: a slot is neither, matches several entries, or means a device already taken.
    """
    names = [str(slot) for slot in slots]
    positions = {str(index): entry for index, entry in enumerate(visible)}
    if all(name in positions for name in names):
        chosen = [positions[name] for name in names]
    else:
        _refuse_strangers(names, positions)
        chosen = [_named(name, visible)[0] for name in names]
    _refuse_twins(names, chosen)
    return tuple(chosen)


def _named(name: str, visible: Sequence[str]) -> list[str]:
    """Return the entries that match a name: itself, or those that begin with a shortened UUID."""
    if name in visible:
        return [name]
    return [entry for entry in visible if "-" in name and entry.startswith(name)]


def _refuse_strangers(names: Sequence[str], positions: dict[str, str]) -> None:
    visible = list(positions.values())
    fits = {name: _named(name, visible) for name in names}
    # 0 to n-1 may come from a count, which names no devices.
    counted = names == [str(index) for index in range(len(names))]
    strangers = [name for name in names if counted or not fits[name]]
    unknown = [name for name in strangers if name not in positions]
    if unknown:
        raise ValueError(f"no slot {', '.join(unknown)} (visible: {_listing(visible)})")
    if strangers:
        raise ValueError(
            f"slots {', '.join(names)}: use either positions or device names, not both"
            f" (visible: {_listing(visible)})"
        )
    for name, entries in fits.items():
        if len(entries) > 1:
            raise ValueError(f"slot {name} matches {' and '.join(entries)}: give more of its UUID")


def _refuse_twins(names: Sequence[str], chosen: Sequence[str]) -> None:
    taken: dict[str, str] = {}
    for name, entry in zip(names, chosen, strict=True):
        if entry in taken:
            raise ValueError(f"slots {taken[entry]} and {name} are the same device, {entry}")
        taken[entry] = name


def _listing(visible: Sequence[str]) -> str:
    if not visible:
        return "none"
    slots = "slot 0" if len(visible) == 1 else f"slots 0-{len(visible) - 1}"
    if list(visible) == [str(index) for index in range(len(visible))]:
        return slots
    return f"{slots} = {', '.join(visible)}"
