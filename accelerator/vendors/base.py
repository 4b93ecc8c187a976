"""What the launcher must know of a device vendor, and how slots become its devices."""

from collections.abc import Mapping, Sequence

NUMBER = "[0-9]*"
"""Stands in a path where a device's number does."""


class Files:
    """Files that count devices, one each.

    Attributes:
        path: where they are below `/`, with NUMBER once: a number up to the end of the name, so
            that `nvidiactl` is no device.
        holds: a file in each of them (they are folders then) that must hold a number other than
            0; the kernel refuses to show the one of a device that this process may not use.
        device: what tells a device's PCI function, with NUMBER for the number: a link to it, a
            folder that lists it, or a KFD node's `properties`.
    """

    def __init__(self, path: str, *, holds: str = "", device: str = "") -> None:
        self.path = path
        self.holds = holds
        self.device = device


class Accelerator:
    """One vendor's facts. Only `name`, `title` and `comm_backend` must be given.

    Attributes:
        name: what a person calls it, e.g. `cuda`.
        title: what its devices are in words, in the plural.
        torch_device: torch's name for them: `cuda` for AMD's GPUs, too.
        comm_backend: torch.distributed's backend for these devices.
        visible_env: the variables that limit which devices a process sees, all with one meaning:
            the first that is set is in force, and a mask is written to every one. () without.
        outer_env: variables that cut down and renumber the devices before `visible_env` is read.
            They are honoured and never written; the first that is set is in force.
        ranges: whether a mask may say `0-3` for `0,1,2,3`.
        alone: whether a worker must see its own device only, because its library would take all.
        device_files: where devices are counted; the first Files that has any is believed.
        pci: (vendor, base classes) of the PCI functions that are such devices. Files whose
            `device` is none of them do not count; where Files have no `device`, number n is the
            n-th of them.
        not_at: beginnings of PCI addresses at which such functions are not meant.
        numbered_by: a file of a device with the number that masks mean; without, they count.
        parts: paths below a device, with NUMBER, that count the parts which masks mean; the first
            that has any is believed.
        joined: how many parts make one device where the environment says so, by
            `VARIABLE=value`; 0 for all of them.
        information: a folder with one folder for each PCI address, in which `information` tells
            minor number, UUID and model: NVIDIA's, below /proc.
        built_in: devices that are there without a file.
        env_prefixes: variables a job needs on every node, by prefix. A mask is not meant, even
            where a prefix fits it: what the runner may see says nothing of another node.
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
        """Whether slots are devices, rather than a mere count of workers."""
        return bool(self.device_files or self.built_in)


def mask(accelerator: Accelerator, entries: Sequence[str]) -> dict[str, str]:
    """The variables that show a process exactly these devices, in this order; none for cpu."""
    return dict.fromkeys(accelerator.visible_env, ",".join(entries))


def choose(slots: Sequence[int | str], visible: Sequence[str]) -> tuple[str, ...]:
    """The entries of `visible` that the slots mean.

    Slots count positions in `visible`. Only when some slot is no position are all of them read
    as names instead: an entry's text, or the beginning of one UUID, as CUDA itself allows
    (CUDA programming guide, "CUDA Environment Variables").

    Raises:
        ValueError: a slot is neither, fits several entries, or means a device already taken.
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
    """The entries a name fits: itself, or those a shortened UUID (it has a dash) begins."""
    if name in visible:
        return [name]
    return [entry for entry in visible if "-" in name and entry.startswith(name)]


def _refuse_strangers(names: Sequence[str], positions: dict[str, str]) -> None:
    visible = list(positions.values())
    fits = {name: _named(name, visible) for name in names}
    # 0 to n-1 is what a count becomes: it names nothing.
    counted = names == [str(index) for index in range(len(names))]
    strangers = [name for name in names if counted or not fits[name]]
    unknown = [name for name in strangers if name not in positions]
    if unknown:
        raise ValueError(f"no slot {', '.join(unknown)} (visible: {_listing(visible)})")
    if strangers:
        raise ValueError(
            f"slots {', '.join(names)}: either count positions or name devices, not both"
            f" (visible: {_listing(visible)})"
        )
    for name, entries in fits.items():
        if len(entries) > 1:
            raise ValueError(f"slot {name} fits {' and '.join(entries)}: give more of its UUID")


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
