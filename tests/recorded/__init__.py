"""What must not change unless it is meant to: outputs of the whole program, kept as JSON files.

A test compares with the file beside this one; `DSRUN_TEST_RECORD=1` writes the file anew (in one
process: `-n 0`), and the change is then read as a diff before it is committed. A record holds only
what differs from the first one, its base, so that a change of all of them is a change of one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .differences import changes, layout, same

VARIABLE = "DSRUN_TEST_RECORD"
"""With this variable set, the tests write the files instead of comparing with them."""

RECORDING = bool(os.environ.get(VARIABLE))


class Record:
    """One file of recorded values, by name.

    Args:
        name: of the file, without its suffix.
        base: the name of the value that others are compared with, which a test records first; ""
            if each is recorded whole.
    """

    def __init__(self, name: str, base: str = "") -> None:
        self._path = Path(__file__).with_name(f"{name}.json")
        self._base = base
        self._values = json.loads(self._path.read_text()) if self._path.exists() else {}

    def check(self, name: str, value: Any) -> None:
        """Compare a value with the recorded one, or record it.

        Raises:
            AssertionError: it differs, or nothing was recorded under this name.
        """
        value = json.loads(json.dumps(value))  # as the file has it: lists, not tuples
        if self._base and name != self._base:
            value = changes(value, self._values[self._base])
        if RECORDING:
            self._values[name] = value
            self._path.write_text(layout(self._values) + "\n")
            return
        assert name in self._values, f"not recorded: {name}; {VARIABLE}=1 records it"
        assert same(value, self._values[name]), f"{layout(value)}\nis not as recorded: {name}"

    def values(self) -> dict[str, Any]:
        """Return all values as they are recorded."""
        return dict(self._values)
