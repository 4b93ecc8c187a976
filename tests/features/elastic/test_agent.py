"""torch's agent on one node: how it joins rounds, names log files, and says why it has ended."""

from __future__ import annotations

import json
import logging
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.elastic import node_agent_process as agent_process
from dsrun.launcher.node.machine import ports

from ...support.limits import HANG
from ...support.needs import need_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

HERE = "127.0.0.1"

RDZV: dict[str, Any] = {
    "backend": "c10d",
    "endpoint": f"{HERE}:1",
    "run_id": "id",
    "least": 1,
    "most": 1,
    "conf": {"timeout": "30"},
    "local_addr": "",
    "restarts": 0,
    "interval": 0.02,
}
"""Of torch, for one node."""


@pytest.fixture(scope="module")
def agent() -> ModuleType:
    """The program as a module; it has torch be quiet, which is for itself alone."""
    need_modules("torch")
    from dsrun.launcher.features.elastic import agent as module

    logging.disable(logging.NOTSET)
    return module


class Launcher:
    """The node launcher's end of the agent's line.

    Attributes:
        messages: the agent's end.
    """

    def __init__(self, agent: ModuleType) -> None:
        ours, entry = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, entry:
            self.messages = agent.Messages(entry)
            said, fds, _, _ = socket.recv_fds(ours, 4096, 1)
        assert json.loads(said) == {"agent": True}
        self._line = socket.socket(fileno=fds[0])
        self._line.settimeout(HANG)

    def says(self, *messages: dict[str, object]) -> None:
        """Send messages, in one piece."""
        self._line.sendall(b"".join(json.dumps(one).encode() + b"\n" for one in messages))

    def heard(self) -> list[dict[str, Any]]:
        """Return what the agent has sent."""
        data = self._line.recv(65536)
        assert data.endswith(b"\n")
        return [json.loads(line) for line in data.splitlines()]

    def forms(self, rank: int, port: int, host: str, nodes: int = 2) -> dict[str, object]:
        """Return the place in a round whose first node has its store at this port."""
        return {"round": {"rank": rank, "nodes": nodes, "host": host, "port": port}}

    def close(self) -> None:
        """Close both ends."""
        self._line.close()
        self.messages._socket.close()


@pytest.fixture
def launcher(agent: ModuleType) -> Iterator[Launcher]:
    with closing(Launcher(agent)) as one:
        yield one


def handler(agent: ModuleType, launcher: Launcher) -> Any:
    """Return what joins the runner's rounds."""
    return agent.RoundHandler(launcher.messages, "job7")


# -- the line -----------------------------------------------------------------------------------


def test_messages_go_both_ways_a_line_each(launcher: Launcher) -> None:
    line = launcher.messages
    assert not line.waiting()
    launcher.says({"a": 1}, {"b": [2]})
    assert line.waiting()
    assert line.wait() == {"a": 1}
    assert line.waiting()
    assert line.wait() == {"b": [2]}
    assert not line.waiting()
    line.send(ended=None)
    line.send(join=5)
    assert launcher.heard() == [{"ended": None}, {"join": 5}]


# -- the runner's rounds ------------------------------------------------------------------------


def test_the_first_of_a_round_has_the_store(agent: ModuleType, launcher: Launcher) -> None:
    rounds = handler(agent, launcher)
    port: list[int] = []

    def form() -> None:
        port.append(launcher.heard()[0]["join"])
        launcher.says({"change": 1}, launcher.forms(0, port[0], HERE))

    found = _meanwhile(rounds.next_rendezvous, form)
    assert (found.rank, found.world_size) == (0, 2)
    where = found.bootstrap_store_info
    assert (where.master_addr, where.master_port) == (HERE, port[0])
    found.store.set("k", "v")
    assert rounds.num_nodes_waiting() == 0, "the change was for this round"
    other = Launcher(agent)
    with closing(other):
        second = handler(agent, other)

        def form_there() -> None:
            assert other.heard()[0]["join"] != port[0]
            other.says(other.forms(1, port[0], HERE))

        there = _meanwhile(second.next_rendezvous, form_there)
    assert (there.rank, there.world_size) == (1, 2)
    assert there.store.get("k") == b"v"


