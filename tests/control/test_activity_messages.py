"""ACTIVITY, there and back."""

from __future__ import annotations

import json

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.activity_messages import Activity, LinkActivity, RankActivity

ROW = RankActivity(3, 4003, "S", 12.5, 0.25, 1 << 40, 77, 2.5, traced=False, main=3.5)
LINK = LinkActivity("10.0.0.2", 1 << 40, 1.5, 3, 0.01)
ACTIVITY = Activity(99.25, 0.5, (ROW, ROW._replace(rank=4, state="")), (LINK,))
BODY = messages.pack(frames.ACTIVITY, ACTIVITY)[5:]


def test_activity_comes_back_with_its_rows() -> None:
    assert messages.unpack(Activity, BODY) == ACTIVITY


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"clock": None}, "clock: expected float"),
        ({"throttled": "1"}, "throttled: expected float"),
        ({"ranks": [list(ROW)[:-1]]}, r"ranks\[0\].*: expected"),
        ({"ranks": [list(ROW._replace(moved=-1))]}, r"ranks\[0\].*: expected"),
        ({"links": [list(LINK._replace(sent=-1))]}, r"links\[0\].*: expected"),
        ({"ranks": [list(ROW._replace(idle=None))]}, r"ranks\[0\].*: expected"),  # type: ignore[arg-type]
    ],
)
def test_values_of_another_type_are_refused(wrong: dict[str, object], fault: str) -> None:
    changed = json.dumps({**json.loads(BODY), **wrong}).encode()
    with pytest.raises(frames.BadFrame, match=f"^{fault}"):
        messages.unpack(Activity, changed)
