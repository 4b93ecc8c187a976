"""What the launcher must know of a device vendor, and how slots become its devices."""

from collections.abc import Sequence


class Accelerator:
    """One vendor's facts.

    Attributes:
        name: what a person calls it, e.g. `cuda`.
        visible_env: the variable that limits which devices a process sees; None without devices.
        device_files: files below `/` that count the physical devices, each a path that ends in
            `[0-9]*`: one number up to the end of the name, so `nvidiactl` is no device.
        env_prefixes: variables a job needs on every node, by prefix. `visible_env` is not meant,
            even where a prefix fits it: what the runner may see says nothing of another node.
        comm_backend: torch.distributed's backend for these devices.
    """

    def __init__(
        self,
        *,
        name: str,
        visible_env: str | None,
        device_files: tuple[str, ...],
        env_prefixes: tuple[str, ...],
        comm_backend: str,
    ) -> None:
        self.name = name
        self.visible_env = visible_env
        self.device_files = device_files
        self.env_prefixes = env_prefixes
        self.comm_backend = comm_backend


def mask(accelerator: Accelerator, entries: Sequence[str]) -> dict[str, str]:
    """The variables that show a process exactly these devices, in this order; none for cpu."""
    if accelerator.visible_env is None:
        return {}
    return {accelerator.visible_env: ",".join(entries)}


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
    strangers = [name for name in names if not fits[name]]
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
