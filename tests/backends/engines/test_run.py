"""A run of an engine: what its output and its end mean for the job."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import backends
from dsrun.launcher.backends.engines import run
from dsrun.launcher.backends.engines.base import Engine
from dsrun.launcher.backends.events import (
    BackendWarning,
    EngineEnded,
    EngineOutput,
    SessionEnded,
    SessionOutput,
    SessionsBegun,
    TokenAnnounced,
)
from dsrun.launcher.common.errors import LOST, SWEPT
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import auth
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import lay_out

from ...support.limits import HANG, wait_for
from ..commands import all_events, events, install, progress

if TYPE_CHECKING:
    from pathlib import Path

    from dsrun.launcher.backends.base import Backend
    from dsrun.launcher.backends.events import BackendEvent

NODES = lay_out([Host("n1", (0,)), Host("n2", (0,))])
LABELS = [f"[1,{at}]<stdout>:" for at in range(2)]
TOKENS = "".join(
    f"echo '{label}{auth.announcement(f'{at}@n{at + 1}', 'T')}'\n"
    for at, label in enumerate(LABELS)
)
ANNOUNCED: list[BackendEvent] = [TokenAnnounced(0, "0@n1", "T"), TokenAnnounced(1, "1@n2", "T")]


@pytest.fixture(autouse=True)
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def engine(folder: Path, text: str, *, rank_per_task: bool = False) -> Backend:
    """Return Open MPI, whose mpirun is a shell script."""
    install(folder, "mpirun", f'[ "$1" = --version ] && exec echo open-mpi.org\n{text}')
    settings = BackendSettings(sys.executable, "/", rank_per_task=rank_per_task)
    backend = backends.load("openmpi", settings)
    assert backend.problem(NODES) == ""
    return backend


def test_tokens_and_an_ordinary_end(tmp_path: Path) -> None:
    found = events(engine(tmp_path, TOKENS), NODES)
    assert found == [*ANNOUNCED, EngineEnded("mpirun ended (exit code 0)", LOST, False)]


def test_what_it_prints_explains_its_end(tmp_path: Path) -> None:
    text = "echo -----; echo; echo 'not enough slots' >&2; kill -9 $$"
    found = events(engine(tmp_path, text), NODES)
    cause = "mpirun ended (SIGKILL): not enough slots"
    assert found == [EngineOutput("mpirun: not enough slots"), EngineEnded(cause, LOST, True)]


HARMLESS = {
    "openmpi": "[login:7] plm:ssh: Warning: setpgid(42,42) failed in parent with"
    " errno=Permission denied(13)",
    "slurm": "srun: cluster configuration lacks support for cpu binding",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_an_engine_prints_in_healthy_jobs_is_not_shown(tmp_path: Path, name: str) -> None:
    one = backends.load(name, BackendSettings(sys.executable, "/"))
    assert isinstance(one, Engine)
    pattern = one.harmless
    assert re.search(pattern, HARMLESS[name])
    assert not re.search(pattern, "srun: error: Unable to create step: cpu binding invalid")
    text = f"echo '{HARMLESS['openmpi']}' >&2; echo 'not enough slots' >&2; exit 9"
    found = events(engine(tmp_path, text), NODES)
    cause = "mpirun ended (exit code 9): not enough slots"
    assert found == [EngineOutput("mpirun: not enough slots"), EngineEnded(cause, LOST, False)]


@pytest.mark.parametrize(("rank_per_task", "code"), [(True, 9), (False, LOST)])
def test_the_exit_code_of_a_rank_is_the_jobs_own(
    tmp_path: Path, code: int, *, rank_per_task: bool
) -> None:
    found = events(engine(tmp_path, "exit 9", rank_per_task=rank_per_task), NODES)
    assert found == [EngineEnded("mpirun ended (exit code 9)", code, False)]


def test_a_host_that_its_ssh_cannot_reach_is_named_by_its_line(tmp_path: Path) -> None:
    line = "ssh: connect to host n2 port 22: Connection refused"
    found = events(engine(tmp_path, f"echo '{line}' >&2; exit 1"), NODES, ends=2)
    (end,) = [event for event in found if isinstance(event, SessionEnded)]
    assert (end.rank, end.cause.partition(" (")[0]) == (
        1,
        "connection refused: no sshd on that port",
    )


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "kex_exchange_identification: Connection closed by remote host",
            "its sshd dropped the connection (kex_exchange_identification: Connection closed by"
            " remote host)",
        ),
        ("ssh: connect to host n1 port 22: Connection refused", "Intel MPI could not reach it"),
        ("nothing of it", "Intel MPI could not reach it"),
    ],
)
def test_what_ssh_says_without_a_host_is_the_reason_of_the_host_that_is_named(
    tmp_path: Path, said: str, cause: str
) -> None:
    named = "[mpiexec@login] Error: Unable to run bstrap_proxy on n2 (pid 7, exit code 65280)"
    script = f"echo '{said}' >&2; echo '{named}' >&2; exit 1"
    found = events(engine(tmp_path, script), NODES, ends=2)
    causes = {one.rank: one.cause for one in found if isinstance(one, SessionEnded)}
    assert causes[1].startswith(cause)


def test_a_new_host_key_is_worth_a_warning(tmp_path: Path) -> None:
    line = "Warning: Permanently added 'n2' (RSA) to the list of known hosts."
    found = events(engine(tmp_path, f'echo "{line}" >&2'), NODES)
    assert BackendWarning("n2: accepted its new RSA host key") in found


def test_a_lost_host_is_told_before_the_engine_ends_the_others_and_once(tmp_path: Path) -> None:
    text = f"{TOKENS}echo 'ORTE has lost communication with a remote daemon.'; exit 1"
    found = events(engine(tmp_path, text), NODES)
    ends = [event for event in found if isinstance(event, EngineEnded)]
    assert ends == [
        EngineEnded("mpirun: ORTE has lost communication with a remote daemon.", LOST, False)
    ]


def test_the_end_of_a_run_for_one_node_is_that_nodes(tmp_path: Path) -> None:
    text = 'case "$*" in *--node=n2*) exit 3;; *) exec sleep 1200;; esac'
    found = events(engine(tmp_path, text), NODES, NODES[1:])
    assert found[0] == SessionEnded(1, "mpirun ended (exit code 3)")


def test_it_is_stopped_though_it_ignores_what_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "EXIT_TIMEOUT", 0.1)
    monkeypatch.setattr(run, "TERM_INTERVAL", 0.1)
    stubborn = f"{TOKENS}trap '' TERM; echo up; while :; do sleep 1; done"
    backend = engine(tmp_path, stubborn)
    loop = Loop()
    found: list[BackendEvent] = []

    def emit(event: BackendEvent) -> None:
        found.append(event)
        if event == EngineOutput("mpirun: up"):
            loop.stop()

    backend.start(NODES, loop, emit, None)
    loop.call_later(HANG, loop.stop)
    loop.run()
    backend.close()
    assert found[-1] == EngineEnded("mpirun ended (SIGKILL): up", LOST, False)


def test_what_it_has_started_does_not_outlive_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its ssh client does, in a session of its own, whose host is cut off."""
    monkeypatch.setattr(run, "EXIT_TIMEOUT", 0.1)
    agent = (
        f"setsid sh -c 'trap \"touch {tmp_path}/told; exit\" TERM; while :; do sleep 0.02; done'"
    )
    backend = engine(tmp_path, f"{TOKENS}{agent} &\necho up; trap 'exit 1' TERM; wait")
    loop = Loop()
    backend.start(
        NODES, loop, lambda it: loop.stop() if it == EngineOutput("mpirun: up") else None, None
    )
    loop.call_later(HANG, loop.stop)
    loop.run()
    backend.close()
    wait_for((tmp_path / "told").exists, "the end of its agent")


