"""docs/full_check.md has the values and the codes of the network's verdict."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.full_check.runner_link_words import ADVICE
from dsrun.launcher.features.full_check.runner_verdict import METRICS, LinkMetric

from ..support.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs" / "full_check.md").read_text(encoding="utf-8")

AMOUNTS = {"loss": "{:g} %", "latency": "{:g} ms"}
SCALE = {"loss": 100, "latency": 1000}


@pytest.mark.parametrize("metric", METRICS[1:], ids=lambda metric: str(metric.name))
def test_the_page_has_the_values_of_a_metric(metric: LinkMetric) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{metric.name}`:")]
    amount = metric.amount * SCALE.get(metric.name, 0)
    shown = AMOUNTS.get(metric.name, "").format(amount)
    assert [cell.strip() for cell in row.split("|")][2:4] == [f"{metric.factor:g}", shown]


def test_the_page_has_every_code() -> None:
    codes = [f"`{kind}_{metric.name}`" for metric in METRICS for kind in ("node", "link")]
    assert [code for code in codes if code not in PAGE] == []


def test_there_is_advice_for_every_metric() -> None:
    assert set(ADVICE) == {metric.name for metric in METRICS}
