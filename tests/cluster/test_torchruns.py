"""torchrun's way: the same command on every node, torch's rendezvous, and real torchruns beside."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from ..support.limits import HANG, NEVER, wait_for
from ..support.needs import need, need_modules
from .command import COMMAND, Running
from .machines import first_descendant, kill_child
from .reaching import LOST, UNUSABLE, USAGE, find, gone, workers
from .scripts import TRACEBACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from .hosts import Cluster

pytestmark = pytest.mark.usefixtures("torch_is_here")

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
SECONDS = HANG
"""For torch to be imported a few times at once, on a machine with more to do than cores."""

C10D = ("--rdzv_backend", "c10d", "--rdzv_id", "tulip")
ROUNDS = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Where there is more than one round: with one store for all of them, torch 2.13 takes keys of the
first round for those of the second, and has none for a node that comes later."""

QUICK = "last_call_timeout=1,join_timeout=1200"
"""torch waits so long for more nodes once the least are there, and for these."""

WORKER = """
import os, sys, time

folder = os.path.dirname(sys.argv[0])
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID")
up = " ".join(("up", *(os.environ[name] for name in names), os.uname().nodename))
os.write(1, f"{up}{chr(10)}".encode())
print("errors", file=sys.stderr, flush=True)
where = "-".join((os.uname().nodename, *(os.environ[name] for name in names[2:4])))
while not os.path.exists(f"{folder}/end"):
    if os.path.exists(f"{folder}/fail-{where}"):
        os._exit(7)
    time.sleep(0.02)
"""

TRAINING = """
import os, sys
import torch, torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
said = f"sum {int(total)} of {dist.get_world_size()} after {restarts}"
os.write(1, f"{said}{chr(10)}".encode())  # at once: torchrun lets lines tear
dist.barrier()
if restarts < os.environ["TORCHELASTIC_MAX_RESTARTS"] and dist.get_rank() == 1:
    os._exit(7)
dist.barrier()
dist.destroy_process_group()
"""


class Site:
    """The hosts, as somebody sees them who starts the same command on each of them.

    Args:
        cluster: whose hosts they are.
        folder: all of it runs here.
        code: the worker.
    """

    def __init__(self, cluster: Cluster, folder: Path, code: str = WORKER) -> None:
        self.cluster = cluster
        self.folder = folder
        self.script = str(folder / "train.py")
        self._stack = ExitStack()
        (folder / "train.py").write_text(code)

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def start(
        self, which: str, host: str, *options: str, env: Mapping[str, str] | None = None
    ) -> Running:
        """Start `dsrun` or `torchrun` on a host."""
        command = {
            "dsrun": (*COMMAND, "--accelerator", "cpu", "--grace", "2"),
            "torchrun": (*TORCHRUN, "--log_dir", str(self.folder / "theirs")),
        }[which]
        machine = self.cluster.host(host)
        words = [*command, *options, self.script]
        running = Running(machine.popen(words, env=env, cwd=self.folder, text=False))
        self._stack.callback(_end, running)
        return running

    def end(self) -> None:
        """Let the workers end."""
        (self.folder / "end").touch()


def _end(running: Running) -> None:
    """Kill what still runs on a host; nsenter, which is the child here, does not pass it on."""
    if running.process.poll() is None:
        kill_child(running.pid)
    running.kill()


def well(*running: Running) -> None:
    """All of them end well; torchrun may log that its last barrier was left early."""
    for one in running:
        assert one.wait(SECONDS).returncode == 0, str(one)
        assert COMMAND[1] not in str(one.process.args) or TRACEBACK not in one.stderr, str(one)


def where(endpoint: str, nodes: str = "2", count: str = "1", *more: str) -> list[str]:
    """The options of a job that meets by c10d."""
    at = ["--rdzv_endpoint", endpoint, "--rdzv_conf", QUICK]
    return [*C10D, *at, "--nnodes", nodes, "--nproc_per_node", count, *more]


@pytest.mark.parametrize(
    ("first", "second", "restarts"),
    [
        pytest.param("dsrun", "dsrun", 1, marks=pytest.mark.tier("all")),
        pytest.param("dsrun", "torchrun", 0, marks=pytest.mark.tier("all")),
        ("torchrun", "dsrun", 1),
    ],
)
def test_one_job_with_whoever_has_the_store(
    cluster: Cluster, tmp_path: Path, first: str, second: str, restarts: int
) -> None:
    """It trains, and where a rank fails it trains again: three workers, two of them on n1."""
    options = ("n1:29400", "2", "2", "--max-restarts", str(restarts))
    env = ROUNDS if restarts else {}
    with Site(cluster, tmp_path, TRAINING) as site:
        one = site.start(first, "n1", *where(*options), env=env)
        other = site.start(second, "n2", *where(*options, "--nproc-per-node=1"), env=env)
        assert one.wait(SECONDS).returncode == 0, f"{one}{other}"
        assert other.wait(SECONDS).returncode == 0, f"{one}{other}"
    told = f"{one.stdout}{other.stdout}"
    assert told.count("sum 6 of 3 after ") == 3 * (restarts + 1)
    # Each agent of torch counts the failures on its own node; rank 1 is always on n1.
    assert one.stdout.count(f"sum 6 of 3 after {restarts}\n") == 2
    for host, kind, running in (("n1", first, one), ("n2", second, other)):
        if kind == "dsrun":
            shown = re.findall(rf"(?m)^{host}:\d\| sum", running.stdout)
            assert len(shown) == running.stdout.count("sum")
            rounds = re.findall(r"(?m)^dsrun: ranks? .* of 3 here, ", running.stderr)
            assert len(rounds) == restarts + 1


