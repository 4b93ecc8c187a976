"""Ends that come from outside; `test_corpus` has more of them."""

from __future__ import annotations

import pytest

from dsrun.launcher.head.diagnosis.node_rows import XID_ROWS
from dsrun.launcher.head.diagnosis.row import fits


@pytest.mark.parametrize(("number", "defect"), [(79, True), (74, True), (31, False), (7, False)])
def test_xids_of_defects(number: int, defect: bool) -> None:
    (row,) = XID_ROWS
    assert (fits(row, f"xid: Xid {number} on 0000:3b:00: text") is not None) is defect
