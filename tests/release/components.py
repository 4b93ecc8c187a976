"""What an installation of a wheel consists of, as an SBOM in the format CycloneDX 1.6."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from importlib.metadata import distribution
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5
from zipfile import ZipFile

from packaging.metadata import Metadata
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def listed(wheel: Path, time: int) -> str:
    """Return the SBOM of a wheel: itself, and the installed versions of what it requires.

    The versions are those that the tests of the release were run with.

    Args:
        wheel: whose requirements are followed, for this Python and this machine.
        time: of the release, in seconds since 1970.

    Raises:
        PackageNotFoundError: something that it requires is not installed.
        ExceptionGroup: the metadata of the wheel is not valid.
    """
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    top = read(wheel)
    needs, left = {}, [top]
    while left:
        one = left.pop()
        if one.name not in needs:
            needs[one.name] = (one, [*_required(one)])
            left += needs[one.name][1]
    others = sorted((one for one, _ in needs.values() if one is not top), key=_reference)
    root = {**_component(top, "application"), "hashes": [{"alg": "SHA-256", "content": digest}]}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid5(NAMESPACE_URL, digest).urn,
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time, timezone.utc).isoformat(),
            "component": root,
        },
        "components": [_component(one, "library") for one in others],
        "dependencies": [
            {"ref": _reference(one), "dependsOn": sorted(map(_reference, required))}
            for one, required in needs.values()
        ],
    }
    return json.dumps(bill, indent=2) + "\n"


def read(wheel: Path) -> Metadata:
    """Return the metadata of a wheel.

    Raises:
        ExceptionGroup: it is not valid; each exception names a field.
    """
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Metadata.from_email(archive.read(name))


def _required(one: Metadata) -> Iterator[Metadata]:
    """Yield what this requires here, without its extras."""
    for need in one.requires_dist or ():
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            text = distribution(need.name).read_text("METADATA") or ""
            # Others may have fields that are not valid, such as words in place of a licence.
            yield Metadata.from_email(text, validate=False)


def _reference(one: Metadata) -> str:
    """Return the name of a component in the list: its package URL."""
    return f"pkg:pypi/{canonicalize_name(one.name)}@{one.version}"


def _component(one: Metadata, kind: str) -> dict[str, Any]:
    made = {
        "type": kind,
        "bom-ref": _reference(one),
        "name": canonicalize_name(one.name),
        "version": str(one.version),
        "purl": _reference(one),
    }
    if one.license_expression:
        return {**made, "licenses": [{"expression": one.license_expression}]}
    if one.license:
        return {**made, "licenses": [{"license": {"name": one.license.splitlines()[0]}}]}
    return made
