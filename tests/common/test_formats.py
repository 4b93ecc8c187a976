"""Values as JSON has them."""

from __future__ import annotations

from enum import Enum

from dsrun.launcher.common.formats import VERSIONS, as_json, versioned
from dsrun.launcher.common.records import NamedTuple


class Colour(Enum):
    RED = "red"


class Row(NamedTuple):
    name: str
    colours: tuple[Colour, ...]


def test_records_enums_tuples_and_sets_have_a_form_in_json() -> None:
    value = {"row": Row("one", (Colour.RED,)), "ranks": frozenset({2, 0}), "none": None}
    plain = {"row": {"name": "one", "colours": ["red"]}, "ranks": [0, 2], "none": None}
    assert as_json(value) == plain
    assert type(as_json(value)["row"]["colours"]) is list


def test_a_form_begins_with_its_version() -> None:
    made = versioned("topo", {"rows": [Row("one", ())]})
    assert next(iter(made.items())) == ("format", VERSIONS["topo"])
    assert made["rows"] == [{"name": "one", "colours": []}]
