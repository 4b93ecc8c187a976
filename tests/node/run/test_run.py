"""Histories of one run on a node: frames in, workers as real processes, frames out."""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.messages import Probe, Start
from dsrun.launcher.control.role_messages import PortsAsk
from dsrun.launcher.features.diagnosis import node_death_watch as death_watch
from dsrun.launcher.features.diagnosis import node_memory as memory
from dsrun.launcher.features.diagnosis import node_port_watch as port_watch
from dsrun.launcher.features.diagnosis.node_kernel_log import KernelLog
from dsrun.launcher.node.machine import leftovers, ports, processes
from dsrun.launcher.node.run import run
from dsrun.launcher.node.run.run_state import NodeRunPhase
from dsrun.launcher.node.workers.spawn import spawn
from dsrun.launcher.specs.policies import BindingPolicy
from dsrun.launcher.specs.program import Program

from ...support.fake_runner import TRAP
from ...support.launcher_name import NAME
from ...support.limits import NEVER
from ...support.played_run import Played
from ...support.tasks import task_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dsrun.launcher.node.workers.spawn import Process, WorkerSpec


START = Start(0, (0,), 1, 0, 1, "h", 29500, 1 << 20)
TWO = START._replace(slots=(0, 1), world_size=2)

pytestmark = pytest.mark.usefixtures("adopting")


def shell(text: str) -> Program:
    """A program that is a shell text."""
    return Program("/bin/sh", ("-c", text), no_python=True, local_rank=False)


def python(text: str) -> Program:
    """One that is a Python text."""
    return Program(sys.executable, ("-ISc", text), no_python=True, local_rank=False)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Played]]:
    """Make a run of a program."""

    def made(program: Program, **fields: Any) -> Played:
        usual: dict[str, Any] = {
            "dsrun": __version__,
            "job_id": "j",
            "host": "n0",
            "workdir": str(tmp_path),
            "env": {"DSRUN_ACCELERATOR": "cpu"},
            "slots": (0,),
            "port": None,
        }
        return Played(task_of(program=program, **usual | fields))

    yield made
    signal.set_wakeup_fd(-1)


# -- from start to end ----------------------------------------------------------------------------


def test_workers_start_print_and_end(make: Callable[..., Played]) -> None:
    played = make(shell("echo $RANK $LOCAL_RANK $WORLD_SIZE; exit $LOCAL_RANK"))
    assert (played.run.phase, played.run.active) == (NodeRunPhase.PREPARED, False)
    played.run.start(TWO._replace(first_rank=4, world_size=6))
    assert (played.run.phase, played.run.active) == (NodeRunPhase.RUNNING, True)
    assert [one.spec.rank for one in played.run.workers] == [4, 5]
    done = played.done()
    assert not played.run.active
    assert sorted(played.output().splitlines()) == ["4 0 6", "5 1 6"]
    assert sorted(played.exits()) == [(4, 0, False), (5, 1, False)]
    (started,) = played.all(frames.STARTED)
    assert started == {"ranks": [4, 5], "pids": [one.pid for one in played.run.workers]}
    assert done["tails"] == {"5": ["5 1 6\n", ""]}
    assert (done["left"], played.run.left) == ([], ())