def test_a_node_that_comes_later_is_in_the_next_round(cluster: Cluster, tmp_path: Path) -> None:
    with Site(cluster, tmp_path) as site:
        one = site.start("dsrun", "n1", *where("n1:29400", "1:2"), env=ROUNDS)
        one.wait_for_output(r"n1:0\| up 0 1 0 0 tulip n1", SECONDS)
        other = site.start("torchrun", "n2", *where("n1:29400", "1:2"), env=ROUNDS)
        one.wait_for_output(r"n1:[01]\| up [01] 2 0 0 tulip n1", SECONDS)
        other.wait_for_output(r"up [01] 2 0 0 tulip n2", SECONDS)
        site.end()
        well(one, other)


@pytest.mark.tier("test")
def test_the_exit_code_is_the_workers_and_a_signal_ends_the_others(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The other nodes are told nothing by torch; there, dsrun can be stopped as ever."""
    report = str(tmp_path / "report")
    more = ("--report_file", report, "--log_dir", "logs", "-r", "2")
    with Site(cluster, tmp_path) as site:
        one = site.start("dsrun", "n1", *where("n1:29400"))
        other = site.start("dsrun", "n2", *where("n1:29400", "2", "2", *more))
        other.wait_for_output(r"(?s)up \d 3.*up \d 3", SECONDS)
        one.wait_for_output(r"up \d 3", SECONDS)
        (tmp_path / "fail-n2-1-0").touch()
        ended = other.wait(SECONDS)
        assert ended.returncode == 7
        assert re.search(
            r"(?m)^dsrun: rank [12] \(n2, local rank 1, pid \d+\) exited with code 7 after "
            r".*; 1 other rank stopped$",
            ended.stderr,
        )
        assert '"world_size": 3' in (tmp_path / "report").read_text()
        assert "errors" not in ended.stdout
        logs = [path.read_text() for path in tmp_path.glob("logs/tulip_*/attempt_0/?/stderr.log")]
        assert logs == ["errors\n"] * 2
        os.kill(first_descendant(one.pid, 1), signal.SIGTERM)
        assert one.wait(SECONDS).returncode == 128 + signal.SIGTERM


def test_the_agent_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    with Site(cluster, tmp_path) as site:
        one = site.start("dsrun", "n1", *where("n1:29400", "1", "2", "--max_restarts", "3"))
        one.wait_for_output(r"(?s)up \d 2.*up \d 2", SECONDS)
        agent = find(cluster, "n1", lambda p: any("agent.py" in word for word in p.argv))
        os.kill(agent, signal.SIGKILL)
        ended = one.wait(SECONDS)
        assert ended.returncode == LOST
        assert re.search(r"(?m)^dsrun: lost n1 after .*: torch's agent exited: ", ended.stderr)
        assert workers(cluster, site.script) == []


def test_dsrun_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """The other node's agent does not look meanwhile: n1's store has gone with its agent."""
    looks = ("--monitor_interval", f"{NEVER:g}")
    with Site(cluster, tmp_path) as site:
        one = site.start("dsrun", "n1", *where("n1:29400"))
        other = site.start("dsrun", "n2", *where("n1:29400", "2", "1", *looks))
        for running in (one, other):
            running.wait_for_output(r"up \d 2", SECONDS)
        os.kill(first_descendant(one.pid, 1), signal.SIGKILL)
        gone(cluster, site.script, "n1")
        os.kill(first_descendant(other.pid, 1), signal.SIGINT)
        assert other.wait(SECONDS).returncode == 128 + signal.SIGINT


def test_interrupted_while_it_waits_for_the_others(cluster: Cluster, tmp_path: Path) -> None:
    with Site(cluster, tmp_path) as site:
        one = site.start("dsrun", "n1", *where("n1:29400"))
        one.wait_for_output("dsrun: --rdzv_backend c10d at n1:29400.*: waiting for 2 nodes")
        wait_for(lambda: 29400 in cluster.host("n1").listening(), "the store", SECONDS)
        os.kill(first_descendant(one.pid, 1), signal.SIGINT)
        assert one.wait(SECONDS).returncode == 128 + signal.SIGINT


def test_static_with_an_endpoint_and_an_address_of_ones_own(
    cluster: Cluster, tmp_path: Path
) -> None:
    code = "import os; print('at', os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'])"
    address = cluster.host("n1").address
    static = ("--rdzv_backend", "static", "--rdzv_endpoint", "n1:29700", "--nproc_per_node", "1")
    with Site(cluster, tmp_path, code) as site:
        one, other = (
            site.start(
                "dsrun", host, *static, "--nnodes", "2", "--node_rank", rank, "--local_addr", own,
                env={"DSRUN_TOKEN": "tulip"},
            )
            for rank, host, own in (("0", "n1", address), ("1", "n2", "10.9.9.9"))
        )  # fmt: skip
        well(one, other)
    said = [line.partition("| ")[2] for line in one.stdout.splitlines()]
    assert said == [f"at {address} 29700"] * 2


PLUGIN = """
from torch.distributed import TCPStore
from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler, RendezvousInfo, RendezvousStoreInfo,
)


