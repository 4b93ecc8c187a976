"""Python, packages, drivers and code that differ."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.quick_check.runner_findings import Severity
from dsrun.launcher.features.quick_check.runner_versions import (
    check,
    check_code,
    differing,
    listed,
    outlier_files,
)

from ...support.node_facts import GPUS, alike, compared_node


def found(*nodes: object) -> list[tuple[str, tuple[str, ...], str]]:
    return [(one.code, one.nodes, one.text) for one in check(nodes)]  # type: ignore[arg-type]


def test_the_same_everywhere_is_nothing() -> None:
    assert found(*alike("a", "b", "c", devices=GPUS)) == []


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("2.3.0+cu121", "torch"),
        ("3.4.0", "torch"),
        ("2", "torch"),
        ("2.4.1+cu121", "torch-build"),
        ("2.4.0+cpu", "torch-build"),
        ("2.4.0", "torch-build"),
    ],
)
def test_torch(version: str, code: str) -> None:
    other = compared_node("c", versions={"torch": version, "numpy": "1.26.4"})
    text = f"torch {version}, but 2.4.0+cu121 on a, b"
    if code == "torch":
        text = f"torch {'.'.join(version.split('.')[:2])}, but 2.4 on a, b"
    assert found(*alike("a", "b"), other) == [(code, ("c",), text)]


def test_torch_that_is_not_there_is_only_a_warning() -> None:
    other = compared_node("c", versions={"numpy": "1.26.4"})
    assert found(*alike("a", "b"), other) == [
        ("torch-build", ("c",), "torch none, but 2.4.0+cu121 on a, b")
    ]
    assert found(*alike("a", "b", versions={})) == []


def test_no_torch_at_all_is_told_where_it_is_needed() -> None:
    none = alike("a", "b", versions={}, needs_torch=True)
    other = compared_node("c", versions={}, python_path="/opt/my python", needs_torch=True)
    assert found(*none, other) == [
        ("torch-missing", ("a",), "torch is not installed for /usr/bin/python3"),
        ("torch-missing", ("b",), "torch is not installed for /usr/bin/python3"),
        ("torch-missing", ("c",), "torch is not installed for '/opt/my python'"),
    ]
    advice = [one.advice for one in check([none[0], other])]
    assert advice == [
        "/usr/bin/python3 -m pip install torch (or --python)",
        "'/opt/my python' -m pip install torch (or --python)",
    ]
    assert [one.severity for one in check(none)] == [Severity.WARNING] * 2


def test_a_node_without_torch_is_told_once() -> None:
    lacking = compared_node("c", versions={"numpy": "1.26.4"}, needs_torch=True)
    assert [code for code, *_ in found(*alike("a", "b", needs_torch=True), lacking)] == [
        "torch-missing"
    ]
    assert found(*alike("a", "b", versions={}, python="", needs_torch=True)) == []


def test_python_and_packages() -> None:
    more = {"torch": "2.4.0+cu121", "numpy": "2.0", "deepspeed": "0.16"}
    other = compared_node("b", python="3.12.1", versions=more)
    assert found(*alike("a", "c"), other) == [
        ("python", ("b",), "Python 3.12, but 3.11 on a, c"),
        ("packages", ("b",), "deepspeed 0.16, but none on a, c; numpy 2.0, but 1.26.4 on a, c"),
    ]
    assert (
        found(
            compared_node("a"), compared_node("b", python="3.11.9"), compared_node("c", python="")
        )
        == []
    )


def test_nccl_and_drivers_matter_where_there_are_devices() -> None:
    usual = {"nccl": "2.20.5", "driver": "550.54", "cuda": "12.1", "cuda_driver": "12.4"}
    older = {**usual, "nccl": "2.19.3", "driver": "535.1", "cuda_driver": "11.8"}
    nodes = [*alike("a", "b", versions=usual, devices=GPUS)]
    assert found(*nodes, compared_node("c", versions=older, devices=GPUS)) == [
        ("nccl", ("c",), "NCCL 2.19.3, but 2.20.5 on a, b"),
        ("driver", ("c",), "driver 535.1, but 550.54 on a, b"),
        (
            "driver-old",
            ("c",),
            "the driver supports CUDA 11.8, but torch was built with CUDA 12.1",
        ),
    ]
    assert found(*alike("a", "b", versions=usual), compared_node("c", versions=older)) == []


def test_odd_versions_of_a_driver_are_no_fault_of_ours() -> None:
    odd = {"cuda": "x", "cuda_driver": "9" * 4000}
    assert found(*alike("a", devices=GPUS, versions=odd)) == []


def test_another_script() -> None:
    (one,) = check_code([*alike("a", "b"), compared_node("c", script="00")], {})
    assert (one.code, one.nodes) == ("script", ("c",))
    assert one.text == "the script is not the same as on a, b"


def test_other_files_are_named_if_that_is_known() -> None:
    nodes = [*alike("a", "b"), compared_node("c", files="f2")]
    (one,) = check_code(nodes, {})
    assert one.text == "*.py files are not the same as on a, b"
    (one,) = check_code(nodes, {"c": ["x.py", "y.py"]})
    assert one.text == "*.py files (x.py, y.py) are not the same as on a, b"
    assert [outlier.nodes for outlier in outlier_files(nodes)] == [["c"]]
    assert outlier_files([compared_node("a"), compared_node("b", files="")]) == []


def test_which_files_differ() -> None:
    one, other = {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 3, "d": 4}
    assert differing(one, other) == ["b", "c", "d"]


def test_long_lists_are_counted() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcdefg")) == "a, b, c, d, e and 2 more"
