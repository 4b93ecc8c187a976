"""The metrics of a run, in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from dsrun.launcher.control import frames
from dsrun.launcher.features.hooks.runner import JobHooks
from dsrun.launcher.features.hooks.runner_metrics import INTERVAL
from dsrun.launcher.head.job.ending import ending_of
from dsrun.launcher.head.run.events import Alarm, JobEnded
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.head.run.run_view import ObservedRun
from dsrun.launcher.specs.policies import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


def begun(job: FakeFleet, path: Path) -> tuple[Run, Any]:
    run = job.prepare(hooks=HookPolicy(str(path)))
    metrics = JobHooks(run.spec, run.loop, run.log, run.fleet.node_queries, run.loop.clock)
    metrics.observe(ObservedRun("", run.observe, run.view))
    run.start()
    job.step()
    job.ready(run)
    job.node("n0").beats()
    job.step()
    return run, metrics


def samples(metrics: Any) -> dict[tuple[str, ...], float]:
    """Return the samples that would be written now, without the job's own label."""
    return {
        (one.name.removeprefix("dsrun_"), *sorted({**one.labels, "job_id": ""}.values())[1:]): (
            one.value
        )
        for family in text_string_to_metric_families(metrics._text())
        for one in family.samples
        if one.labels["job_id"] == "job"
    }


def test_a_job_that_loses_a_rank(fleet_of: FleetOf, tmp_path: Path) -> None:
    job, path = fleet_of("n0", "n1"), tmp_path / "m.prom"
    run, metrics = begun(job, path)
    job.up("n0", 0, 1)
    job.up("n1", 2, 3)
    job.node("n1").says(frames.pack_output(3, 1, b"step 1\n"))
    job.step()
    job.clock.go(0.2)
    metrics.writer.write()
    began = samples(metrics)
    job.clock.go(4.0)
    known = samples(metrics)
    assert known["good_seconds_total",] - began["good_seconds_total",] == 4.0
    assert known["output_bytes_total", "3", "n1", "stdout"] == 7
    assert known["last_output_seconds", "3", "n1"] >= 4.0
    assert (known["ranks", "running"], known["nodes",], known["world_size",]) == (4, 2, 4)
    assert (known["rounds_total",], known["restarts_total",]) == (1, 0)
    assert 0 < known["goodput_ratio",] <= 1
    metrics.on_event(Alarm("hang", "report", "rank 3 sleeps"))
    assert samples(metrics)["alarm", "hang"] == 1
    job.node("n1").exits(3, 7)
    job.step()
    job.clock.go(9.0)
    run.handle(RunState.finish)
    metrics.on_event(JobEnded(ending_of(run.view())))
    after = samples(metrics)
    assert (after["ranks", "running"], after["nodes",]) == (3, 2)
    assert after["good_seconds_total",] == known["good_seconds_total",]
    assert (after["ranks", "failed"], after["exit_code",]) == (1, 7)
    metrics.close()
    assert 'dsrun_exit_code{job_id="job"} 7.0' in path.read_text()


def test_the_file_is_written_while_nothing_happens(fleet_of: FleetOf, tmp_path: Path) -> None:
    job, path = fleet_of("n0"), tmp_path / "m.prom"
    run, metrics = begun(job, path)
    job.clock.go(0.2)
    put: list[str] = []
    metrics.writer._file.put = put.append
    for _ in range(2):
        job.clock.go(INTERVAL + 0.1)
    assert len(put) == 2
    run.handle(RunState.finish)
    metrics.on_event(JobEnded(ending_of(run.view())))
    assert len(put) == 3
    metrics.close()


def test_a_file_that_cannot_be_written_is_told_once(fleet_of: FleetOf, tmp_path: Path) -> None:
    job = fleet_of("n0")
    _, metrics = begun(job, tmp_path / "no" / "m.prom")
    metrics.close()
    metrics.writer._on_failure("no space left on device")
    job.step()
    warned = [text for level, text in job.console.said if level == "warning"]
    assert any("no space left on device; the job goes on" in text for text in warned)
