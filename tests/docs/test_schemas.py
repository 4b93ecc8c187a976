"""The JSON schemas describe every field of what dsrun prints for programs, and no other."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from dsrun.launcher.common.formats import VERSIONS, versioned
from dsrun.launcher.head.report.document import crash_fields

from ..support import schemas
from ..support.checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED = CHECKOUT / "tests" / "recorded"
PLAN = schemas.schema("dry_run")["$defs"]


def plans() -> list[dict[str, Any]]:
    """Return what recorded plans have that is neither the default nor in the first of them."""
    said = [one.get("json", {}).get("output") for one in recorded("dry_runs").values()]
    return [plan for plan in said if isinstance(plan, dict)]


def reports() -> list[dict[str, Any]]:
    """Return what the reports of recorded endings have that the first has not."""
    return [ending["report"] for ending in recorded("endings").values() if "report" in ending]


def recorded(name: str) -> dict[str, Any]:
    return dict(json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8")))


def parts(value: object) -> Iterator[dict[str, Any]]:
    """Yield every object within a schema."""
    if isinstance(value, dict):
        yield value
    for one in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from parts(one)


def fields() -> dict[str, dict[str, Any]]:
    """Return the schema of every field of every object, by where it is."""
    return {
        f"{name}:{at}:{field}": described
        for name in schemas.names()
        for at, part in enumerate(parts(schemas.schema(name)))
        for field, described in part.get("properties", {}).items()
    }


@pytest.mark.parametrize("name", schemas.names())
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(schemas.schema(name))
    assert schemas.schema(name)["$id"] == f"urn:dsrun:schema:{name}"


def test_every_form_has_a_version() -> None:
    """Each object that is printed as a whole has its form's version as its first field."""
    assert sorted(VERSIONS) == schemas.names()
    for name, version in VERSIONS.items():
        formats = [
            (next(iter(part["properties"])), part["required"][0], part["properties"]["format"])
            for part in parts(schemas.schema(name))
            if "format" in part.get("properties", {}) and "properties" in part
        ]
        assert formats
        for first, required, described in formats:
            assert (first, required, described["const"]) == ("format", "format", version)


@pytest.mark.parametrize("name", schemas.names())
def test_no_object_has_other_fields(name: str) -> None:
    objects = [part for part in parts(schemas.schema(name)) if part.get("type") == "object"]
    assert objects
    for part in objects:
        if "properties" in part:
            assert part["additionalProperties"] is False
            assert set(part["required"]) <= set(part["properties"])
        else:
            kind = part["additionalProperties"].get("type", "object")
            assert kind in {"string", "integer", "object"}, "a map"


@pytest.mark.parametrize("described", fields().values(), ids=list(fields()))
def test_every_field_is_described_and_times_have_a_unit(described: dict[str, Any]) -> None:
    text = described.get("description") or PLAN[described["$ref"].removeprefix("#/$defs/")]
    assert text
    if described.get("type") == "number":
        assert re.search("econd|unit", str(text))


def test_there_are_recorded_dry_runs_and_reports_of_every_kind() -> None:
    """A test compares each with its schema when it compares it with what was recorded."""
    for field in ("rendezvous", "notes", "elastic", "updates", "batches"):
        assert any(plan.get(field) for plan in plans())
    causes = {end["cause"] for end in reports() if "cause" in end}
    assert causes >= {"none", "failure", "lost", "signal"}
    assert any("error" in end for end in reports())


def test_a_crash_of_dsrun_is_valid() -> None:
    crash = versioned("report", crash_fields("20261122-120000-abcdef", ValueError("boom")))
    assert schemas.faults("report", crash, "crashed") == []
    assert schemas.faults("report", crash) == []


def test_the_page_names_every_schema() -> None:
    page = (schemas.FOLDER / "README.md").read_text(encoding="utf-8")
    for name in schemas.names():
        assert f"({name}{schemas.SUFFIX})" in page
