"""Which node is suspicious, and which is named, from made-up measurements."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.full_check import runner_device_tests as device_tests
from dsrun.launcher.features.full_check.measurements import Measured
from dsrun.launcher.features.full_check.node_devices import TESTS as PROGRAMS
from dsrun.launcher.features.full_check.runner_device_tests import ADVICE, TESTS, Compared


def cores(value: float, test: str = "compute", evidence: str = "") -> Measured:
    return Measured(test, "cores", value, evidence)


def test_every_test_has_a_program_and_advice() -> None:
    assert {test.program for test in TESTS.values()} == set(PROGRAMS)
    assert {test.fault for test in TESTS.values()} == set(ADVICE)
    assert all(0 < test.named <= test.suspect < 1 for test in TESTS.values())


@pytest.mark.parametrize(
    ("values", "suspects"),
    [
        ([100, 100, 100, 100], []),
        ([100, 81, 120, 100], []),
        ([100, 79, 100, 100], ["n2"]),
        ([100, 10, 100, 20], ["n2", "n4"]),
        ([100, 50], ["n2"]),
        ([50], []),
        ([0, 0, 0], []),
        ([100, 0, 100], ["n2"]),
    ],
)
def test_a_node_is_suspicious_if_most_are_faster(values: list[float], suspects: list[str]) -> None:
    found = {f"n{at}": [cores(value)] for at, value in enumerate(values, 1)}
    assert list(device_tests.suspects(found)) == suspects


def test_the_worst_node_comes_first_with_all_that_is_suspicious() -> None:
    found = {
        "n1": [cores(100), cores(100, "running")],
        "n2": [cores(70), cores(100, "running")],
        "n3": [cores(50), cores(20, "running")],
        "n4": [cores(100), cores(100, "running")],
    }
    suspects = device_tests.suspects(found)
    assert [(name, [one.place[0] for one in some]) for name, some in suspects.items()] == [
        ("n3", ["running", "compute"]),
        ("n2", ["compute"]),
    ]


def test_folders_are_compared_by_their_role_and_devices_with_all_others() -> None:
    found = {
        name: [Measured("write", "work", 100, "/w"), Measured("write", "temp", 9, "/t")]
        + [Measured("device compute", f"device {at}", 600, "") for at in range(2)]
        for name in ("n1", "n2")
    }
    assert device_tests.suspects(found) == {}
    found["n2"][3] = Measured("device compute", "device 1", 500, "")
    ((name, (one,)),) = device_tests.suspects(found).items()
    assert (name, one.place, one.others) == ("n2", ("device compute", "device 1"), 600)


def test_the_devices_of_one_node_are_compared() -> None:
    found = {
        "n1": [Measured("device memory", f"device {at}", 9 - 5 * (at == 2), "") for at in range(4)]
    }
    ((_, (one,)),) = device_tests.suspects(found).items()
    assert one.place == ("device memory", "device 2")


def test_tests_that_nobody_knows_are_left_out() -> None:
    found = {name: [Measured("other", "cores", 5, "")] for name in ("n1", "n2")}
    assert device_tests.compare(found) == []
    assert device_tests.as_json(found) == []


SUSPICION = Compared("n2", ("running", "cores"), 20, 100, "first")


@pytest.mark.parametrize(
    ("own", "others", "value"),
    [
        ([25, 30, 20], [100, 90, 95], 30),
        ([25, 80, 20], [100, 90, 95], None),
        ([25, 30, 20], [20, 30, 25], None),
        ([25], [], None),
        ([], [100], None),
    ],
)
def test_only_what_is_slow_each_time_is_named(
    own: list[float], others: list[float], value: float | None
) -> None:
    again = [[cores(one, "running", f"{one}")] for one in own]
    reference = [[cores(one, "running")] for one in others]
    named = device_tests.confirmed([SUSPICION], again, reference)
    assert [one.value for one in named] == ([] if value is None else [value])


def test_a_node_has_one_fault_of_each_kind() -> None:
    named = [
        Compared("n2", ("running", "cores"), 25.0, 99.0, "used up\x1b[31m"),
        Compared("n2", ("quota", "cores"), 10.0, 100.0, ""),
        Compared("n2", ("compute", "cores"), 250.0, 1000.4, ""),
    ]
    stopped, slow = device_tests.faults(named)
    assert (stopped.code, stopped.nodes) == ("stopped_cores", ("n2",))
    assert stopped.text == (
        "its cores ran 25% of the time, others' 99% (used up); "
        "its CPU quota is 10% of its cores, others' 100%"
    )
    assert slow.code == "slow_cores"
    assert "250 MB/s, others' 1000 MB/s" in slow.text


def test_all_values_are_in_the_result() -> None:
    found = {"n1": [cores(1.23456)], "n2": [cores(2)]}
    row = {"test": "compute", "part": "cores", "unit": "MB/s"}
    assert device_tests.as_json(found) == [
        {"node": "n1", **row, "value": 1.235},
        {"node": "n2", **row, "value": 2},
    ]
