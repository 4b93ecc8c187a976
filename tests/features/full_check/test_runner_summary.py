"""The lines about what was measured."""

from __future__ import annotations

from dsrun.launcher.features.full_check.runner_steps import StepResult
from dsrun.launcher.features.full_check.runner_summary import lines


def value(node: str, value: float, test: str = "write", part: str = "work") -> dict[str, object]:
    return {"node": node, "test": test, "part": part, "value": value, "unit": "MB/s"}


def test_each_test_has_its_range_and_who_is_at_the_ends() -> None:
    values = [
        value("n1", 200.4),
        value("n2", 90.25),
        value("n3", 120),
        value("n1", 5, part="temp"),
        *(value(name, 7, "compute", "cores") for name in ("n1", "n2")),
    ]
    whole = {"nodes": ["n1", "n2"], "latency_s": 0.0025, "bandwidth_bytes_per_s": 7e8, "wrong": 0}
    results = {
        "devices": StepResult((), {"values": values}),
        "collectives": StepResult((), {"backend": "gloo", "all": [whole]}),
    }
    assert list(lines(results)) == [
        "write work: 90.2 MB/s (n2) to 200 MB/s (n1)",
        "write temp: 5 MB/s",
        "compute: 7 MB/s",
        "all-reduce over 2 nodes with gloo: 2.5 ms, 700 MB/s",
    ]


def test_without_results_there_are_none() -> None:
    assert list(lines({"network": StepResult((), {}), "collectives": StepResult((), {})})) == []
