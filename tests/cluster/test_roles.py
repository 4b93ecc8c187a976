"""Several programs as one job on real hosts: a server, a trainer that asks it, an evaluator."""

from __future__ import annotations

import json
import os
import random
import signal
from typing import TYPE_CHECKING, Any

import pytest

from ..support.limits import HANG, wait_for
from .command import COMMAND, Running
from .held import Held
from .jobs import AT_ONCE, LOST, launchers, options, parent
from .traces import Traces

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun
    from .hosts import Cluster, Process

SERVER = """
import http.server, os, sys

class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"weights")
    def log_message(self, *_):
        pass

print("serves", os.getpid(), flush=True)
http.server.HTTPServer(("", int(sys.argv[1])), Answers).serve_forever()
"""

CLIENT = """
import json, os, sys, time, urllib.request
folder, role, addrs = os.getcwd(), os.environ["ROLE_NAME"], sys.argv[1]
assert addrs == os.environ["DSRUN_SERVER_ADDRS"]
answer = urllib.request.urlopen("http://" + addrs).read().decode()
print(role, "got", answer, "from", addrs, os.getpid(), flush=True)
while not os.path.exists(f"{folder}/{role}-go"):
    time.sleep(0.01)
told = json.load(open(os.environ["DSRUN_ROLES_FILE"]))["server"]["addrs"]
print(role, "ends", *told, flush=True)
sys.exit(int(os.environ.get("CODE", "0")))
"""

ROLES = """
[[role]]
name = "server"
hosts = ["{first}"]
workers = 1
command = ["{python}", "{folder}/server.py", "{{port.http}}"]
ports = ["http"]
ready = "http:/health"
ends = "never"
{server}

[[role]]
name = "trainer"
hosts = ["{second}"]
slots = "0-1"
script = "client.py"
args = ["{{server.addrs}}"]
after = ["server"]
ends = "job"

[[role]]
name = "evaluator"
hosts = ["{second}"]
slots = "2-3"
script = "client.py"
args = ["{{server.addrs}}"]
after = ["server"]
ends = "wait"
"""

WORKER = """
import os, time, urllib.request
addr = os.environ["DSRUN_SERVER_ADDRS"]
answer = urllib.request.urlopen("http://" + addr).read().decode()
print(os.uname().nodename, "in a round of", os.environ["WORLD_SIZE"], "got", answer, flush=True)
while not os.path.exists("worker-go"):
    time.sleep(0.01)
"""

ELASTIC = """
[[role]]
name = "server"
hosts = ["n1"]
workers = 1
command = ["{python}", "server.py", "{{port.http}}"]
ports = ["http"]
ready = "port:http"
ends = "never"

[[role]]
name = "worker"
nodes = 2
script = "worker.py"
after = ["server"]
elastic = true
ends = "job"

[[role]]
name = "helper"
beside = "worker"
slots = 0
script = "worker.py"
after = ["worker"]
elastic = true
ends = "wait"
"""


LATE = """
import os, runpy, sys, time
print("binds late to", sys.argv[1], flush=True)
while not os.path.exists("bind"):
    time.sleep(0.01)
runpy.run_path("server.py", run_name="__main__")
"""

THIEF = """
import os, select, socket, sys
os.seteuid(65534)
one = socket.create_server(("", int(sys.argv[1])))
os.seteuid(0)
print("listens", flush=True)
while not os.path.exists("over"):
    if select.select([one], [], [], 0.01)[0]:
        print("evil was asked", flush=True)
        with one.accept()[0] as other:
            other.recv(4096)
            other.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nevil")
"""

ROBBED = """
[[role]]
name = "server"
hosts = ["n1"]
workers = 1
command = ["{python}", "late.py", "{{port.http}}"]
ports = ["http"]
ready = "http:/health"
ends = "never"
on_failure = "restart"

[[role]]
name = "trainer"
hosts = ["n2"]
script = "client.py"
args = ["{{server.addrs}}"]
after = ["server"]
ends = "job"
"""


