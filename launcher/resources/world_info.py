"""World info: the hosts and devices of a job, decoded from one command line argument."""

from __future__ import annotations

import base64
import re

from ..common.errors import UsageError
from ..common.text import read_json
from ..specs.host import MAX_SLOTS, Slot
from ..specs.plan import ZIPPED
from .ranges import distinct, quoted

_MAX_BYTES = 64 * 1024 * 1024

# More is allowed than in a hostfile, as DeepSpeed allows more; but no blanks or control characters,
# and no id of digits only, which would be an index of the wrong type.
_HOST = r"[!-~]{1,255}"
_DEVICE_ID = r"(?![0-9]+$)[A-Za-z0-9][A-Za-z0-9_./:-]{0,254}"


def decode(text: str) -> dict[str, tuple[Slot, ...]]:
    """Return the devices of each host from world info of `plan.encode_world` or of DeepSpeed.

    Raises:
        UsageError: the text is damaged, too long, or not world info.
    """
    try:
        world = _parsed(_json_bytes(text.strip()))
        return {_host(name): _devices(name, slots) for name, slots in world.items()}
    except UsageError as fault:
        raise UsageError(f"world_info: {fault}") from None


def _json_bytes(text: str) -> bytes:
    if not text:
        raise UsageError("empty")
    zipped = text.startswith(ZIPPED)
    if len(text) > _MAX_BYTES // 3 * 4:
        raise UsageError(f"longer than {_MAX_BYTES >> 20} MiB")
    try:
        data = base64.b64decode(text[len(ZIPPED) * zipped :], altchars=b"-_", validate=True)
    except ValueError:
        raise UsageError(f"{quoted(text)} is cut short or is not base64") from None
    return _unzipped(data) if zipped else data


def _unzipped(data: bytes) -> bytes:
    import zlib

    unzip = zlib.decompressobj()
    try:
        plain = unzip.decompress(data, _MAX_BYTES)
    except zlib.error:
        raise UsageError("damaged: it cannot be decompressed") from None
    if unzip.unconsumed_tail:
        raise UsageError(f"longer than {_MAX_BYTES >> 20} MiB")
    if unzip.unused_data or not unzip.eof:
        raise UsageError("damaged: it is cut short, or has trailing data")
    return plain


def _parsed(data: bytes) -> dict[str, object]:
    try:
        world = read_json(data, _distinct_hosts)
    except ValueError:
        raise UsageError("damaged: it does not contain JSON") from None
    if not isinstance(world, dict) or not world:
        raise UsageError("expected {host: [device, ...], ...} with at least one host")
    return world


def _distinct_hosts(pairs: list[tuple[str, object]]) -> dict[str, object]:
    world: dict[str, object] = {}
    for host, slots in pairs:
        if host in world:
            raise UsageError(f"host {quoted(host)} is listed twice")
        world[host] = slots
    return world


def _host(name: str) -> str:
    if not re.fullmatch(_HOST, name):
        raise UsageError(f"{quoted(name)} is not a host name")
    return name


def _devices(host: str, slots: object) -> tuple[Slot, ...]:
    if not isinstance(slots, list) or not slots:
        raise UsageError(f"host {quoted(host)} needs a list of at least one device")
    try:
        return distinct(_device(slot) for slot in slots)
    except UsageError as fault:
        raise UsageError(f"host {quoted(host)}: {fault}") from None


def _device(slot: object) -> Slot:
    if type(slot) is int and 0 <= slot < MAX_SLOTS:
        return slot
    if isinstance(slot, str) and re.fullmatch(_DEVICE_ID, slot):
        return slot
    shown = quoted(str(slot)) if isinstance(slot, int | float | str) else type(slot).__name__
    raise UsageError(f"expected device indices or ids, not {shown}")
