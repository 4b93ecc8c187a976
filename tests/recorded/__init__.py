"""What must not change unless it is meant to: outputs of the whole program, kept as JSON files.

A test compares with the file beside this one; `DSRUN_TEST_RECORD=1` writes the file anew, and the
change is then read as a diff before it is committed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

VARIABLE = "DSRUN_TEST_RECORD"
"""With this variable set, the tests write the files instead of comparing with them."""

RECORDING = bool(os.environ.get(VARIABLE))


class Record:
    """One file of recorded values, by name.

    Args:
        name: of the file, without its suffix.
    """

    def __init__(self, name: str) -> None:
        self._path = Path(__file__).with_name(f"{name}.json")
        self._values = json.loads(self._path.read_text()) if self._path.exists() else {}

    def check(self, name: str, value: Any) -> None:
        """Compare a value with the recorded one, or record it.

        Raises:
            AssertionError: it differs, or nothing was recorded under this name.
        """
        value = json.loads(json.dumps(value))  # as the file has it: lists, not tuples
        if RECORDING:
            self._values[name] = value
            self._path.write_text(json.dumps(self._values, indent=1, sort_keys=True) + "\n")
            return
        assert name in self._values, f"not recorded: {name}; {VARIABLE}=1 records it"
        assert value == self._values[name]

    def names(self) -> set[str]:
        """Return the names of all recorded values."""
        return set(self._values)
