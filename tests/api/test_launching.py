"""Jobs that a program launches on this machine, with everything real."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.api import (
    Exit,
    JobError,
    LaunchError,
    Output,
    RankError,
    Round,
    Started,
    launch,
)
from dsrun.launcher.node.machine import processes

from ..support.interrupting import when_interrupts_are_counted
from ..support.launched import alive, begun, printed, program
from ..support.limits import HANG, NEVER, wait_for

if TYPE_CHECKING:
    pass

HERE: dict[str, Any] = {"accelerator": "cpu", "color": "never", "grace": 5}
TWO: dict[str, Any] = {"hosts": "localhost:2", **HERE}
ONE: dict[str, Any] = {"hosts": "localhost:1", **HERE}


def script(folder: Path, text: str) -> Path:
    path = folder / "work.py"
    path.write_text(text)
    return path


# -- results --------------------------------------------------------------------------------------


def test_a_function_runs_on_every_rank(capsys: pytest.CaptureFixture[str]) -> None:
    factor = 3

    def work(base: int, *, more: int) -> tuple[int, int]:
        print("at work")
        return int(os.environ["RANK"]) * factor, base + more

    job = launch(work, [1], {"more": 1}, **TWO)
    assert job.results(HANG) == {0: (0, 2), 1: (3, 2)}
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "localhost:0| at work",
        "localhost:1| at work",
    ]
    assert not alive(job.pid)


def test_a_script_gets_its_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script(tmp_path, "import sys; print(*sys.argv[1:])")
    job = launch(path, ["--lr", 0.5], no_local_rank=True, prefix="", **ONE)
    assert job.results(HANG) == {0: None}
    assert capsys.readouterr().out == "--lr 0.5\n"


def test_functions_are_called_in_forks_of_a_preloader() -> None:
    def work() -> bool:
        return "colorsys" in sys.modules

    assert launch(work, preload=["colorsys"], output=None, **TWO).results(HANG) == {
        0: True,
        1: True,
    }


def test_a_large_result_arrives_whole() -> None:
    job = launch(lambda: b"x" * (12 << 20), output=None, **ONE)
    (value,) = job.results(HANG).values()
    assert (len(value), set(value)) == (12 << 20, {ord("x")})


def test_an_exception_names_rank_and_host_and_has_the_traceback() -> None:
    def work() -> None:
        if os.environ["RANK"] == "1":
            raise LookupError("no such batch")
        signal.pause()

    job = launch(work, output=None, **TWO)
    with pytest.raises(RankError, match=r"^rank 1 on localhost: LookupError: no such") as caught:
        job.results(HANG)
    assert isinstance(caught.value.__cause__, LookupError)
    assert "in work\n" in caught.value.traceback
    assert caught.value.exit_code == 1
    assert [type(one) for one in job.exceptions().values()] == [LookupError]
    assert job.wait().failures[0].rank == 1


def test_a_rank_that_dies_is_named() -> None:
    def work() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RankError, match=r"rank 0 on localhost was killed by SIGKILL \(signal 9\)"):
        launch(work, output=None, **ONE).results(HANG)


def test_an_elastic_job_returns_what_its_last_round_has_returned(tmp_path: Path) -> None:
    flag = tmp_path / "failed"

    def work() -> str:
        if not flag.exists():
            flag.touch()
            raise OSError("once")
        return os.environ["TORCHELASTIC_RESTART_COUNT"]

    job = launch(work, output=None, max_restarts=1, **ONE)
    rounds = [one.number for one in job.events() if isinstance(one, Round)]
    assert (rounds, job.results(HANG)) == ([1, 2], {0: "1"})


# -- the program ----------------------------------------------------------------------------------


def test_planning_changes_nothing_here(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = dict(os.environ), [signal.getsignal(one) for one in signal.Signals], Path.cwd()
    children = processes.children()
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        ("none.py", {}, "no such script: "),
        ("none.py", {"hostfile": str(tmp_path / "x"), "hosts": None}, "--hostfile "),
        ("none.py", {"hostfil": "x"}, "--hostfil: unknown option"),
        (print, {"module": True}, "module: only for a script, not for a function"),
        (print, {"local_rank": True}, "local_rank: only for a script, not for a function"),
        (print, {"output": "file"}, "output: expected "),
    ]
    for target, options, text in wrong:
        with pytest.raises(LaunchError) as caught:
            launch(target, **{**ONE, **options})
        assert str(caught.value).startswith(text)
        assert caught.value.exit_code == 2
    with pytest.raises(LaunchError, match="kwargs: only for a function"):
        launch("none.py", [], {"a": 1})
    assert processes.children() == children
    after = dict(os.environ), [signal.getsignal(one) for one in signal.Signals], Path.cwd()
    assert after == before
    assert capfd.readouterr() == ("", "")


def test_variables_that_set_options_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSRUN_GRACE", "soon")
    with pytest.raises(LaunchError, match=r"^DSRUN_GRACE: expected a duration"):
        launch(print, hosts="localhost")


def test_a_node_that_cannot_be_used_is_a_launch_error(tmp_path: Path) -> None:
    venv = tmp_path / "activate"
    venv.write_text("exit 3\n")
    job = launch(print, venv_script=venv, output=None, **ONE)
    with pytest.raises(LaunchError, match="--venv_script") as caught:
        job.wait(HANG)
    assert caught.value.exit_code == 2  # the only node cannot use it
    assert not alive(job.pid)


def test_two_jobs_at_once() -> None:
    jobs = [launch(lambda one: one * 2, [n], output=None, **ONE) for n in (1, 2)]
    assert len({job.id for job in jobs}) == 2
    assert [job.results(HANG)[0] for job in reversed(jobs)] == [4, 2]


def test_jobs_in_an_event_loop() -> None:
    async def follow() -> list[int]:
        jobs = [launch(lambda one: one, [n], output=None, **ONE) for n in (5, 6)]
        await asyncio.gather(*jobs)
        return [job.results()[0] for job in jobs]

    assert asyncio.run(follow()) == [5, 6]


def test_events_of_a_real_job() -> None:
    job = launch(lambda: print("line"), output=None, **ONE)
    found = list(job.events())
    started = next(one for one in found if isinstance(one, Started))
    assert (started.job_id, started.world_size, started.hosts) == (job.id, 1, ("localhost",))
    printed = b"".join(one.data for one in found if isinstance(one, Output) and one.stream == 1)
    assert printed == b"line\n"
    (ended,) = [one for one in found if isinstance(one, Exit)]
    assert (ended.rank, ended.code, ended.stopped) == (0, 0, False)


# -- the end --------------------------------------------------------------------------------------


def waits(number: int) -> int:
    """Wait for a signal; return its number."""
    seen: list[int] = []
    signal.signal(number, lambda got, _frame: seen.append(got))
    print("up", flush=True)
    while not seen:
        time.sleep(0.02)
    return seen[0]


def test_stacks_can_be_asked_for_at_once() -> None:
    with launch(signal.pause, output=None, **ONE) as job:
        assert job.stacks().fields["ranks"]


def test_signals_reach_the_ranks() -> None:
    job = begun(launch(waits, [int(signal.SIGUSR1)], output=None, **ONE))
    job.signal(signal.SIGUSR1)
    assert job.results(HANG) == {0: signal.SIGUSR1}


@pytest.mark.parametrize("pause", [0.0, 0.02, 0.1])
def test_a_job_may_be_stopped_before_it_has_begun(pause: float) -> None:
    with launch(signal.pause, output=None, **ONE) as job:
        time.sleep(pause)
    assert job.report is not None
    assert (job.report.cause, job.report.exit_code) == ("signal", 143)


def test_a_stopped_job_says_so() -> None:
    with begun(launch(waits, [int(signal.SIGUSR1)], output=None, **ONE)) as job:
        pass
    assert job.report is not None
    assert (job.report.cause, job.report.exit_code) == ("signal", 143)
    with pytest.raises(JobError) as caught:
        job.results()
    assert type(caught.value) is JobError
    assert caught.value.report == job.report


def test_a_rank_that_does_not_stop_is_killed_after_the_grace() -> None:
    def stubborn() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("up", flush=True)
        while True:
            signal.pause()

    job = begun(launch(stubborn, output=None, **{**ONE, "grace": 300}))
    job.stop(0.1)
    assert job.wait(HANG).cause == "signal"


def test_ctrl_c_in_a_real_job() -> None:
    job = begun(launch(waits, [int(signal.SIGUSR1)], output=None, **ONE))
    thread = when_interrupts_are_counted(lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        job.wait(HANG)
    thread.join()
    assert job.wait().data["signal"] == signal.SIGINT


def test_the_death_of_the_process_is_an_error_and_leaves_nothing() -> None:
    def tell() -> None:
        print(os.getpid(), flush=True)
        signal.pause()

    job = launch(tell, output=None, **{**ONE, "heartbeat_timeout": NEVER})
    pid = int(printed(job))
    os.kill(job.pid, signal.SIGKILL)
    with pytest.raises(JobError, match=rf"job {job.id} \(pid {job.pid}\) has died"):
        job.wait(HANG)
    wait_for(lambda: not alive(pid), "the end of its rank")


PROGRAM = """
import os, signal, sys, time
from dsrun.launcher.api import launch

def tell():
    print("rank", os.getpid(), flush=True)
    signal.pause()

if __name__ == "__main__":
    job = launch(tell, hosts="localhost:1", accelerator="cpu", prefix="", output=sys.argv[1],
        heartbeat_timeout=1200)
    fork = os.fork()
    if fork == 0:
        os.close(1)
        os.close(2)
        time.sleep(1200)
        os._exit(0)
    print("runner", job.pid, flush=True)
    print("fork", fork, flush=True)
    job.wait()
"""


@pytest.mark.parametrize("output", ["print", "inherit"])
def test_kill_9_of_the_program_leaves_nothing(output: str, tmp_path: Path) -> None:
    """Not even if a fork of it has kept the socket."""
    with program(tmp_path / "program.py", PROGRAM, output) as (running, stdout):
        told = [stdout.readline().split() for _ in range(3)]
        pids = {name: int(pid) for name, pid in told}
        assert pids.keys() == {"runner", "rank", "fork"}
        running.kill()
        running.wait()
        fork = os.pidfd_open(pids.pop("fork"))
        try:
            wait_for(lambda: not any(map(alive, pids.values())), "the end of the job")
        finally:
            signal.pidfd_send_signal(fork, signal.SIGKILL)
            os.close(fork)