def test_a_change_is_known_until_the_next_round(agent: ModuleType, launcher: Launcher) -> None:
    rounds = handler(agent, launcher)
    assert rounds.num_nodes_waiting() == 0
    launcher.says({"other": 1})
    assert rounds.num_nodes_waiting() == 0
    launcher.says({"change": 1}, {"other": 1})
    assert [rounds.num_nodes_waiting() for _ in range(2)] == [1, 1]


def test_what_torch_asks_of_a_handler(agent: ModuleType, launcher: Launcher) -> None:
    rounds = handler(agent, launcher)
    assert (rounds.get_backend(), rounds.get_run_id()) == ("dsrun", "job7")
    rounds.set_closed()
    assert (rounds.is_closed(), rounds.use_agent_store, rounds.shutdown()) == (False, True, True)


def _meanwhile(call: Callable[[], Any], other: Callable[[], None]) -> Any:
    """Do something while another call waits for it; return what the call returns."""
    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(other)
        found = call()
        doing.result(HANG)
    return found


# -- log files ----------------------------------------------------------------------------------


def test_shims_write_no_files(agent: ModuleType) -> None:
    none = agent.NoLogsSpecs()
    assert none.root_log_dir == ""
    found = none.reify({0: {}, 1: {}})
    blank = {0: "", 1: ""}
    assert (found.stdouts, found.stderrs, found.error_files) == (blank, blank, blank)
    assert not found.tee_stdouts


def test_files_are_named_by_the_entry_point_and_written_by_the_launcher(
    agent: ModuleType, tmp_path: Path
) -> None:
    specs = agent.logs("default", str(tmp_path), "3", "0", "0")
    envs: dict[int, dict[str, str]] = {
        n: {"TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_RUN_ID": "r"} for n in range(2)
    }
    found = specs.reify(envs)
    assert found.stdouts == {0: "", 1: ""}
    out, err = (Path(envs[1][f"DSRUN_LOG_{name}"]) for name in ("OUT", "ERR"))
    assert (out.name, err.name) == ("stdout.log", "stderr.log")
    assert out.parent == err.parent
    assert out.is_relative_to(tmp_path)
    assert envs[0]["DSRUN_LOG_OUT"] != envs[1]["DSRUN_LOG_OUT"]
    with pytest.raises(ValueError, match=r"--logs_specs none-such: no such entry point"):
        agent.logs("none-such", "", "0", "0", "")


# -- what is said at the end --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("reason"), "reason"),
        (ValueError("first\nsecond"), "first"),
        (ValueError(), "ValueError"),
        (ValueError("It failed. See inner exception for details."), "It failed. the cause"),
        (ValueError("It failed."), "It failed."),
    ],
)
def test_an_exception_is_told_in_one_line(agent: ModuleType, error: Exception, text: str) -> None:
    error.__cause__ = OSError("the cause")
    assert agent.words(error) == text


def test_where_no_cause_is_known_none_is_told(agent: ModuleType) -> None:
    text = "It failed. See inner exception for details."
    assert agent.words(ValueError(text)) == text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (None, "within 30 s.* timeout=SECONDS"),
        (SimpleNamespace(timeout=None), "within 30 s.* timeout=SECONDS"),
        (
            SimpleNamespace(timeout=SimpleNamespace(join=timedelta(seconds=600))),
            "within 600 s.* join_timeout=SECONDS",
        ),
    ],
)
def test_too_few_nodes_are_told_with_what_waits_longer(
    agent: ModuleType, settings: object, said: str
) -> None:
    handler: Any = SimpleNamespace() if settings is None else SimpleNamespace(settings=settings)
    found = agent.too_few(handler, {"least": 3, "conf": {"timeout": "30"}})
    assert found.startswith("fewer than 3 nodes joined ")
    assert re.search(said, found)


@pytest.mark.parametrize(
    ("error", "loaded", "said"),
    [
        (ImportError("x", name="torch"), "", "PY has no torch; torch's agent needs torch"),
        (ImportError("libx.so"), "", "the torch of PY cannot be imported: libx.so"),
        (
            ImportError("cannot import name 'A' from 'torch.b' (/x)", name="torch.b"),
            "1.0",
            "torch's agent needs torch 2.3 or newer; PY has 1.0"
            " (cannot import name 'A' from 'torch.b')",
        ),
        (
            ImportError("y", name="torch"),
            "1.0",
            "torch's agent needs torch 2.3 or newer; PY has 1.0",
        ),
    ],
)
def test_what_is_wrong_with_torch(
    agent: ModuleType, monkeypatch: pytest.MonkeyPatch, error: ImportError, loaded: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__=loaded))
    assert agent.unfit(error).startswith(said.replace("PY", sys.executable))


