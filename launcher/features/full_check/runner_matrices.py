"""The matrices that the results of the full check contain. Pure."""

from __future__ import annotations

from .runner_matrix import Matrix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .runner_pairs import Pair
    from .runner_steps import StepResult

MICRO, MEGA = 1e-6, 1e6


def matrices(results: Mapping[str, StepResult], names: Sequence[str]) -> list[Matrix]:
    """Return the matrices with values: of the links, and of the all-reduces of two nodes."""
    measured = {name: result.measured for name, result in results.items()}
    links = _rows(measured.get("network", {}).get("links", ()), "best_s")
    reduced = _rows(measured.get("collectives", {}).get("pairs", ()), "latency_s")
    nodes = tuple(names)
    trips, times = _both(links, "best_s", 1 / MICRO), _both(reduced, "latency_s", 1 / MICRO)
    rates = _both(reduced, "bandwidth_bytes_per_s", 1 / MEGA)
    all_of_them = (
        Matrix("shortest round trip, us", nodes, trips, low=True),
        Matrix("bandwidth from row to column, MB/s", nodes, _directed(links)),
        Matrix("time of a small all-reduce between two nodes, us", nodes, times, low=True),
        Matrix("bandwidth of an all-reduce between two nodes, MB/s", nodes, rates),
    )
    return [matrix for matrix in all_of_them if matrix.values]


def _rows(rows: Iterable[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    return [row for row in rows if field in row]


def _both(rows: Iterable[dict[str, Any]], field: str, factor: float) -> dict[Pair, float]:
    """Return the value of each link in both directions."""
    values: dict[Pair, float] = {}
    for row in rows:
        one, other = row["nodes"]
        values[one, other] = values[other, one] = row[field] * factor
    return values


def _directed(rows: Iterable[dict[str, Any]]) -> dict[Pair, float]:
    values: dict[Pair, float] = {}
    for row in rows:
        one, other = row["nodes"]
        values[one, other], values[other, one] = row["out"] / MEGA, row["back"] / MEGA
    return values