class Alone(RendezvousHandler):
    def __init__(self, asked):
        self.asked = asked

    def get_backend(self):
        return "daisy"

    def get_run_id(self):
        return self.asked.run_id

    def next_rendezvous(self):
        store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        where = RendezvousStoreInfo(self.asked.get("colour"), store.port)
        return RendezvousInfo(store, 0, 1, where)

    def num_nodes_waiting(self):
        return 0

    is_closed = set_closed = shutdown = num_nodes_waiting


def rendezvous():
    return Alone


class Logs(LogsSpecs):
    def reify(self, envs):
        paths = {local: f"{self._root_log_dir}/by-{env['RANK']}" for local, env in envs.items()}
        for local, env in envs.items():
            env["TORCHELASTIC_ERROR_FILE"] = paths[local] + ".json"
        return LogsDest(paths, {local: "" for local in envs}, {}, {}, {})

    @property
    def root_log_dir(self):
        return self._root_log_dir
"""

POINTS = """
[torchrun.handlers]
daisy = daisies:rendezvous
wilted = daisies:gone

[torchrun.logs_specs]
daisy = daisies:Logs
"""


@contextmanager
def plugin(folder: Path) -> Iterator[dict[str, str]]:
    """A package with entry points, as an installed one has them; what lets Python see it."""
    info = folder / "daisies-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: daisies\nVersion: 1\n")
    (info / "entry_points.txt").write_text(POINTS)
    (folder / "daisies.py").write_text(PLUGIN)
    yield {"PYTHONPATH": str(folder)}


def test_a_backend_and_log_files_of_somebody_elses(cluster: Cluster, tmp_path: Path) -> None:
    """Plugins for both, the second with dsrun's own rounds as well."""
    logs = ("--logs_specs", "daisy", "--log_dir", "theirs", "--nproc_per_node", "2", "-r", "1")
    with plugin(tmp_path / "site") as env, Site(cluster, tmp_path) as site:
        site.end()
        daisy = ("--rdzv_backend", "daisy", "--rdzv_conf", "colour=white")
        one = site.start("dsrun", "n1", *daisy, *logs, env=env)
        well(one)
        said = [(tmp_path / f"theirs/by-{rank}").read_text() for rank in (0, 1)]
        assert said == [f"up {rank} 2 {rank} 0 none n1\n" for rank in (0, 1)]
        assert (one.stdout, one.stderr.count("| errors")) == ("", 2)
        assert "ranks 0-1 of 2 here, node 0 of 1, master white:" in one.stderr
        own = site.start("dsrun", "n2", *logs, "--rdzv_id", "mine", env=env)
        well(own)
        assert (tmp_path / "theirs/by-1").read_text() == "up 1 2 1 0 mine n2\n"


@pytest.mark.parametrize("whose", ["torch's", "dsrun's"])
def test_log_files_that_cannot_be_made(cluster: Cluster, tmp_path: Path, whose: str) -> None:
    """No worker starts, in the first round or in the second."""
    logs = ("--logs_specs", "daisy", "--log_dir", "/proc/none", "--nproc_per_node", "2")
    rounds = C10D if whose == "torch's" else ()
    with plugin(tmp_path / "site") as env, Site(cluster, tmp_path) as site:
        one = site.start("dsrun", "n1", *rounds, *logs, "--max_restarts", "1", env=env)
        ended = one.wait(SECONDS)
    assert ended.returncode == 126, str(one)
    assert "not started: " in ended.stderr
    assert "restart 1/1" in ended.stderr


