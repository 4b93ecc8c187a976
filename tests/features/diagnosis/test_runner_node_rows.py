"""Ends that come from outside; `test_corpus` has more of them."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.diagnosis.runner_node_rows import XID_ROWS
from dsrun.launcher.features.diagnosis.runner_row import fits

from .test_corpus import BEGIN, answer


@pytest.mark.parametrize(("number", "defect"), [(79, True), (74, True), (31, False), (7, False)])
def test_xids_of_defects(number: int, defect: bool) -> None:
    (row,) = XID_ROWS
    assert (fits(row, f"xid: Xid {number} on 0000:3b:00: text") is not None) is defect


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('{"level":"warn","message":"Spot interruption payload received: {}"}', "preempted"),
        ("2026-03-31 16:32:36 WARNING watcher: Spot instance interruption notice", "preempted"),
        ("[2026-03-31 16:32:36] WARNING: VM is being preempted by Compute Engine", "preempted"),
        ("[74889.6] NVRM: Xid (PCI:0000:9d:00): 48, pid=1, name=x, DBE", "node"),
        ("[74889.6] NVRM: Xid (PCI:0000:9d:00): 31, pid=1, name=x, MMU Fault", "unknown"),
        ("answer: Spot interruption notices come two minutes before", "unknown"),
        ("2026-03-31 INFO drill 3: 'Spot interruption payload received' was shown", "unknown"),
        ("2026-03-31 INFO the node n4 was evicted from the cache of shapes", "unknown"),
    ],
)
def test_a_line_of_a_cloud_or_the_kernel(line: str, kind: str) -> None:
    assert answer(f"{line}\n", {})[0] == kind


@pytest.mark.parametrize(("number", "kind"), [(15, "preempted"), (1, "preempted"), (2, "unknown")])
def test_a_signal_that_torchruns_agent_got(number: int, kind: str) -> None:
    module = "torch.distributed.elastic.multiprocessing.api"
    text = f"{BEGIN}{module}.SignalException: Process 8 got signal: {number}\n"
    assert answer(text, {})[0] == kind
