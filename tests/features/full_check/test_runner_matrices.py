"""Which matrices results contain."""

from __future__ import annotations

from dsrun.launcher.features.full_check.messages import Link
from dsrun.launcher.features.full_check.runner_matrices import matrices
from dsrun.launcher.features.full_check.runner_steps import StepResult

LINK = Link("10.0.0.2", 5e-5, 6e-5, 2e8, 2e8, 1e8, 1e8, 9, 0, 9, 0)


def test_links_and_pairs_become_matrices() -> None:
    links = [
        {"nodes": ["n1", "n2"], **LINK._asdict()},
        {"nodes": ["n1", "n3"], "failed": "no answer"},
    ]
    pairs = [{"nodes": ["n2", "n1"], "latency_s": 1e-3, "bandwidth_bytes_per_s": 3e8, "wrong": 0}]
    results = {
        "network": StepResult((), {"links": links}),
        "devices": StepResult((), {}),
        "collectives": StepResult((), {"pairs": pairs}),
    }
    trips, rates, times, reduced = matrices(results, ["n1", "n2", "n3"])
    assert {round(value, 6) for value in trips.values.values()} == {50}
    assert rates.values == {("n1", "n2"): 200, ("n2", "n1"): 100}
    assert times.values == {("n1", "n2"): 1000, ("n2", "n1"): 1000}
    assert reduced.values["n1", "n2"] == 300
    assert [one.low for one in (trips, rates, times, reduced)] == [True, False, True, False]
    assert trips.names == ("n1", "n2", "n3")


def test_without_measurements_there_is_none() -> None:
    assert matrices({"network": StepResult((), {"links": []})}, ["n1"]) == []