def test_addresses_are_probed_before_the_start(make: Callable[..., Played]) -> None:
    played = make(shell("true"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        probe = Probe(("127.0.0.1",), listener.getsockname()[1])
        for frame in frames.Decoder().feed(messages.pack(frames.PROBE, probe)):
            played.run.receive(*frame)
        played.until(lambda: played.names() == ["PROBED"])
    assert played.all(frames.PROBED) == [{"verdicts": [""]}]
    played.run.close()


def test_workers_may_call_a_function(make: Callable[..., Played]) -> None:
    head = json.dumps({"path": [], "python": sys.version_info[:2]}).encode()
    payload = base64.b64encode(head + b"\n" + pickle.dumps((os.getenv, ("RANK",), {})))
    played = make(Program("call.py"), payload=payload.decode())
    played.run.start(TWO)
    played.done()
    assert sorted(played.exits()) == [(0, 0, False), (1, 0, False)]
    reports = {0: b"", 1: b""}
    for kind, body in played.received:
        if kind == frames.OUTPUT:
            rank, stream, data = frames.unpack_output(body)
            assert stream == 3
            reports[rank] += data
    values = [pickle.loads(report.partition(b"\n")[2]) for report in reports.values()]
    assert values == ["0", "1"]


def test_one_worker_of_a_node_may_be_enough(make: Callable[..., Played]) -> None:
    played = make(shell("echo $RANK"))
    played.run.start(TWO._replace(only=1))
    played.done()
    assert played.exits() == [(1, 0, False)]


def test_what_a_failed_worker_leaves_is_in_done(
    make: Callable[..., Played], tmp_path: Path
) -> None:
    """Its last output, what torch's `record` keeps, and where its log is."""
    text = """
        echo out; echo err >&2
        echo '{"message": {"message": "boom", "extraInfo": {"py_callstack": "stack"}}}' \\
            >$TORCHELASTIC_ERROR_FILE
        exit 7"""
    logs = []
    for log_dir in ("", "logs"):
        played = make(shell(text), log_dir=log_dir)
        played.run.start(START)
        done = played.done()
        assert done["tails"] == {"0": ["out\n", "err\n"]}
        assert done["recorded"] == {"0": ["boom", "stack"]}
        logs.append(done["logs"])
    assert logs == [{}, {"0": str(tmp_path / "logs" / "j" / "rank-0000.err")}]
    assert (tmp_path / "logs" / "j" / "rank-0000.out").read_text() == "out\n"


@pytest.mark.parametrize(
    ("slots", "only", "rank"), [((0,), None, 3), ((0, 1, 2), None, 3), ((0, 1), 1, 4)]
)
def test_a_worker_that_cannot_start_ends_with_126(
    make: Callable[..., Played], slots: tuple[int, ...], only: int | None, rank: int
) -> None:
    played = make(shell("")._replace(script="/no/such"))
    played.run.start(START._replace(first_rank=3, slots=slots, only=only))
    done = played.done()
    (end,) = played.all(frames.EXIT)
    assert (end["rank"], end["code"], end["pid"], end["signalled"]) == (rank, 126, 0, False)
    assert end["hint"] == "not started: /no/such: No such file or directory"
    assert done["tails"] == {}
    assert "STARTED" not in played.names()


def test_so_does_one_without_its_log(make: Callable[..., Played], tmp_path: Path) -> None:
    played = make(shell("exit 0"), log_dir="logs")
    (tmp_path / "logs" / "j").write_text("")
    played.run.start(START)
    played.done()
    ((_, code, _),) = played.exits()
    assert code == 126


def test_so_does_one_without_its_device(make: Callable[..., Played]) -> None:
    played = make(shell("exit 0"), env={"DSRUN_ACCELERATOR": "cuda"}, slots=())
    played.run.start(START._replace(slots=(99,)))
    played.done()
    (end,) = played.all(frames.EXIT)
    assert (end["code"], end["hint"][:13]) == (126, "not started: ")


def test_workers_before_the_one_that_cannot_start_are_stopped(
    make: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second log is not to be had: the first worker runs by then, or is not started at all."""
    played = make(shell("exec sleep 600"))
    spawned: list[Process] = []

    def one(spec: WorkerSpec) -> Process:
        if spawned:
            raise OSError("no more")
        spawned.append(spawn(spec))
        return spawned[0]

    monkeypatch.setattr(run, "spawn", one)
    played.run.start(TWO)
    played.done()
    failed, (rank, code, signalled) = played.exits()
    assert (failed, rank, signalled) == ((1, 126, False), 0, True)
    assert code in {-signal.SIGTERM, -signal.SIGKILL}


def test_why_a_worker_was_killed_is_known_from_this_runs_start_on(
    make: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = iter((5, 5, 5, 6))
    monkeypatch.setattr(memory, "kills", lambda: memory.Kills(next(kills), {}))
    monkeypatch.setattr(death_watch, "KernelLog", lambda: KernelLog("/nowhere"))
    hints = []
    for _ in range(2):
        played = make(shell("kill -9 $$"))
        played.run.start(START)
        played.done()
        hints += [end["hint"] for end in played.all(frames.EXIT)]
    assert hints == ["", "out of memory"]


def test_leftovers_of_other_jobs_are_named(
    make: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless they end soon."""
    one, two, three = (2**22 + more for more in (5, 6, 7))  # more than there can be
    looks = iter([[one, two], [two, three]])
    monkeypatch.setattr(leftovers, "leftovers", lambda: next(looks))
    played = make(shell("sleep 600"))
    played.run.start(START, looks=True)
    assert played.notes() == []
    played.skip(run.CONFIRM)
    assert played.notes() == [(f"left over on n0: pid {two} of a dsrun job that has ended", 0)]
    played.run.stop(signal.SIGKILL, 0)
    played.done()


def test_nothing_is_named_once_the_run_has_ended(
    make: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "leftovers", lambda: [2**22 + 5])
    played = make(shell("exit 0"))
    played.run.start(START, looks=True)
    played.done()
    played.skip(run.CONFIRM)
    assert played.notes() == []


def test_leftovers_of_this_job_are_killed(make: Callable[..., Played]) -> None:
    job_id = f"20261126-101112-{os.getpid():06x}"
    played = make(shell("exit 0"), job_id=job_id)
    env = {**os.environ, "DSRUN_JOB_ID": job_id, NAME: "999999999:5"}
    argv = ["sh", "-c", "echo; read -r _"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, start_new_session=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        played.run.start(START, looks=True)
        assert child.wait() == -signal.SIGKILL
    played.done()
    killed = f"killed leftovers of an earlier node launcher of this job: pid {child.pid} (sh)"
    assert (killed, 0) in played.notes()


# -- output, input, queues ------------------------------------------------------------------------


def test_output_waits_for_credit(make: Callable[..., Played], tmp_path: Path) -> None:
    played = make(shell("echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 1"))
    played.run.start(START._replace(credit=1))
    played.prints("one")
    (tmp_path / "go").touch()
    played.until(lambda: "EXIT" in played.names())
    played.skip(60.0)
    assert (played.output(), played.ends) == ("one\n", 0)
    played.run.receive(frames.CREDIT, (1 << 20).to_bytes(8, "big"))
    assert played.done()["tails"] == {"0": ["one\ntwo\n", ""]}
    assert played.output() == "one\ntwo\n"


def test_without_the_runner_output_is_dropped_and_the_workers_are_stopped(
    make: Callable[..., Played],
) -> None:
    played = make(python(TRAP.format(then="pass")), last_grace=500.0, grace=1.0)
    played.run.start(START._replace(credit=1))
    played.prints("ready")
    played.run.stop_without_runner("why")
    played.until(lambda: "15\n" in played.output())
    played.skip(400.0)
    assert played.exits() == []
    played.skip(200.0)
    assert played.done()["reason"] == "why"
    assert played.exits() == [(0, -9, True)]


def test_input_is_passed_on(make: Callable[..., Played]) -> None:
    played = make(shell("cat"), stdin=True)
    played.run.receive(frames.INPUT, b"too early")
    played.run.start(START)
    played.run.receive(frames.INPUT, b"text\n")
    played.prints("text")
    played.run.receive(frames.INPUT, b"")
    played.done()
    took = [
        frames.unpack_credit(body) for kind, body in played.received if kind == frames.INPUT_ACK
    ]
    assert sum(took) == 5
    assert played.output() == "text\n"


ASKS = """
import os, signal, socket
signal.signal(signal.SIGTERM, signal.SIG_IGN)
desk = socket.socket(fileno=int(os.environ["DSRUN_QUEUE_FD"].partition(":")[0]))
mine, theirs = socket.socketpair()
socket.send_fds(desk, [b"line"], [theirs.fileno()])
theirs.close()
mine.send(b'"question"\\n')
print(mine.recv(99), flush=True)
print(mine.recv(99), flush=True)
"""


def test_workers_ask_the_queues(make: Callable[..., Played]) -> None:
    played = make(python(ASKS), shard_queue=True)
    played.run.start(START._replace(first_rank=3, generation=2))
    played.until(lambda: "SHARD_REQUEST" in played.names())
    (body,) = (body for kind, body in played.received if kind == frames.SHARD_REQUEST)
    rank, generation, line, question = frames.unpack_shard_request(body)
    assert (rank, generation, question) == (3, 2, b'"question"')
    played.run.receive(frames.SHARD_ANSWER, line.to_bytes(4, "big") + b'"answer"')
    played.prints("answer")
    played.run.stop_without_runner("nobody answers any more")
    played.prints("b''")
    played.done()


# -- what is watched ------------------------------------------------------------------------------


def test_bindings_are_reported_once_and_before_the_end(make: Callable[..., Played]) -> None:
    played = make(shell("exit 0"), binding=BindingPolicy(report=True))
    played.run.start(TWO._replace(first_rank=2))
    played.done()
    (bound,) = played.all(frames.BINDINGS)
    assert [(rank, pid) for rank, pid, *_ in bound["workers"]] == [
        *((2, played.pids()[0]), (3, played.pids()[1]))
    ]
    assert bound["accelerator"] == "cpu"


def test_no_bindings_are_reported_where_nobody_asks(make: Callable[..., Played]) -> None:
    played = make(shell("exit 0"))
    played.run.start(START)
    played.done()
    assert played.names() == ["STARTED", "EXIT", "DONE"]


def test_a_stranger_at_the_port_ends_the_run(
    make: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def listeners(port: int) -> list[ports.ListeningSocket]:
        asked.append(port)
        return [ports.ListeningSocket(4711, "1")]

    monkeypatch.setattr(ports, "listeners", listeners)
    played = make(python(TRAP.format(then="sys.exit(3)")), port=0)
    played.run.start(START._replace(master_port=5))
    done = played.done()
    ((text, number),) = played.notes()
    assert "port 5" in text
    assert "4711" in text
    assert (number, done["reason"], asked) == (signal.SIGKILL, text, [5])
    ((rank, _, signalled),) = played.exits()
    assert (rank, signalled) == (0, True)


def test_a_stranger_at_the_port_is_why_rank_0_failed(
    make: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_watch, "FIRST", NEVER)  # it would report this by itself
    monkeypatch.setattr(ports, "listeners", lambda _: [ports.ListeningSocket(4711, "1")])
    played = make(shell("exit $((7 * (1 - $RANK)))"), port=0)
    played.run.start(TWO)
    played.done()
    hints = {one["rank"]: one["hint"] for one in played.all(frames.EXIT)}
    assert "4711" in hints[0]
    assert hints[1] == ""


def test_a_port_that_is_not_ours_is_not_looked_at(
    make: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 is on another node."""
    monkeypatch.setattr(ports, "listeners", lambda _: [ports.ListeningSocket(4711, "1")])
    played = make(shell("exec sleep 600"), port=0)
    played.run.start(START._replace(first_rank=1))
    played.skip(5.0)
    played.run.stop(signal.SIGTERM, 0.0)
    played.done()
    assert played.notes() == []


def test_the_port_is_free_once_the_end_is_told(make: Callable[..., Played]) -> None:
    played = make(shell("exit 0"), port=0)
    port = played.run.hello().port
    assert port
    assert ports.listeners(port)
    played.run.open_to_store()
    assert not ports.listeners(port)
    assert ports.is_held(port)
    played.run.start(START._replace(master_port=port))
    played.done()
    assert not ports.is_held(port)


def test_a_run_that_makes_way_holds_nothing(make: Callable[..., Played]) -> None:
    played = make(shell("exit 0"), port=0)
    port = played.run.hello().port
    assert port
    played.run.close()
    assert not ports.is_held(port)
    assert played.names() == []
    assert played.run.phase is NodeRunPhase.ENDED


# -- the stop -------------------------------------------------------------------------------------

STUBBORN = python(TRAP.format(then="pass"))


def test_a_stop_before_the_start_is_the_end(make: Callable[..., Played]) -> None:
    played = make(STUBBORN)
    played.run.stop(signal.SIGTERM, 30.0, reason="why")
    assert (played.names(), played.ends) == (["DONE"], 1)
    assert played.all(frames.DONE)[0]["reason"] == "why"


def test_the_first_reason_stays_where_the_second_is_none(make: Callable[..., Played]) -> None:
    played = make(STUBBORN)
    played.run.start(START)
    played.prints("ready")
    played.run.stop(signal.SIGTERM, 500.0, reason="why")
    played.prints("15\n")
    played.run.stop(signal.SIGINT, 500.0)
    played.prints("2\n")
    played.run.stop(signal.SIGINT, 0.0)
    assert played.done()["reason"] == "why"
    assert played.exits() == [(0, -9, True)]


def test_a_stop_that_was_delivered_is_not_sent(make: Callable[..., Played]) -> None:
    played = make(STUBBORN)
    played.run.start(START)
    played.prints("ready")
    played.run.stop(signal.SIGTERM, 500.0, delivered=True)
    played.skip(499.0)
    assert (played.output(), played.exits()) == ("ready\n", [])
    played.skip(2.0)
    played.done()
    assert played.exits() == [(0, -9, True)]


def test_signals_are_for_workers_that_run(make: Callable[..., Played]) -> None:
    played = make(python(TRAP.format(then="sys.exit(5)")))
    played.run.signal_all(signal.SIGUSR1)
    played.run.start(START)
    played.prints("ready")
    played.run.signal_all(signal.SIGUSR1)
    played.done()
    played.run.signal_all(signal.SIGUSR1)
    assert played.exits() == [(0, 5, False)]


def test_after_the_end_nothing_happens(make: Callable[..., Played]) -> None:
    played = make(shell("exit 0"))
    played.run.start(START)
    played.done()
    said = played.received[:]
    for kind in (
        frames.CREDIT,
        frames.INPUT,
        frames.SHARD_ANSWER,
        frames.ROUND,
        frames.LEAVE_ROUND,
    ):
        played.run.receive(kind, b"")
    played.run.stop(signal.SIGTERM, 0.0, reason="late")
    played.run.stop_without_runner("late")
    played.skip(1000.0)
    assert (played.received, played.ends) == (said, 1)


def test_a_round_of_a_job_without_rounds_makes_no_sense(make: Callable[..., Played]) -> None:
    played = make(shell("exit 0"))
    with pytest.raises(frames.BadFrame, match="no rounds"):
        played.run.receive(frames.CHANGE_SOON, b"")


DAEMON = "sleep 600 >/dev/null 2>&1 & exit "


@pytest.mark.parametrize(
    ("allowed", "code", "stays", "noted"),
    [(False, 0, False, True), (True, 0, True, False), (True, 3, False, False)],
)
def test_what_runs_on_may_stay_after_a_clean_end_where_asked_for(
    make: Callable[..., Played], allowed: bool, code: int, stays: bool, noted: bool
) -> None:
    played = make(shell(f"{DAEMON}{code}"), allow_background=allowed)
    played.run.start(START)
    played.done()
    assert played.run.leaves_background == stays
    assert [text[:44] for text, _ in played.notes()] == [
        "stopped processes that the job left running:"
    ] * noted
    left = processes.children()
    assert len(left) == stays
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_what_was_there_before_is_none_of_its_business(make: Callable[..., Played]) -> None:
    with subprocess.Popen(["sleep", "600"]) as former:
        played = make(shell(f"{DAEMON}0"))
        assert played.run.former == {former.pid}
        played.run.start(START)
        played.done()
        played.skip(60.0)
        assert processes.children() == [former.pid]
        assert former.poll() is None
        former.kill()


# -- ports of a role ------------------------------------------------------------------------------

SERVES = """
import os, socket, sys
one = socket.create_server(("", int(os.environ["DSRUN_PORT_HTTP"])))
print("serves", flush=True)
one.accept()
"""


def asks(played: Played, *wanted: str) -> None:
    for frame in frames.Decoder().feed(messages.pack(frames.PORTS_ASK, PortsAsk(7, wanted))):
        played.run.receive(*frame)


def test_the_runner_is_told_when_a_role_listens_on_its_port(make: Callable[..., Played]) -> None:
    played = make(python(SERVES), part="server", ports={"http": 0})
    (number,) = played.run.hello().ports
    played.run.open_to_store()
    played.run.tell_peers(b'{"peers": {}}')
    played.run.start(START)
    asks(played, "http")
    played.until(lambda: played.all(frames.PORTS) == [{"id": 7}])
    socket.create_connection(("127.0.0.1", number)).close()
    played.done()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_a_role_whose_port_another_user_has_is_stopped(make: Callable[..., Played]) -> None:
    played = make(shell("exec sleep 1000"), part="server", ports={"http": 0})
    (number,) = played.run.hello().ports
    played.run.open_to_store()
    os.seteuid(54321)
    try:
        thief = socket.create_server(("", number))
    finally:
        os.seteuid(0)
    with thief:
        played.run.start(START)
        asks(played, "http")
        played.done()
    (note,) = played.all(frames.NOTE)
    assert note["signal"] == signal.SIGKILL
    assert f"port http ({number}) on n0 was taken by uid 54321 before server" in note["text"]
    assert played.all(frames.PORTS) == []


def test_a_port_that_a_role_does_not_have_ends_the_line(make: Callable[..., Played]) -> None:
    played = make(shell("true"), part="server", ports={"http": 0})
    with pytest.raises(frames.BadFrame, match="does not have"):
        asks(played, "grpc")
    played.run.close()
