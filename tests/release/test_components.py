"""The list of components of a wheel."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from ..support.needs import need_modules
from . import components

if TYPE_CHECKING:
    from pathlib import Path

METADATA = """Metadata-Version: 2.4
Name: made-up
Version: 1.2
License-Expression: Apache-2.0
Requires-Dist: pytest>=7
Requires-Dist: not-there; python_version < "3"
Requires-Dist: not-there-either; extra == "more"
"""


def wheel(folder: Path, metadata: str) -> Path:
    """Return a wheel with nothing but metadata."""
    path = folder / "made_up-1.2-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        archive.writestr("made_up-1.2.dist-info/METADATA", metadata)
    return path


def test_a_wheel_and_all_that_it_requires_here(tmp_path: Path) -> None:
    text = components.listed(wheel(tmp_path, METADATA), 86_400)
    found = json.loads(text)
    assert found["metadata"]["timestamp"] == "1970-01-02T00:00:00+00:00"
    root = found["metadata"]["component"]
    assert (root["purl"], root["type"]) == ("pkg:pypi/made-up@1.2", "application")
    assert root["licenses"] == [{"expression": "Apache-2.0"}]
    assert [one["alg"] for one in root["hashes"]] == ["SHA-256"]
    versions = {one["name"]: one["version"] for one in found["components"]}
    assert versions["pytest"] == version("pytest")
    assert versions["pluggy"] == version("pluggy"), "what pytest requires in its turn"
    needs = {one["ref"]: one["dependsOn"] for one in found["dependencies"]}
    pytest_itself = f"pkg:pypi/pytest@{version('pytest')}"
    assert needs[root["bom-ref"]] == [pytest_itself]
    assert f"pkg:pypi/pluggy@{version('pluggy')}" in needs[pytest_itself]


def test_the_list_is_as_the_specification_has_it(tmp_path: Path) -> None:
    need_modules("cyclonedx")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = components.listed(wheel(tmp_path, METADATA), 86_400)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_the_same_wheel_has_the_same_list(tmp_path: Path) -> None:
    made = wheel(tmp_path, METADATA)
    assert components.listed(made, 86_400) == components.listed(made, 86_400)


def test_metadata_that_is_not_valid_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="invalid or unparsed"):
        components.read(wheel(tmp_path, METADATA.replace("1.2", "one")))