def test_what_a_task_prints_is_about_its_own_node(tmp_path: Path) -> None:
    """It cannot speak for another task, nor for the engine."""
    said, refused = auth.announcement("1@n2", "T"), "ssh: connect to host n2: Connection refused"
    known = "Warning: Permanently added 'n2' (RSA) to the list of known hosts."
    lost = "ORTE has lost communication with a remote daemon."
    printed = (said, refused, known, lost, f"{LABELS[1]}{said}", f"x{LABELS[1]}{said}")
    lines = [f'echo "{LABELS[0]}{line}"' for line in printed]
    found = events(engine(tmp_path, "\n".join([TOKENS, *lines])), NODES)
    assert [one for one in found if isinstance(one, TokenAnnounced)] == [
        *ANNOUNCED,
        TokenAnnounced(0, "1@n2", "T"),
    ]
    others = [one for one in found if not isinstance(one, TokenAnnounced | EngineOutput)]
    (end,) = others
    assert isinstance(end, EngineEnded)


def test_what_a_task_prints_of_its_own_host_is_its_end(tmp_path: Path) -> None:
    line = f"{LABELS[1]}[proxy:0:1@n2] HYDU_create_process: execvp error on file /no/python"
    found = events(engine(tmp_path, f"echo '{line}'; exec sleep 1200"), NODES)
    assert [one.rank for one in found if isinstance(one, SessionEnded)] == [1]


