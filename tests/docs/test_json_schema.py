"""Which schema a type has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import pytest

from docs.generate.json_schema import Definitions
from dsrun.launcher.common.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Row(NamedTuple):
    """One row.

    It has more.

    Attributes:
        left, right: its ends;
            both are numbers.
        next: the next one, None for the last.
    """

    left: int
    right: int
    next: Row | None = None


class _Always(TypedDict):
    """What is always there.

    Attributes:
        name: its name.
    """

    name: str


class Table(_Always, total=False):
    """A table of rows.

    Attributes:
        rows: its rows.
    """

    rows: list[Row]


class Undescribed(TypedDict):
    """A class without words on its fields."""

    name: str


class Imported(TypedDict):
    """A class with a type that only type checkers import.

    Attributes:
        names: some names.
    """

    names: AbstractSet[str]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (float | None, {"type": ["number", "null"]}),
        (int | str, {"type": ["integer", "string"]}),
        (object, {}),
        (Colour, {"enum": ["red", "blue"]}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (Literal[70], {"const": 70}),
        (Annotated[int, ("minimum", 1)], {"type": "integer", "minimum": 1}),
        (Annotated[int, ("minimum", 1)] | None, {"type": ["integer", "null"], "minimum": 1}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (list[str] | None, {"type": ["array", "null"], "items": {"type": "string"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (frozenset[int], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "items": False,
                "minItems": 2,
            },
        ),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Row, {"$ref": "#/$defs/row"}),
        (Row | None, {"oneOf": [{"$ref": "#/$defs/row"}, {"type": "null"}]}),
    ],
)
def test_every_type_has_its_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert Definitions().of(hint) == schema


def test_a_record_has_all_its_fields_with_their_texts() -> None:
    definitions = Definitions()
    assert definitions.of(list[Row])["items"] == {"$ref": "#/$defs/row"}
    assert definitions.made["row"] == {
        "description": "One row.",
        "type": "object",
        "properties": {
            "left": {"description": "Its ends; both are numbers.", "type": "integer"},
            "right": {"description": "Its ends; both are numbers.", "type": "integer"},
            "next": {
                "description": "The next one, null for the last.",
                "oneOf": [{"$ref": "#/$defs/row"}, {"type": "null"}],
            },
        },
        "required": ["left", "right", "next"],
        "additionalProperties": False,
    }


def test_an_inherited_field_is_required_and_those_that_are_not_total_are_not() -> None:
    made = Definitions().object(Table, {"format": {"const": 1}})
    assert list(made["properties"]) == ["format", "name", "rows"]
    assert made["properties"]["name"]["description"] == "Its name."
    assert made["required"] == ["format", "name"]
    made = Definitions().object(Table, {"format": {"const": 1}, "role": {}}, {"role"})
    assert made["required"] == ["format", "name"]


def test_more_is_said_of_a_field() -> None:
    made = Definitions(lambda shape, name: {"default": (shape is Row, name)}).object(Row)
    assert made["properties"]["left"]["default"] == (True, "left")


def test_a_field_without_a_text_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"Undescribed does not describe name"):
        Definitions().object(Undescribed)


def test_two_classes_of_one_name_are_an_error() -> None:
    definitions = Definitions()
    definitions.reference(Row)
    with pytest.raises(ValueError, match="two classes with the name Row"):
        definitions.reference(type("Row", (), {}))


def test_what_only_type_checkers_import_is_found() -> None:
    names = Definitions().object(Imported)["properties"]["names"]
    assert names["items"] == {"type": "string"}
