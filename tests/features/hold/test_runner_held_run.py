"""A run for a client: its output, its signals, and its answer."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import unexpected
from dsrun.launcher.common.errors import OUTPUT
from dsrun.launcher.control import frames, local
from dsrun.launcher.control.local_client import running
from dsrun.launcher.head.job import one_program
from dsrun.launcher.specs.policies import HookPolicy, OutputPolicy

from ...support.leaks import open_files
from ...support.local_control import new_name, received, request
from ...support.pictures import embedded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...support.fake_hold import Client, FakeHold

    HoldOf = Callable[..., FakeHold]

ALL = {"n0": [0, 1]}


def started(fake: FakeHold, client: Client) -> None:
    """Have the client's run start."""
    client.run("job", ALL)
    fake.job.ready(fake.run_of("job"))
    fake.job.news("n0")


def test_output_and_report_go_to_the_client_before_the_answer(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client, other = fake.client(), fake.client()
    started(fake, client)
    fake.job.node("n0").prints(1, "out\n")
    fake.job.node("n0").prints(1, "err without an end", stream=2)
    fake.job.step()
    fake.job.node("n0").exits(1, 3)
    fake.job.step()
    fake.job.node("n0").stops(0)
    answer = client.wait(1)
    printed = client.printed()
    assert "n0:1| out\n" in printed
    assert "n0:1| err without an end\n" in printed
    assert "rank 1" in printed
    assert answer["code"] == 3
    assert answer["report"]["exit_code"] == 3
    assert other.got == []
    assert all("rank 1" not in text for _, text in fake.job.console.said)


def test_each_run_leaves_neither_threads_nor_descriptors(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    threads, first = set(threading.enumerate()), 0
    reads = 2  # the test's own ends of the pipes
    for number in range(1, 6):
        client.run("job", ALL)
        run = fake.run_of("job")
        fake.job.ready(run)
        fake.job.end_well(run)
        assert client.wait(number)["code"] == 0
        fake.wait_for(lambda: threads.issuperset(threading.enumerate()))
        first = first or len(open_files())
        assert len(open_files()) == first + reads * (number - 1)


def test_what_is_told_of_a_run_is_told_before_the_answer_and_leaves_no_thread(
    hold_of: HoldOf, tmp_path: Path
) -> None:
    """While the last command runs, the slots are free, and the hold serves others."""
    fake = hold_of("n0").ready()
    client, other = fake.client(), fake.client()
    threads, gate = set(threading.enumerate()), tmp_path / "gate"
    os.mkfifo(gate)
    command = f"[ $DSRUN_EVENT = start ] || {{ cat {gate}; echo no >&2; exit 3; }}"
    hooks = HookPolicy(str(tmp_path / "m.prom"), command)
    client.run("job", ALL, hooks=hooks)
    run = fake.run_of("job")
    fake.job.ready(run)
    fake.job.end_well(run)
    fake.job.go(1)
    assert client.answer_to(1) is None
    described = other.ask("describe")
    assert described is not None
    assert described["hosts"][0]["state"] == "free"
    gate.write_text("")
    assert client.wait(1)["code"] == 0
    assert "dsrun_exit_code" in (tmp_path / "m.prom").read_text()
    assert "dsrun: --on_event for end: exit code 3: no\n" in client.printed()
    fake.wait_for(lambda: threads.issuperset(threading.enumerate()))


def test_the_report_file_of_a_program_is_written_before_the_answer(
    hold_of: HoldOf, tmp_path: Path
) -> None:
    fake = hold_of("n0").ready()
    client, path = fake.client(), tmp_path / "r.json"
    client.run("job", ALL, relay=0, output=OutputPolicy(report_file=str(path)))
    run = fake.run_of("job")
    fake.job.ready(run)
    fake.job.end_well(run)
    answer = client.wait(1)
    assert json.loads(path.read_text()) == answer["report"]


@pytest.mark.parametrize("relay", [0, None])
def test_a_picture_is_drawn_by_the_hold_which_knows_what_has_happened(
    relay: int | None, hold_of: HoldOf, tmp_path: Path
) -> None:
    fake = hold_of("n0").ready()
    client, path = fake.client(), tmp_path / "r.html"
    client.run("job", ALL, relay=relay, output=OutputPolicy(report_file=str(path)))
    run = fake.run_of("job")
    fake.job.ready(run)
    fake.job.end_well(run)
    assert client.wait(1)["code"] == 0
    assert embedded(path.read_text())["hosts"] == ["n0"]


def test_a_program_hears_of_a_report_file_that_cannot_be_written(
    hold_of: HoldOf, tmp_path: Path
) -> None:
    fake = hold_of("n0").ready()
    client, path = fake.client(), tmp_path / "no" / "r.json"
    client.run("job", ALL, relay=0, output=OutputPolicy(report_file=str(path)))
    run = fake.run_of("job")
    fake.job.ready(run)
    fake.job.end_well(run)
    answer = client.wait(1)
    assert answer["code"] == answer["report"]["exit_code"] == OUTPUT
    logged = [one["text"] for kind, one in client.got if kind == frames.EVENT and "text" in one]
    assert f"--report_file {path}: no such file or directory" in logged


def test_a_command_writes_its_report_file_itself_unless_it_is_killed(
    hold_of: HoldOf, tmp_path: Path
) -> None:
    fake = hold_of("n0").ready()
    for path, leaves in ((tmp_path / "lives", False), (tmp_path / "killed", True)):
        client = fake.client()
        client.run(path.name, ALL, output=OutputPolicy(report_file=str(path)))
        run = fake.run_of(path.name)
        fake.job.ready(run)
        if leaves:
            client.leave()
            fake.job.step()
            fake.job.node("n0").stops(0, 1)
            fake.wait_for(lambda path=path: path.exists() and path.read_text())  # type: ignore[misc]
        else:
            fake.job.end_well(run)
            assert client.wait(1)["code"] == 0
    fake.wait_for(lambda: not fake.hold.runs)
    assert not (tmp_path / "lives").exists()
    assert json.loads((tmp_path / "killed").read_text())["exit_code"] == 128 + signal.SIGHUP


def test_a_program_that_leaves_before_its_turn_has_a_report_file(
    hold_of: HoldOf, tmp_path: Path
) -> None:
    fake = hold_of("n0").ready()
    first, second = fake.client(), fake.client()
    started(fake, first)
    second.run("other", ALL, relay=0, output=OutputPolicy(report_file=str(tmp_path / "r")))
    second.leave()
    fake.wait_for((tmp_path / "r").exists)
    fake.wait_for(lambda: (tmp_path / "r").read_text().endswith("}\n"))
    report = json.loads((tmp_path / "r").read_text())
    assert report == {
        "format": 1,
        "job_id": "other",
        "exit_code": 128 + signal.SIGHUP,
        "error": "stopped by SIGHUP before it started",
    }


def test_a_program_that_does_not_wait_has_a_report_file_if_it_is_refused(
    hold_of: HoldOf, tmp_path: Path
) -> None:
    fake = hold_of("n0").ready()
    first, second = fake.client(), fake.client()
    started(fake, first)
    output = OutputPolicy(report_file=str(tmp_path / "r"))
    second.run("other", ALL, relay=0, busy="refuse", output=output)
    refused = second.wait(1)
    assert (refused["ok"], refused["code"]) == (False, 69)
    report = json.loads((tmp_path / "r").read_text())
    expected = {"job_id": "other", "exit_code": 69, "error": refused["error"]}
    assert report == {"format": 1, **expected}
    assert "slots are in use by job" in refused["error"]


def test_nothing_is_written_to_streams_of_a_command_that_is_gone(
    hold_of: HoldOf, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the same name the hold has streams of its own."""
    fake = hold_of("n0").ready()
    client = fake.client()
    client.run("job", ALL, output=OutputPolicy(report_file="/dev/stdout"))
    fake.job.ready(fake.run_of("job"))
    client.leave()
    fake.job.step()
    fake.job.node("n0").stops(0, 1)
    fake.wait_for(lambda: not fake.hold.runs and not fake.hold._users)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_of_the_client_ends_its_run(hold_of: HoldOf, number: int) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    started(fake, client)
    assert client.ask("signal", number=number) == {"ok": True, "id": 2}
    ((kind, stop),) = fake.job.news("n0")
    assert (kind, stop["number"]) == ("STOP", number)
    fake.job.node("n0").stops(0, 1)
    assert client.wait(1)["code"] == 128 + number


def test_the_release_of_a_hold_is_the_reason_and_no_signal(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client, waits = fake.client(), fake.client()
    started(fake, client)
    waits.run("second", ALL)
    fake.hold.stop(0)
    assert waits.wait(1)["error"] == "stopped by dsrun-hold --release before it started"
    fake.job.node("n0").stops(0, 1)
    client.wait(1)
    printed = client.printed()
    assert "dsrun: dsrun-hold --release: stopping 2 ranks" in printed
    assert "dsrun: stopped by dsrun-hold --release after" in printed
    assert "SIGTERM" not in printed


def test_other_signals_are_passed_on_and_ctrl_z_is_not(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    started(fake, client)
    for number in (signal.SIGUSR1, signal.SIGTSTP, signal.SIGQUIT):
        client.ask("signal", number=number)
    assert fake.job.kinds("n0") == ["SIGNAL"]
    fake.wait_for(lambda: "running: " in client.printed())


def test_it_is_a_job_for_dsrun_job_while_it_runs(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client, job = fake.client(), new_name()
    client.run(job, ALL)
    assert job in running(local.JOB)
    run = fake.run_of(job)
    fake.job.ready(run)
    fake.job.end_well(run)
    client.wait(1)
    assert job not in running(local.JOB)


def test_its_end_is_told_to_those_who_wait_while_the_hold_goes_on(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client, job = fake.client(), new_name()
    client.run(job, ALL)
    run = fake.run_of(job)
    fake.job.ready(run)
    line, fd = socket.socket(socket.AF_UNIX), os.memfd_create("report")
    line.connect(f"\0{local.address(local.JOB, job)}")
    socket.send_fds(line, [request(do="wait", id=1, fds=1)], [fd])
    fake.wait_for(lambda: received(line) == [(frames.EVENT, {"event": "Waiting"})])
    fake.job.end_well(run)
    client.wait(1)
    assert received(line) == [(frames.ANSWER, {"ok": True, "code": 0, "id": 1})]
    line.close()
    assert json.loads(os.pread(fd, 1 << 16, 0))["text"] == ""
    os.close(fd)


def test_a_client_that_is_gone_ends_its_run(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    started(fake, client)
    client.leave()
    fake.job.step()
    kind, stop = fake.job.news("n0")[0]
    assert (kind, stop["number"]) == ("STOP", signal.SIGHUP)
    fake.job.node("n0").stops(0, 1)
    fake.wait_for(lambda: not fake.hold.runs)


def test_one_that_waits_ends_at_once(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client, interrupted, gone = fake.client(), fake.client(), fake.client()
    started(fake, client)
    interrupted.run("second", ALL)
    gone.run("third", ALL)
    interrupted.ask("signal", number=signal.SIGUSR1)
    assert interrupted.answer_to(1) is None
    interrupted.ask("signal", number=signal.SIGINT)
    answer = interrupted.wait(1)
    assert (answer["code"], answer["error"]) == (130, "stopped by SIGINT before it started")
    gone.leave()
    fake.job.step()
    assert list(fake.hold.runs) == ["job"]


def test_a_node_that_was_lost_while_it_waited(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client, second = fake.client(), fake.client()
    started(fake, client)
    second.run("second", ALL)
    fake.job.node("n0").leaves()
    fake.job.go(1)
    assert client.wait(1)["code"] == 75
    answer = second.wait(1)
    assert answer["code"] == 69
    assert answer["error"].startswith("n0: ")
    assert answer["error"].endswith("; looking for it")


def test_a_lost_node_ends_the_run_and_is_looked_for(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1").ready()
    client = fake.client()
    client.run("job", {"n0": [0], "n1": [0]})
    fake.job.ready(fake.run_of("job"))
    fake.job.node("n1").leaves()
    fake.job.step()
    fake.job.node("n0").stops(0)
    fake.job.go(1)
    assert client.wait(1)["code"] == 75
    assert fake.hold.nodes.lost("n1")
    fake.job.go(2)
    assert fake.job.node("n1").got(frames.JOB)()


def test_elastic_jobs_use_the_nodes_of_the_hold(hold_of: HoldOf) -> None:
    """With as many nodes as there are; a failure forms another round on them."""
    from dsrun.launcher.specs.policies import ElasticPolicy

    fake = hold_of("n0", "n1").ready()
    client = fake.client()
    limits = ElasticPolicy(least=1, most=2, restarts=1)
    client.run("job", {"n0": [0], "n1": [0]}, elastic=limits)
    run = fake.run_of("job")
    fake.job.ready(run)
    assert fake.run_of("job").started
    assert "START" in fake.job.kinds("n0")
    for node in run.nodes:
        fake.job.node(node.name).done()
    fake.job.go(1)
    client.wait(1)
    assert not fake.hold.runs


def relayed(client: Client) -> tuple[list[str], bytes]:
    """Return the names of the events that a client has got, and the chunks."""
    events = [one["event"] for kind, one in client.got if kind == frames.EVENT]
    return events, b"|".join(one for kind, one in client.got if kind == frames.CHUNK)


@pytest.mark.parametrize("streams", [0, 2])
def test_a_program_gets_events_output_and_reports(hold_of: HoldOf, streams: int) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    client.run("job", ALL, relay=streams, payload="Zm9v")
    fake.job.ready(fake.run_of("job"))
    fake.job.node("n0").prints(1, "out\n")
    fake.job.node("n0").says(frames.pack_output(1, 3, b"report"))
    fake.job.node("n0").exits(0, 0)
    fake.job.node("n0").exits(1, 0)
    fake.job.node("n0").done()
    answer = client.wait(1)
    assert (answer["code"], answer["text"]) == (0, "")
    events, chunks = relayed(client)
    assert [one for one in events if one != "Log"] == [
        "Started",
        *(["Label"] if not streams else []),
        *("Exit", "Exit"),
    ]
    report = b"\0\0\0\1\3report"
    assert chunks == (report if streams else b"\0\0\0\1\1out\n|" + report)
    assert ("n0:1| out" in client.printed()) is bool(streams)


def test_a_program_may_send_any_signal_and_name_a_grace(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    client.run("job", ALL, relay=0)
    fake.job.ready(fake.run_of("job"))
    fake.job.news("n0")
    assert client.ask("signal", number=int(signal.SIGWINCH)) == {"ok": True, "id": 2}
    assert fake.job.kinds("n0") == ["SIGNAL"]
    refused = client.ask("stop", grace="long")
    assert refused is not None
    assert refused["error"] == "grace: expected seconds, not 'long'"
    client.ask("stop", grace=2)
    assert fake.job.news("n0") == [["STOP", {"number": 15, "grace": 2.0}]]


def test_streams_that_do_not_fit_the_request(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    answer = fake.client().run("job", ALL, relay=1)
    assert answer is not None
    assert answer["error"] == "invalid request to run a job"


def test_a_fault_in_the_report_of_a_job_ends_no_other_job(
    hold_of: HoldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = hold_of("n0").ready()
    monkeypatch.setattr(unexpected, "observers", [])
    client = fake.client()
    client.run("faulty", ALL)
    fake.job.ready(fake.run_of("faulty"))
    with monkeypatch.context() as broken:
        broken.setattr(one_program, "ending_of", None)
        client.ask("stop", grace=0)
        for node in fake.job.nodes():
            node.done()
        answer = client.wait(1)
    assert (answer["code"], answer["ok"]) == (70, False)
    assert answer["error"] == "TypeError: 'NoneType' object is not callable"
    assert not fake.hold.runs
    started(fake, fake.client())


def test_a_fault_of_dsrun_ends_the_job_alone_and_frees_its_slots(
    hold_of: HoldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = hold_of("n0").ready()
    monkeypatch.setattr(unexpected, "observers", [])
    with monkeypatch.context() as broken:
        broken.setitem(vars(one_program), "doors", None)
        client = fake.client()
        client.run("faulty", ALL)
        answer = client.wait(1)
    assert (answer["code"], answer["ok"]) == (70, False)
    assert answer["error"] == "AttributeError: 'NoneType' object has no attribute 'restart_policy'"
    assert not fake.hold.runs
    started(fake, fake.client())
