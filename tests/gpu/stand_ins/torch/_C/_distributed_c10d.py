"""The flight recorder, in the form of torch 2.11."""

from __future__ import annotations

import json
import time

import made_up

entries: list[dict[str, object]] = []


def record(backend: str, operation: str) -> dict[str, object]:
    """Note a collective that begins, and return its entry."""
    entry: dict[str, object] = {
        "process_group": ["0", "default_pg"],
        "collective_seq_id": len(entries) + 1,
        "profiling_name": f"{backend}:{operation}",
        "input_sizes": [[8]],
        "input_dtypes": ["Float"],
        "state": "scheduled",
        "time_created_ns": time.time_ns(),
        "is_p2p": False,
        "retired": False,
        "frames": [],
    }
    entries.append(entry)
    return entry


def _dump_fr_trace_json() -> str:
    known = [] if made_up.fault("recorder") else entries
    return json.dumps({"pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": known})
