"""What the schema of a dry run says of a field that is new."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from docs.generate import schemas
from dsrun.launcher.specs.policies import POLICIES, Streams

from ..support.checkout import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path


def without(folder: Path, policy: str, field: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Generate the entry of a field that the schema lacks."""
    whole = json.loads((CHECKOUT / schemas.PATH).read_text(encoding="utf-8"))
    del whole["$defs"][policy]["properties"][field]
    (folder / schemas.PATH).parent.mkdir(parents=True)
    (folder / schemas.PATH).write_text(json.dumps(whole), encoding="utf-8")
    monkeypatch.setattr(schemas, "ROOT", folder)
    return json.loads(schemas.files()[schemas.PATH])["$defs"][policy]["properties"][field]


@pytest.mark.parametrize(
    ("policy", "field", "entry"),
    [
        ("workers", "preload", {"type": "array", "items": {"type": "string"}, "default": []}),
        (
            "watch",
            "on_hang",
            {"enum": ["report", "stop", "restart"], "type": "string", "default": "report"},
        ),
        ("output", "report_file", {"type": ["string", "null"], "default": None}),
        ("output", "tee", {"$ref": "#/$defs/streams"}),
    ],
)
def test_a_new_field_has_its_type_its_text_and_its_choices(
    policy: str,
    field: str,
    entry: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = without(tmp_path, policy, field, monkeypatch)
    assert made.pop("description")
    assert made == entry


def test_every_policy_documents_its_fields() -> None:
    assert [one for one in POLICIES if schemas.texts(one).keys() != {*one.__annotations__}] == []
    assert schemas.texts(Streams)["by_rank"] == "(local rank, streams) of the others."