class Trio:
    """A job of three roles, in which all workers are up: `with Trio(...) as trio`."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        *words: str,
        launcher: str = "ssh",
        server: str = "",
        hosts: str = "n1:4,n2:4",
    ) -> None:
        self._cluster, self._folder = cluster, folder
        write(folder, "n1", "n2", server)
        where = ["--host", hosts]
        self._argv = [*COMMAND, *options(launcher), *where, *AT_ONCE, "--no_local_rank", *words]
        self._argv += ["--roles", str(folder / "roles.toml")]
        self._report = folder / "report.json"
        self._argv += ["--report_file", str(self._report)]

    def __enter__(self) -> Trio:
        self.traces = Traces(self._cluster)
        self._before = {p.pid for p in self._cluster.processes()}
        process = self._cluster.login.popen(self._argv, cwd=self._folder, text=False)
        self.running = Running(process)
        try:
            wait_for(lambda: self.running.stdout.count(" got weights from ") == 4, "all roles")
        except BaseException as error:
            self.running.kill()
            raise AssertionError(str(self.running)) from error
        return self

    def __exit__(self, *error: object) -> None:
        self.running.kill()

    def go(self, *roles: str) -> None:
        """Let the workers of these roles end."""
        for role in roles:
            (self._folder / f"{role}-go").touch()

    def wait_ready(self, times: int) -> None:
        """Wait until the server is ready for the so many-th time."""
        said = self.running
        try:
            wait_for(lambda: said.stderr.count("server is ready") >= times, f"ready {times} times")
        except TimeoutError as error:
            raise AssertionError(str(said)) from error

    def pid(self, role: str) -> int:
        """The pid of a worker of a role, as the real machine counts."""
        file = "server.py" if role == "server" else "client.py"
        name = f"ROLE_NAME={role}".encode()
        found = [p.pid for p in self._cluster.processes() if any(file in w for w in p.argv)]
        return next(pid for pid in found if name in environ(pid) and parent(pid) not in found)

    def on_nodes(self) -> list[Process]:
        """The processes of the job on its nodes, in the order of their pids."""
        new = [p for p in self._cluster.processes() if p.pid not in self._before]
        found = [p for p in new if p.host in {"n1", "n2"}]
        ours = [p for p in found if p.job or p.argv[1:4] == ("-E", "-S", "-c")]
        return sorted(ours, key=lambda one: one.pid)

    def ends(self) -> tuple[int, str, dict[str, Any]]:
        """The exit code, what was said, and the report; nothing is left then."""
        ended = self.running.wait()
        wait_for(lambda: not self.traces.leftovers(), "clean")
        return ended.returncode, ended.stderr, json.loads(self._report.read_text())


def write(folder: Path, first: str, second: str, server: str = "") -> None:
    """Write the programs, and a file with the roles on two hosts."""
    (folder / "server.py").write_text(SERVER)
    (folder / "client.py").write_text(CLIENT)
    text = ROLES.format(first=first, second=second, python=COMMAND[0], folder=folder, server=server)
    (folder / "roles.toml").write_text(text)


def environ(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


@pytest.mark.parametrize("launcher", ["ssh", "pdsh", "openmpi5", "slurm"])
def test_a_clean_end_waits_for_the_evaluator_and_stops_the_server(
    site: Cluster, tmp_path: Path, launcher: str
) -> None:
    with Trio(site, tmp_path, launcher=launcher) as trio:
        trio.go("trainer")
        trio.running.wait_for_output("trainer/n2:1. trainer ends .*:")
        assert trio.running.process.poll() is None
        trio.go("evaluator")
        code, said, report = trio.ends()
    assert code == 0, said
    assert {name: one["state"] for name, one in report["roles"].items()} == {
        "server": "ended",
        "trainer": "ended",
        "evaluator": "ended",
    }


def test_a_failed_trainer_stops_all(cluster: Cluster, tmp_path: Path) -> None:
    with Trio(cluster, tmp_path) as trio:
        os.kill(trio.pid("trainer"), signal.SIGKILL)
        code, said, report = trio.ends()
    assert code == 128 + signal.SIGKILL
    assert "dsrun: trainer: rank " in said
    assert (report["role"], report["cause"]) == ("trainer", "failure")


def test_a_server_is_started_again_and_the_trainer_goes_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    again = 'on_failure = "restart"'
    with Trio(cluster, tmp_path, server=again) as trio:
        for kills in (1, 2):
            os.kill(trio.pid("server"), signal.SIGKILL)
            trio.wait_ready(kills + 1)
        trio.go("trainer", "evaluator")
        code, said, report = trio.ends()
    assert code == 0, said
    assert report["roles"]["server"]["restarts"] == 2
    assert report["roles"]["trainer"]["restarts"] == 0


@pytest.mark.parametrize("which", [0, 1])
def test_what_dies_above_a_server_costs_the_server_alone(
    cluster: Cluster, tmp_path: Path, which: int
) -> None:
    """Its guard, or its node launcher: its node is reached again."""
    again = 'on_failure = "restart"'
    with Trio(cluster, tmp_path, server=again) as trio:
        ((guard, launcher),) = launchers(cluster, "n1")
        os.kill((guard, launcher)[which], signal.SIGKILL)
        trio.wait_ready(2)
        trio.go("trainer", "evaluator")
        code, said, _ = trio.ends()
    assert code == 0, said


def test_a_node_without_a_role_takes_the_place_of_a_lost_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    again = 'on_failure = "restart"'
    with Trio(cluster, tmp_path, server=again, hosts="n1:4,n2:4,n3:4") as trio:
        ((_, launcher),) = launchers(cluster, "n1")
        os.kill(launcher, signal.SIGKILL)
        trio.wait_ready(2)
        assert [one.host for one in cluster.processes() if one.pid == trio.pid("server")] == ["n3"]
        trio.go("trainer", "evaluator")
        code, said, _ = trio.ends()
    assert code == 0, said
    assert "server: n1 is lost; n3 takes its place" in said


def test_nobody_connects_to_a_port_that_another_user_took_first(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    """Its number stands in `ps` before the server listens there; the next start has another one."""
    programs = {"server.py": SERVER, "late.py": LATE, "client.py": CLIENT, "thief.py": THIEF}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "trainer-go").touch()
    (tmp_path / "roles.toml").write_text(ROBBED.format(python=COMMAND[0]))
    running = dsrun.start("--host", "n1:1,n2:1", "--no_local_rank", "--roles", "roles.toml")
    port = running.wait_for_output(r"binds late to (\d+)")[1]
    thief = cluster.host("n1").popen([COMMAND[0], "thief.py", port], cwd=tmp_path)
    try:
        running.wait_for_output(r"(?s)binds late to .*binds late to")
        (tmp_path / "bind").touch()
        ended = running.wait()
    finally:
        (tmp_path / "over").touch()
        asked, _ = thief.communicate(timeout=HANG)
    said = f"port http ({port}) on n1 was taken by uid 65534 (nobody) before server listened there"
    assert ended.returncode == 0, str(running)
    assert said in ended.stderr
    assert "trainer got weights" in ended.stdout
    assert asked == "listens\n"


def test_an_elastic_role_has_a_spare_for_a_node_that_stays_away(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    """Roles on one node move together; the server runs on."""
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "worker.py").write_text(WORKER)
    (tmp_path / "roles.toml").write_text(ELASTIC.format(python=COMMAND[0]))
    hosts = ("--host", "n1:1,n2:1,n3:1,n4:1", "--heartbeat_timeout", "10")
    running = dsrun.start(*hosts, "--roles", "roles.toml")
    roles = "worker", "helper"
    for role in roles:
        running.wait_for_output(f"{role}/n3:1. n3 in a round of 2 got weights")
    with cluster.host("n3").powered_off():
        for role in roles:
            running.wait_for_output(f"{role}/n2:0. n2 in a round of 1 got weights")
            running.wait_for_output(f"{role}/n4:1. n4 in a round of 2 got weights")
        (tmp_path / "worker-go").touch()
        ended = running.wait()
    assert ended.returncode == 0, str(running)
    for role in roles:
        assert f"{role}: n3 is lost; n4 takes its place" in ended.stderr
    assert ended.stdout.count("serves ") == 1


def test_what_dies_above_a_trainer_ends_the_job(cluster: Cluster, tmp_path: Path) -> None:
    with Trio(cluster, tmp_path) as trio:
        os.kill(parent(trio.pid("trainer")), signal.SIGKILL)
        code, said, report = trio.ends()
    assert code == LOST, said
    assert report["role"] in {"trainer", "evaluator"}  # one of them carries the other


@pytest.mark.tier("all")
@pytest.mark.parametrize("seed", range(20))
def test_whatever_dies_the_end_is_what_the_file_says(
    cluster: Cluster, tmp_path: Path, seed: int
) -> None:
    """Any process on a node: a worker, a node launcher or a guard, also of a lane."""
    with Trio(cluster, tmp_path, server='on_failure = "restart"') as trio:
        victim = random.Random(seed).choice(trio.on_nodes())
        os.kill(victim.pid, signal.SIGKILL)
        if victim.host == "n1":
            trio.wait_ready(2)
            trio.go("trainer", "evaluator")
        code, said, report = trio.ends()
    if victim.host == "n1":
        assert code == 0, said
    else:
        assert code in {LOST, 128 + signal.SIGKILL}, said
        assert report["role"] in {"trainer", "evaluator"}


def test_one_interrupt_stops_all_in_order(cluster: Cluster, tmp_path: Path) -> None:
    with Trio(cluster, tmp_path) as trio:
        trio.running.process.send_signal(signal.SIGINT)
        code, said, report = trio.ends()
    assert code == 128 + signal.SIGINT
    assert "SIGINT: stopping all roles, dependants first" in said
    assert report["cause"] == "signal"


def test_nothing_outlives_the_runner(cluster: Cluster, tmp_path: Path) -> None:
    with Trio(cluster, tmp_path) as trio:
        trio.running.process.kill()
        trio.running.wait()
        wait_for(lambda: not trio.traces.leftovers(), "clean")


def test_nodes_that_join_by_themselves(cluster: Cluster, tmp_path: Path) -> None:
    """With --no_ssh the same command runs on every node."""
    traces = Traces(cluster)
    write(tmp_path, "n1", "n2")
    for role in ("trainer", "evaluator"):
        (tmp_path / f"{role}-go").touch()
    words = [*COMMAND, "--no_ssh", "--host", "n1:4,n2:4", *AT_ONCE, "--no_local_rank"]
    words += ["--roles", str(tmp_path / "roles.toml"), "--node_rank"]
    started = [
        Running(
            cluster.host(f"n{rank + 1}").popen(
                [*words, f"{rank}"], env={"DSRUN_TOKEN": "tulip"}, cwd=tmp_path, text=False
            )
        )
        for rank in (0, 1)
    ]
    try:
        ended = [one.wait() for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in ended] == [0, 0], [one.stderr for one in ended]
    assert ended[0].stdout.count(" got weights from ") == 4
    wait_for(lambda: not traces.leftovers(), "clean")


ON_HOLD = """
[[role]]
name = "server"
nodes = 1
workers = 1
command = ["sh", "-c", "echo serves; exec sleep 1000"]
ready = "line:serves"
ends = "never"
on_failure = "restart"

