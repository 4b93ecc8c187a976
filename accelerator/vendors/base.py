"""What the launcher knows about a device vendor, and how slots become its devices."""

from collections.abc import Mapping, Sequence

NUMBER = "[0-9]*"
"""Stands for the number of a device in a path."""


class Files:
    """Device files, one for each device.

    Attributes:
        path: their path below `/`, with NUMBER once: a number up to the end of the name, so that
            `nvidiactl` is not a device.
        holds: if they are folders, a file in each that must hold a number other than 0; the kernel
            hides the number of a device that this process may not use.
        device: the path that leads to a device's PCI function, with NUMBER for the number: a link
            to it, a folder that lists it, or a KFD node's `properties`.
    """

    def __init__(self, path: str, *, holds: str = "", device: str = "") -> None:
        self.path = path
        self.holds = holds
        self.device = device


class Accelerator:
    """One vendor's facts. Only `name`, `title` and `comm_backend` are required.

    Attributes:
        name: its name in options and variables, such as `cuda`.
        title: the name of its devices in messages, in the plural.
        torch_device: torch's name for them: `cuda` for AMD's GPUs as well.
        comm_backend: torch.distributed's backend for these devices.
        visible_env: the variables that limit which devices a process sees. All have the same
            meaning: the first that is set is in effect, and a mask is written to all of them.
        outer_env: variables that limit and renumber the devices before `visible_env` is read.
            They are never written; the first that is set is in effect.
        ranges: whether a mask may have `0-3` for `0,1,2,3`.
        alone: whether a worker must see only its own device, because its library would use all.
        device_files: where devices are counted; the first Files with a match is used.
        pci: (vendor, base classes) of the devices' PCI functions. Files whose `device` is none of
            these do not count. If Files have no `device`, number n is the n-th such function.
        not_at: prefixes of PCI addresses that are never such devices.
        numbered_by: a file of a device with its number in masks; without one, masks count devices.
        parts: paths below a device, with NUMBER, that count the parts to which masks refer; the
            first with a match is used.
        joined: how many parts make one device if the environment has `VARIABLE=value`; 0 for all
            of them.
        information: a folder with one folder for each PCI address, whose file `information` has
            minor number, UUID and model: NVIDIA's, below /proc.
        built_in: how many devices exist without a file.
        env_prefixes: prefixes of variables that a job needs on every node. Masks are excluded even
            if a prefix matches: what the runner may see does not apply to another node.
    """

    def __init__(
        self,
        *,
        name: str,
        title: str,
        comm_backend: str,
        torch_device: str | None = None,
        visible_env: tuple[str, ...] = (),
        outer_env: tuple[str, ...] = (),
        ranges: bool = False,
        alone: bool = False,
        device_files: tuple[Files, ...] = (),
        pci: tuple[tuple[int, tuple[int, ...]], ...] = (),
        not_at: tuple[str, ...] = (),
        numbered_by: str = "",
        parts: tuple[str, ...] = (),
        joined: Mapping[str, int] | None = None,
        information: str = "",
        built_in: int = 0,
        env_prefixes: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.title = title
        self.comm_backend = comm_backend
        self.torch_device = torch_device or name
        self.visible_env = visible_env
        self.outer_env = outer_env
        self.ranges = ranges
        self.alone = alone
        self.device_files = device_files
        self.pci = pci
        self.not_at = not_at
        self.numbered_by = numbered_by
        self.parts = parts
        self.joined = joined or {}
        self.information = information
        self.built_in = built_in
        self.env_prefixes = env_prefixes

    @property
    def has_devices(self) -> bool:
        """Whether slots are devices, not only a number of workers."""
        return bool(self.device_files or self.built_in)


def mask(accelerator: Accelerator, entries: Sequence[str]) -> dict[str, str]:
    """Return the variables that show a process exactly these devices, in this order."""
    return dict.fromkeys(accelerator.visible_env, ",".join(entries))


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