@pytest.fixture(scope="module")
def etcd(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real etcd on the login, with the interface that torch speaks (v2)."""
    need("etcd")
    need_modules("etcd")
    folder = tmp_path_factory.mktemp("etcd")
    at = f"http://{cluster.login.address}:2379"
    options = ["--data-dir", str(folder), "--enable-v2", "--listen-peer-urls", "http://127.0.0.1:0"]
    urls = ["--listen-client-urls", at, "--advertise-client-urls", at]
    with (folder / "log").open("w") as log:
        server = cluster.login.popen(["etcd", *options, *urls], stdout=log, stderr=log)
    try:
        wait_for(lambda: 2379 in cluster.login.listening(), "etcd", SECONDS)
        yield f"{cluster.login.name}:2379"
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize(
    "backend", [pytest.param("etcd", marks=pytest.mark.tier("all")), "etcd-v2"]
)
def test_etcd(etcd: str, cluster: Cluster, tmp_path: Path, backend: str) -> None:
    options = ("--rdzv_backend", backend, "--rdzv_endpoint", etcd, "--rdzv_id", f"job-{backend}")
    with Site(cluster, tmp_path) as site:
        site.end()
        one = site.start("dsrun", "n1", *options, "--nnodes", "2", "--nproc_per_node", "1")
        other = site.start("torchrun", "n2", *options, "--nnodes", "2", "--nproc_per_node", "1")
        well(one, other)
    told = re.findall(r"up (\d) 2 0 0 (\S+) (n\d)", f"{one.stdout}{other.stdout}")
    assert {rank for rank, _, _ in told} == {"0", "1"}
    assert {(name, host) for _, name, host in told} == {(f"job-{backend}", h) for h in ("n1", "n2")}


REFUSALS = {
    "--rdzv_backend daffodil": (USAGE, "torch has no such backend; expected c10d"),
    "--rdzv_backend wilted": (UNUSABLE, "wilted: module 'daisies' has no attribute 'gone'"),
    "--rdzv_backend c10d --rdzv_endpoint n1:x": (UNUSABLE, "The port number of the rendezvous"),
    "--rdzv_backend etcd": (UNUSABLE, r"it comes with the package python-etcd\)"),
    "--rdzv_backend etcd-v2": (UNUSABLE, r"it comes with the package python-etcd\)"),
    "--rdzv_backend c10d --logs_specs lily": (UNUSABLE, "--logs_specs lily: no such entry point"),
    "--rdzv_backend c10d --nnodes 2 --rdzv_endpoint n1:29555 --rdzv_conf join_timeout=2": (
        LOST,
        "fewer than 2 nodes joined within 2 s: is the command running on the others",
    ),
    "--rdzv_backend c10d --rdzv_endpoint n2:29400 --rdzv_conf read_timeout=2": (
        LOST,
        "The connection to the C10d store has failed. The client socket",
    ),
}


def test_what_torch_does_not_want_is_told_in_one_line(cluster: Cluster, tmp_path: Path) -> None:
    with plugin(tmp_path / "site") as env, Site(cluster, tmp_path) as site:
        # As where the package is not installed.
        missing = """raise ModuleNotFoundError("No module named 'etcd'", name='etcd')"""
        (tmp_path / "site" / "etcd.py").write_text(missing)
        running = {
            words: site.start("dsrun", "n1", "-q", "--nproc_per_node", "1", *words.split(), env=env)
            for words in REFUSALS
        }
        for words, (code, pattern) in REFUSALS.items():
            ended = running[words].wait(2 * SECONDS)
            assert ended.returncode == code, words
            assert re.fullmatch(rf"dsrun: --rdzv_backend .*{pattern}.*\n", ended.stderr), words


@pytest.mark.parametrize(
    ("words", "who"),
    [
        (C10D, "--rdzv_backend c10d"),
        (("--max_restarts", "1", "--elastic_agent", "torch"), "localhost"),
    ],
)
def test_without_torch(cluster: Cluster, tmp_path: Path, words: tuple[str, ...], who: str) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')")
    with Site(cluster, tmp_path) as site:
        one = site.start("dsrun", "n1", *words, env={"PYTHONPATH": str(tmp_path)})
        ended = one.wait(SECONDS)
    assert ended.returncode == UNUSABLE
    assert re.search(rf"dsrun: {re.escape(who)}: \S+ has no torch; ", ended.stderr)


@pytest.mark.tier("all")
def test_etcd_that_cannot_be_reached(cluster: Cluster, tmp_path: Path) -> None:
    need_modules("etcd")
    with Site(cluster, tmp_path) as site:
        options = ("--rdzv_backend", "etcd-v2", "--rdzv_endpoint", "n2:2379")
        ended = site.start("dsrun", "n1", "-q", *options).wait(SECONDS)
    assert ended.returncode == LOST
    assert "dsrun: --rdzv_backend etcd-v2 at n2:2379: The connection to etcd has failed" in (
        ended.stderr
    )
