"""The measurements of the full check besides matrices, in a few lines. Pure."""

from __future__ import annotations

from .runner_matrix import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from .runner_steps import StepResult


def lines(results: Mapping[str, StepResult]) -> Iterator[str]:
    """Yield the range of each test of nodes, and the all-reduce of all."""
    measured = {name: result.measured for name, result in results.items()}
    tests: dict[str, list[dict[str, Any]]] = {}
    for row in measured.get("devices", {}).get("values", ()):
        part = row["part"] if row["test"] in {"write", "read"} else ""
        tests.setdefault(f"{row['test']} {part}".strip(), []).append(row)
    yield from (_range(name, rows) for name, rows in tests.items())
    collectives = measured.get("collectives", {})
    for row in collectives.get("all", ()):
        latency, rate = row["latency_s"] * 1000, row["bandwidth_bytes_per_s"] / 1e6
        of = f"{len(row['nodes'])} nodes with {collectives['backend']}"
        yield f"all-reduce over {of}: {number(latency)} ms, {number(rate)} MB/s"


def _range(name: str, rows: list[dict[str, Any]]) -> str:
    low, high = (select(rows, key=lambda row: row["value"]) for select in (min, max))
    least, most = (f"{number(row['value'])} {row['unit']}" for row in (low, high))
    if len(rows) == 1 or least == most:
        return f"{name}: {least}"
    return f"{name}: {least} ({low['node']}) to {most} ({high['node']})"
