"""Failures of connections; `test_corpus` has more of them."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.diagnosis.runner_network_rows import (
    NETWORK_LINES,
    PORT_ROWS,
    RANK_ROWS,
    SERVICE_ROWS,
)
from dsrun.launcher.features.diagnosis.runner_row import fits


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("DistStoreError: wait timeout after 300000ms, keys: /x", "ranks-missing"),
        ("RuntimeError: Timed out waiting 5000ms for send operation to complete", "gloo-timeout"),
        ("OSError: [Errno 98] Address already in use", "port-in-use"),
        ("ConnectionError: [Errno 113] No route to host", "service-unreachable"),
        ("DistNetworkError: Connection timed out", "connection-ended"),
    ],
)
def test_the_first_row_that_fits(text: str, name: str) -> None:
    rows = (*PORT_ROWS, *RANK_ROWS, *SERVICE_ROWS)
    raised = text.partition(":")[0]
    assert next(row.name for row in rows if fits(row, text, raised) is not None) == name


def test_a_port_in_use_is_said_with_its_holder() -> None:
    assert {row.finds for row in PORT_ROWS if row.name == "port-in-use"} == {"port"}


def test_rows_that_need_no_exception() -> None:
    assert {row.name for row in NETWORK_LINES} == {
        *("store-closed", "port-in-use", "gloo-no-connection"),
        *("mpi-link", "ucx-link", "ucx-memlock", "ucx-no-interface"),
    }