def test_what_a_guard_says_is_the_end_of_its_own_node(tmp_path: Path) -> None:
    """It has cleaned up there, so nothing is left. Without a label nobody has said it."""
    said = f"the node launcher was killed by SIGKILL; {SWEPT}"
    lines = f"echo '{LABELS[1]}{said}'; echo '{said}'"
    found = events(engine(tmp_path, f"{TOKENS}{lines}"), NODES)
    assert [one for one in found if isinstance(one, SessionEnded)] == [SessionEnded(1, said)]


def test_a_task_too_many_is_none_of_the_jobs(tmp_path: Path) -> None:
    line = f"[1,2]<stdout>:{auth.announcement('2@n3', 'T')}"
    found = events(engine(tmp_path, f"echo '{line}'"), NODES)
    assert not [one for one in found if isinstance(one, TokenAnnounced)]


def test_labels_that_are_turned_off_are_told_of(tmp_path: Path) -> None:
    found = events(engine(tmp_path, f"echo '{auth.announcement('0@n1', 'T')}'"), NODES)
    assert found[0] == BackendWarning(
        "mpirun does not label each line of output with its node; remove output options from"
        " --launcher_args"
    )


def test_from_when_nodes_are_started_and_what_each_prints(tmp_path: Path) -> None:
    text = f"echo '{LABELS[1]}Welcome'; echo 'of mpirun'\n{TOKENS}"
    assert progress(engine(tmp_path, text), NODES) == [
        SessionsBegun((0, 1)),
        SessionOutput(1, "Welcome"),
    ]


def test_the_time_in_the_queue_of_a_scheduler_is_none_in_which_nodes_are_started(
    tmp_path: Path,
) -> None:
    """Of a step that waits for its turn srun says nothing."""
    started: list[object] = []
    made = engine(tmp_path, f"echo 'srun: queued and waiting for resources'; {TOKENS}")
    made.queues = True  # type: ignore[attr-defined]
    for event in all_events(made, NODES):
        if isinstance(event, SessionsBegun | TokenAnnounced | EngineOutput):
            started.append(type(event))
    assert started == [EngineOutput, SessionsBegun, TokenAnnounced, TokenAnnounced]


@pytest.mark.parametrize(
    "line",
    [
        "fish: Unsupported use of '='. In fish, please use 'set PATH /usr/bin'.",
        "bash: line 1: orted: command not found",
        "sh: 1: /opt/mpich/bin/hydra_pmi_proxy: not found",
    ],
)
def test_a_login_shell_that_cannot_run_an_engines_command_ends_the_start(
    tmp_path: Path, line: str
) -> None:
    """The engine would wait for ever."""
    found = events(engine(tmp_path, f'echo "{line}" >&2; exec sleep 1200'), NODES)
    why = "the login shell of a host could not run its command"
    assert found[1:] == [EngineEnded(f"mpirun: {why}: {line}", LOST, False)]


@pytest.mark.parametrize(
    "line", ["fish: Unknown command: module", "bash: module: command not found", "fish: no more"]
)
def test_what_start_up_files_and_workers_print_ends_nothing(tmp_path: Path, line: str) -> None:
    """Nor does what is printed once all node launchers are there."""
    there = TOKENS if line == "fish: no more" else ""
    found = events(engine(tmp_path, f"{there}echo '{line}'\n{TOKENS}exit 3"), NODES)
    ends = [one for one in found if isinstance(one, EngineEnded)]
    assert [one.cause.partition(" (")[0] for one in ends] == ["mpirun ended"]
