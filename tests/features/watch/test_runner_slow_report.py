"""What has slowed a job down, in its report and in tables."""

from __future__ import annotations

from dsrun.launcher.common.formats import as_json
from dsrun.launcher.features.watch.runner_slow_report import Slow, causes, fields, lines

from ...support.reports import report

HOST = Slow(60.0, "ranks 2-3 (n2) slow \x1b", "quota", (2, 3), ("n2",))
LINK = Slow(62.5, "the link", "network", (), ("n2", "n4"), 70.0)


REPORT = report(began=50.0, found=(HOST, LINK))


def test_lines_are_of_what_was_slow_until_the_end() -> None:
    assert lines(REPORT, "dsrun: lost n2") == ["  slow: ranks 2-3 (n2) slow \\x1b"]


def test_causes_of_a_rank() -> None:
    now = LINK._replace(until=None)
    assert [
        causes([HOST, now], host, rank) for host, rank in (("n1", 0), ("n2", 2), ("n4", 6))
    ] == [
        "",
        "quota,network",
        "network",
    ]
    assert causes([LINK], "n4", 6) == ""


def test_json() -> None:
    first, second = as_json(fields(REPORT)["slow"])
    assert (first["after_seconds"], first["seconds"], first["cause"]) == (10.0, None, "quota")
    assert (second["ranks"], second["hosts"], second["seconds"]) == ([], ["n2", "n4"], 7.5)
