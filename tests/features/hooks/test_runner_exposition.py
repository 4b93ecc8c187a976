"""The text of metrics, read by the parser of Prometheus's own client."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from dsrun.launcher.features.hooks.runner_exposition import Metric, joint, text

ODD = 'a"b\\c\nd é\udcff'


def test_what_is_written_is_read() -> None:
    metrics = [
        Metric("ranks", "Ranks by state.", (({"state": "running"}, 3.0), ({"state": ODD}, 0.5))),
        Metric("restarts_total", "Restarts.", (({}, 2.0),)),
        Metric("nothing", "No samples.", ()),
    ]
    written = text(metrics, {"job_id": "j"})
    ranks, restarts, nothing = text_string_to_metric_families(written)
    assert (ranks.name, ranks.type, ranks.documentation) == (
        *("dsrun_ranks", "gauge"),
        "Ranks by state.",
    )
    assert [(one.labels, one.value) for one in ranks.samples] == [
        ({"job_id": "j", "state": "running"}, 3.0),
        ({"job_id": "j", "state": 'a"b\\c\nd é?'}, 0.5),
    ]
    assert restarts.type == "counter"
    assert [(one.name, one.value) for one in restarts.samples] == [("dsrun_restarts_total", 2.0)]
    assert nothing.samples == []


def test_metrics_of_several_things_are_together() -> None:
    """The format wants all samples of a name in one place."""
    ranks = Metric("ranks", "Ranks.", (({"state": "running"}, 3.0),))
    made = joint("role", {"a": [ranks], "b": [ranks, Metric("nodes", "Nodes.", (({}, 1.0),))]})
    assert made == [
        Metric(
            "ranks",
            "Ranks.",
            (
                ({"role": "a", "state": "running"}, 3.0),
                ({"role": "b", "state": "running"}, 3.0),
            ),
        ),
        Metric("nodes", "Nodes.", (({"role": "b"}, 1.0),)),
    ]


def test_one_thing_needs_no_label() -> None:
    ranks = Metric("ranks", "Ranks.", (({"state": "running"}, 3.0),))
    nothing = Metric("nothing", "No samples.", ())
    assert joint("role", {"": [ranks, nothing]}) == [ranks, nothing]