[[role]]
name = "trainer"
nodes = 1
workers = 2
script = "wait.py"
args = ["{go}"]
after = ["server"]
ends = "job"
"""


def test_roles_run_on_held_nodes_again_and_again(cluster: Cluster, tmp_path: Path) -> None:
    """Their servers restart, their client may die; the hold is as before, and takes other jobs."""
    (tmp_path / "roles.toml").write_text(ON_HOLD.replace("{go}", str(tmp_path / "go")))
    words = "--roles", str(tmp_path / "roles.toml")
    with Held(cluster, tmp_path, "n1:2,n2:2") as held:
        first = held.start(*words)
        held.wait_up(first, 2)
        (server,) = (one for one in cluster.processes() if one.argv[:2] == ("sleep", "1000"))
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: first.stdout.count("server/n1:0| serves") == 2, "another server")
        refused = held(*words, "--on_busy=refuse")
        assert (refused.returncode, "slots are in use by job" in refused.stderr) == (69, True)
        first.process.kill()
        wait_for(lambda: not held.workers(), "the end of what it had started")
        wait_for(
            lambda: ("sleep", "1000") not in {one.argv[:2] for one in cluster.processes()},
            "the end of the server",
        )
        (tmp_path / "go").touch()
        again = held(*words)
        assert again.returncode == 0, again.stderr
        assert again.stdout.count("trainer/n2:") == 2
        assert [one["host"] for one in held.tell("tell.py")] == ["n1", "n1", "n2", "n2"]
        assert held.release().returncode == 0
