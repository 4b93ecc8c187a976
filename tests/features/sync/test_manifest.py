"""Manifests: those that travel, and those that no node accepts."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from dsrun.launcher.control.frames import BadFrame
from dsrun.launcher.features.sync.manifest import (
    FILE,
    FOLDER,
    LINK,
    ManifestEntry,
    manifest,
    unpack,
)

SHA = "0" * 64


def test_a_manifest_is_the_same_in_any_order() -> None:
    entries = [
        ManifestEntry("a", FOLDER, 0o755, 0, ""),
        ManifestEntry("a-b", FILE, 0o644, 1, SHA),
        ManifestEntry("a/b", FILE, 0o644, 1, SHA),
        ManifestEntry("link\udcff", LINK, 0, 0, "../x"),
    ]
    made = manifest(reversed(entries))
    assert made.entries == entries
    assert made == manifest(entries)
    assert unpack(made.packed) == made


@pytest.mark.parametrize(
    "row",
    [
        None,
        [],
        ["/a", "f", 0, 1, SHA],
        ["..", "f", 0, 1, SHA],
        ["a/../b", "f", 0, 1, SHA],
        ["./a", "f", 0, 1, SHA],
        ["", "d", 0, 0, ""],
        ["a/", "d", 0, 0, ""],
        ["a\0", "f", 0, 1, SHA],
        ["a" * 4096, "f", 0, 1, SHA],
        ["\ud800", "f", 0, 1, SHA],
        ["a", "x", 0, 0, ""],
        ["a", "f", 0o1777, 1, SHA],
        ["a", "f", -1, 1, SHA],
        ["a", "f", True, 1, SHA],
        ["a", "f", 0, -1, SHA],
        ["a", "f", 0, 1 << 70, SHA],
        ["a", "f", 0, 1, SHA[1:]],
        ["a", "f", 0, 1, "G" * 64],
        ["a", "l", 0, 0, ""],
        ["a", "d", 0, 0, "x"],
        ["a", "d", 0, 1, ""],
        ["none/a", "f", 0, 1, SHA],
        [1, "f", 0, 1, SHA],
    ],
)
def test_an_entry_that_is_not_valid_or_lies_outside_is_refused(row: Any) -> None:
    with pytest.raises(BadFrame):
        unpack(zlib.compress(json.dumps([row]).encode()))


def test_the_entries_are_in_order_once_and_in_folders() -> None:
    file, folder = ["a", "f", 0, 1, SHA], ["b", "d", 0, 0, ""]
    for rows in ([file, file], [folder, file], [file, ["a/b", "f", 0, 1, SHA]]):
        with pytest.raises(BadFrame):
            unpack(zlib.compress(json.dumps(rows).encode()))


@pytest.mark.parametrize("packed", [b"", b"x", zlib.compress(b"x"), zlib.compress(b"{}")])
def test_what_is_no_manifest(packed: bytes) -> None:
    with pytest.raises(BadFrame):
        unpack(packed)