@pytest.mark.parametrize(
    ("lacks", "more"), [("etcd", " (it comes with the package python-etcd)"), ("other", "")]
)
def test_a_backend_that_lacks_a_package_says_which(
    agent: ModuleType, monkeypatch: pytest.MonkeyPatch, lacks: str, more: str
) -> None:
    def make(_parameters: object) -> None:
        raise ImportError(f"No module named '{lacks}'")

    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    monkeypatch.setattr(agent, "get_rendezvous_handler", make)
    with pytest.raises(ImportError) as caught:
        agent.rendezvous(RDZV)
    assert str(caught.value) == f"No module named '{lacks}'{more}"


# -- the whole program --------------------------------------------------------------------------


class Program:
    """The agent as a process, for which this test is the node launcher."""

    def __init__(self, **settings: object) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        usual: dict[str, object] = {
            "role": "default",
            "workers": 2,
            "job": "job7",
            "shim": [sys.executable, "-c", "import sys; sys.exit(int(sys.argv[1]))", "0"],
            "interval": 0.02,
            "barrier": 5.0,
            "rendezvous": None,
            "logs": [],
        }
        file = Path(agent_process.__file__).with_name("agent.py")
        words = [sys.executable, str(file), json.dumps({**usual, **settings})]
        with ours, theirs:
            ours.settimeout(HANG)
            self.process = subprocess.Popen(words, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
            said, fds, _, _ = socket.recv_fds(ours, 4096, 1)
        assert json.loads(said) == {"agent": True}
        self.line = socket.socket(fileno=fds[0])
        self.line.settimeout(HANG)
        self._rest = b""

    def next(self) -> dict[str, Any]:
        """Return its next message."""
        while b"\n" not in self._rest:
            data = self.line.recv(65536)
            assert data, "it ended without a word"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def form(self) -> None:
        """Have it be alone in the round that it joins."""
        place = {"rank": 0, "nodes": 1, "host": HERE, "port": self.next()["join"]}
        self.line.sendall(json.dumps({"round": place}).encode() + b"\n")

    def close(self) -> None:
        """End it."""
        self.line.close()
        self.process.kill()
        self.process.wait()


@pytest.mark.usefixtures("agent")
def test_workers_that_end_well_end_the_agent() -> None:
    with closing(Program()) as program:
        program.form()
        assert program.next() == {"ended": None}
        assert program.process.wait(HANG) == 0


@pytest.mark.usefixtures("agent")
def test_in_the_runners_rounds_workers_that_fail_meet_again() -> None:
    shim = [sys.executable, "-c", "import sys; sys.exit(int(sys.argv[1]))", "3"]
    with closing(Program(shim=shim, workers=1)) as program:
        program.form()
        program.form()
        assert "join" in program.next()


@pytest.mark.tier("ci")
@pytest.mark.usefixtures("agent")
def test_in_torchs_rendezvous_the_last_failure_is_the_end() -> None:
    shim = [sys.executable, "-c", "import sys; sys.exit(int(sys.argv[1]))", "3"]
    with closing(ports.Reservation(0)) as held:
        held.open_to_store()
        rdzv = {**RDZV, "endpoint": f"{HERE}:{held.port}"}
        with closing(Program(shim=shim, workers=1, rendezvous=rdzv)) as program:
            assert program.next() == {"ended": {"reason": ""}}
    unknown = {**rdzv, "backend": "none-such"}
    with closing(Program(rendezvous=unknown)) as program:
        left = program.next()["ended"]
        assert left["unusable"]
        assert "none-such" in left["reason"]


@pytest.mark.tier("ci")
@pytest.mark.usefixtures("agent")
def test_without_a_node_launcher_there_is_nothing_to_do() -> None:
    with closing(Program()) as program:
        program.next()
        program.line.close()
        assert program.process.wait(HANG) == 1
