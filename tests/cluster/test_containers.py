"""`--container` with real podman on real hosts: codes, faults, and what is left of them."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import LOST, NODE_UNUSABLE

from ..support.limits import wait_for
from ..support.needs import need, need_modules
from .command import CHECKOUT, Dsrun
from .held import Held
from .test_debug import EDITOR, HELPER, TRAIN
from .reaching import login_shell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .command import Running
    from .hosts import Cluster
    from .machines import Machine

ROOTFS = "podman:/:O"
"""The machine's own files, of which the container sees a copy that it may change."""

IN_IT = ("--container", ROOTFS, "--no_local_rank", "--accelerator", "cpu")

WORKER = """
import json, os, signal, sys, time
rank = os.environ["RANK"]
told = {"rank": rank, "pid": os.getpid(), "parent": os.getppid(), "folder": os.getcwd(),
        "home": os.environ["HOME"], "path": os.environ["PATH"], "given": os.environ.get("GIVEN"),
        "host": os.uname().nodename, "uid": os.getuid(), "argv": sys.argv[2:],
        "inside": os.path.exists("/inside"), "library": os.environ.get("LD_LIBRARY_PATH"),
        "names": sorted(name for name in os.environ if name.startswith(("DSRUN_C", "LEAK")))}
print(json.dumps(told), flush=True)
made = f"made-{os.environ['DSRUN_JOB_ID']}-"
with open(made + rank, "w") as file:
    file.write("x")  # rank 0 has printed by then
if sys.argv[1] == "wait":
    while True:
        time.sleep(60)
while not os.path.exists(made + "0"):
    time.sleep(0.02)
sys.exit(int(sys.argv[1]) if rank == "1" else 0)
"""

CONFIGURATION = """
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
"""

STORAGE = """
[storage]
driver = "overlay"
graphroot = "/dev/shm/podman/storage"
runroot = "/dev/shm/podman/run"
"""

LEASE = ("--heartbeat_timeout", "10")
"""What a busy machine keeps, for a node that is silent for good."""


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> None:
    """Podman on every host of the clusters, with images and containers of its own."""
    need("podman", "runc", "conmon")
    names = ("cluster", "slurm")
    for name in names:
        found = request.getfixturevalue(name)
        cluster: Cluster = found if name == "cluster" else found.cluster
        folder = cluster.path("/run/etc/containers")
        folder.mkdir(exist_ok=True)
        (folder / "containers.conf").write_text(CONFIGURATION)
        (folder / "storage.conf").write_text(STORAGE)
        (folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        for host in cluster.hosts:
            host.run(["podman", "ps"])  # it makes files of its own
        tried = cluster.hosts[0].run(["podman", "run", "--rm", *PODMANS, "--rootfs", "/:O", "true"])
        if tried.returncode:
            pytest.skip(f"podman can run nothing on this kernel: {tried.stderr.strip()[-200:]}")


@pytest.fixture
def folder(tmp_path: Path, engine: None) -> Path:
    """The folder of a job, whose name is as difficult as a name can be."""
    assert engine is None
    made = tmp_path / 'it\'s a, "job"\n of %h!'
    made.mkdir()
    (made / "t.py").write_text(WORKER)
    return made


@pytest.fixture
def made(cluster: Cluster, folder: Path) -> Iterator[Dsrun]:
    """`dsrun` in that folder."""
    dsrun = Dsrun(cluster, folder)
    yield dsrun
    dsrun.close()


def told(output: str) -> list[dict[str, object]]:
    """What each worker has told, in the order of the ranks."""
    found = [json.loads(line[line.index("{") :]) for line in output.splitlines() if "{" in line]
    return sorted(found, key=lambda one: str(one["rank"]))


def podman(host: Machine, *words: str) -> str:
    """The output of podman on a host."""
    return host.run(["podman", *words]).stdout


def containers(host: Machine) -> list[str]:
    """The containers of a host, whatever state they are in."""
    return podman(host, "ps", "--all", "--quiet").split()


def gone(cluster: Cluster) -> None:
    """Wait until the first two hosts have no container, nor a process of one or of its client."""
    for host in cluster.hosts[:2]:
        wait_for(lambda host=host: not containers(host), "no container")  # type: ignore[misc]
        wait_for(lambda host=host: not of_containers(host), "no process")  # type: ignore[misc]


def of_containers(host: Machine, *words: str) -> list[int]:
    """The processes, as the real machine counts, that share the network of a host and have a word.

    Without words: those of a container, or of its client.
    """
    wanted = words or ("t.py", "--stdio", "conmon", "run")
    network, found = Path(host.network).readlink(), []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):  # noqa: PTH208
        with suppress(OSError):
            if Path(f"/proc/{pid}/ns/net").readlink() == network:
                argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                if any(
                    one in wanted for word in argv.split("\0") for one in (word, Path(word).name)
                ):
                    found.append(pid)
    return sorted(found)


@pytest.mark.each_launcher
@pytest.mark.parametrize("launcher", ["ssh", "openssh", "pdsh", "mpich", "slurm"])
def test_workers_run_inside_and_their_codes_are_the_jobs(
    site: Cluster, folder: Path, launcher: str
) -> None:
    hosts = () if launcher == "slurm" else ("--host", "n1:1,n2:1")
    dsrun = Dsrun(site, folder, "--launcher", launcher, *hosts, *IN_IT)
    value = "a b\n'\"$HOME %h ! \\ \t"
    environ = {"GIVEN": value, "LEAKED": "1"}
    ended = dsrun("--export", "GIVEN", "t.py", "7", "it's", "%h !", env=environ)
    assert ended.returncode == 7, ended
    ranks = told(ended.stdout)
    assert [one["host"] for one in ranks] == ["n1", "n2"]
    assert {one["home"] for one in ranks} == {"/root"}
    assert {one["given"] for one in ranks} == {value}
    assert {str(one["argv"]) for one in ranks} == {str(["it's", "%h !"])}
    assert {str(one["names"]) for one in ranks} == {"[]"}
    assert {one["folder"] for one in ranks} == {str(folder)}
    assert all(int(str(one["pid"])) < 100 for one in ranks), "pids are the container's"
    assert re.search(r"rank 1 \(n2, local rank 0, pid \d+\) exited with code 7", ended.stderr)
    assert sorted(one.name[-2:] for one in folder.glob("made-*")) == ["-0", "-1"]
    assert {one.stat().st_uid for one in folder.glob("made-*")} == {0}
    gone(site)


HOSTS = ("--host", "n1:1,n2:1")


@pytest.mark.tier("all")
def test_no_word_changes_where_the_login_shell_is_csh(cluster: Cluster, made: Dsrun) -> None:
    need("tcsh")
    value, words = "a b\n'\"$HOME %h ! \\ \t", ["it's", '"a" !x', "a\nb  %h !", "$HOME `id`", ""]
    with login_shell(cluster, "/bin/tcsh"):
        environ = {"GIVEN": value}
        ended = made(*HOSTS, *IN_IT, "--export", "GIVEN", "t.py", "7", *words, env=environ)
    assert ended.returncode == 7, ended
    assert [(one["given"], one["argv"]) for one in told(ended.stdout)] == [(value, words)] * 2
    gone(cluster)


def running(dsrun: Dsrun, *more: str) -> Running:
    """A job on two hosts whose workers wait."""
    job = dsrun.start(*HOSTS, *IN_IT, *LEASE, "--grace", "1", *more, "t.py", "wait")
    wait_for(lambda: job.stdout.count('"rank"') == 2, "both workers")
    return job


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_runner_is_that_of_the_containers(
    cluster: Cluster, made: Dsrun, number: int
) -> None:
    job = running(made)
    job.process.send_signal(number)
    ended = job.wait()
    assert ended.returncode == (-number if number == signal.SIGKILL else 128 + number)
    gone(cluster)


def first(host: Machine) -> int:
    """The guard, the first process of the container on a host."""
    inside = [pid for pid in of_containers(host, "--stdio") if _line(pid).startswith("python3")]
    return min(inside, key=started)


def launcher(host: Machine) -> int:
    """The node launcher in the container on a host, the guard's child."""
    return int(Path(f"/proc/{first(host)}/task/{first(host)}/children").read_text().split()[0])


def client(host: Machine) -> int:
    """Podman itself."""
    return of_containers(host, "--interactive")[0]


def started(pid: int) -> int:
    """When a process was started (proc(5))."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


VICTIMS = {
    "client": "lost n2 .*its container or its client was killed",
    "guard": "lost n2 .*its container (or its client )?was killed",
    "launcher": "lost n2 .*the node launcher was killed by SIGKILL; its workers were stopped",
}


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_killed_process_of_the_chain_ends_the_job(
    cluster: Cluster, made: Dsrun, victim: str
) -> None:
    job, host = running(made), cluster.host("n2")
    os.kill({"client": client, "guard": first, "launcher": launcher}[victim](host), signal.SIGKILL)
    ended = job.wait()
    assert ended.returncode == LOST, ended
    assert re.search(VICTIMS[victim], ended.stderr), ended
    gone(cluster)


def test_what_a_killed_monitor_leaves_is_removed_by_the_next_start(
    cluster: Cluster, made: Dsrun
) -> None:
    """Without conmon nobody tells podman of the end: it keeps the container."""
    job, host = running(made), cluster.host("n2")
    own = podman(host, "run", "--detach", *PODMANS, "--rootfs", "/:O", "sleep", "600").strip()
    assert own, "somebody else's container, which must stay"
    mine = next(one for one in containers(host) if not own.startswith(one))
    monitor = next(pid for pid in of_containers(host, "conmon") if mine in _line(pid))
    os.kill(monitor, signal.SIGKILL)
    assert job.wait().returncode == LOST
    wait_for(lambda: not of_containers(host, "t.py"), "no worker")
    assert mine in containers(host)
    assert made(*HOSTS, *IN_IT, "t.py", "0").returncode == 0
    wait_for(lambda: containers(host) == [own[:12]], "only the other one")
    podman(host, "rm", "--force", "--time=0", own)
    gone(cluster)


def _line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


PODMANS = ("--network=host", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096")
"""What podman needs here: it may not raise a limit."""


def test_a_running_container_is_entered(cluster: Cluster, made: Dsrun, folder: Path) -> None:
    source = str(folder).replace('"', '""')
    volume = f'--mount=type=bind,"source={source}",target=/job'
    for host in cluster.hosts[:2]:
        podman(host, "run", "--detach", "--name=keep", *PODMANS, volume, "--rootfs", "/:O",
               "sleep", "600")  # fmt: skip
    words = ("--container", "exec:keep", "--workdir", "/job", "--no_local_rank")
    try:
        ended = made(*HOSTS, *words, "t.py", "7")
        assert ended.returncode == 7, ended
        job = made.start(*HOSTS, *words, *LEASE, "t.py", "wait")
        wait_for(lambda: job.stdout.count('"rank"') == 2, "both workers")
        os.kill(client(cluster.host("n2")), signal.SIGKILL)
        assert job.wait().returncode == LOST
        for host in cluster.hosts[:2]:
            wait_for(lambda host=host: not of_containers(host, "t.py"), "clean")  # type: ignore[misc]
            assert len(containers(host)) == 1, "it is not ours to remove"
    finally:
        for host in cluster.hosts[:2]:
            podman(host, "rm", "--force", "--time=0", "keep")


REFUSED: Sequence[tuple[tuple[str, ...], str]] = (
    (("--container", "podman:localhost/none:1"), "the image cannot be pulled"),
    (("--container", "podman:/no/such"), "no such file or directory on this host"),
    (("--container", "exec:none"), "on this host"),
    (("--container", ROOTFS, "--mount", "/no/such:/x"), "--mount /no/such: no such file"),
    (("--container", ROOTFS, "--python", "python9"), "there is no python9 inside"),
    (("--container", "prefix:/no/such"), "cannot run /no/such: no such file or directory"),
)


def test_what_a_host_lacks_is_said_in_one_line(cluster: Cluster, made: Dsrun) -> None:
    for words, why in REFUSED:
        ended = made(*HOSTS, *words, "t.py", "0")
        assert ended.returncode == NODE_UNUSABLE, ended
        lines = [one for one in ended.stderr.splitlines() if one.startswith("dsrun:   n1, n2: ")]
        assert len(lines) == 1, ended
        assert why in lines[0]
        assert ended.stdout == ""
    gone(cluster)


def test_a_hold_has_its_container(cluster: Cluster, folder: Path, engine: None) -> None:
    assert engine is None
    with Held(cluster, folder, "n1:1,n2:1", "--container", ROOTFS) as held:
        for code in (0, 7):
            ended = held("--no_local_rank", "t.py", str(code))
            assert ended.returncode == code, ended
            assert [one["host"] for one in told(ended.stdout)] == ["n1", "n2"]
        refused = held("--container", "podman:other", "t.py", "0")
        assert refused.returncode == 2
        assert "not with --container, which dsrun-hold sets" in refused.stderr
        assert held.release().returncode == 0
    gone(cluster)


def test_a_job_whose_runner_is_gone_is_ended_on_its_hosts(cluster: Cluster, made: Dsrun) -> None:
    """A stopped client keeps its container alive, whatever becomes of the runner."""
    job, host = running(made), cluster.host("n2")
    frozen = client(host)
    os.kill(frozen, signal.SIGSTOP)
    name = re.search(r"job (\S+)", job.stderr)
    job.process.kill()
    job.wait()
    kill = [sys.executable, str(CHECKOUT / "bin/dsrun-job"), "kill"]
    assert name
    ended = cluster.login.run([*kill, name[1], "--host", "n1,n2", "--grace", "1"])
    assert ended.returncode == 0, ended
    gone(cluster)


def test_copies_of_a_folder_are_kept_on_the_hosts(
    cluster: Cluster, engine: None, tmp_path: Path
) -> None:
    """The login alone has the folder; inside, the workers run in its copy."""
    assert engine is None
    place = f"/dev/shm/{tmp_path.name}"
    cluster.login.run(["mkdir", place])
    (cluster.login.root / place[1:] / "t.py").write_text(WORKER)
    try:
        dsrun = Dsrun(cluster, tmp_path, "--sync", place, "--workdir", place, *HOSTS, *IN_IT)
        ended = [dsrun("t.py", "0", "--log_level", "debug") for _ in range(2)]
        assert [one.returncode for one in ended] == [0, 0], ended
        folders = {str(one["folder"]) for one in told(ended[1].stdout)}
        assert all("/dsrun/" in one and one != place for one in folders)
    finally:
        cluster.login.run(["rm", "-r", place])
    gone(cluster)


def test_torch_trains_in_containers_on_two_hosts(cluster: Cluster, made: Dsrun) -> None:
    need_modules("torch")
    script = str(CHECKOUT / "examples/train_ddp.py")
    inside = ("--python", sys.executable, "--mount", f"{sys.prefix}:ro")
    base = () if sys.base_prefix.startswith("/usr") else ("--mount", f"{sys.base_prefix}:ro")
    ended = made(*HOSTS, *IN_IT, *inside, *base, script)
    assert ended.returncode == 0, ended
    gone(cluster)


def test_an_elastic_job_restarts_in_a_new_container(cluster: Cluster, made: Dsrun) -> None:
    job = made.start(*HOSTS, *IN_IT, *LEASE, "--elastic_training", "--max_restarts", "2",
                     "--min_elastic_nodes", "1", "t.py", "wait")  # fmt: skip
    wait_for(lambda: job.stdout.count('"rank"') == 2, "both workers")
    os.kill(client(cluster.host("n2")), signal.SIGKILL)
    wait_for(lambda: len(told(job.stdout)) >= 4, "two workers again")
    job.process.send_signal(signal.SIGTERM)
    assert job.wait().returncode == 128 + signal.SIGTERM
    gone(cluster)


SERVER = """
import http.server, json, os
print(json.dumps({"rank": "server", "pid": os.getpid(), "init": open("/proc/1/cmdline").read()}),
      flush=True)
handler = http.server.SimpleHTTPRequestHandler
http.server.HTTPServer(("", int(os.environ["DSRUN_PORT_HTTP"])), handler).serve_forever()
"""

ASKS = """
import json, os, sys, time, urllib.request
answer = urllib.request.urlopen(f"http://{sys.argv[1]}/asks.py").read().decode()
told = {"rank": os.environ["ROLE_NAME"], "pid": os.getpid(), "host": os.uname().nodename}
print(json.dumps({**told, "init": open("/proc/1/cmdline").read()}), flush=True)
time.sleep(float(sys.argv[2]))
"""

ROLES = """
[[role]]
name = "server"
hosts = ["n1:0-0"]
command = ["python3", "server.py"]
ports = ["http"]
ready = "http:/asks.py"
ends = "never"
container = "podman:/:O"
{server}

[[role]]
name = "beside"
hosts = ["n1:1-1"]
script = "asks.py"
args = ["{{server.addrs}}", "{seconds}"]
after = ["server"]
ends = "wait"

[[role]]
name = "trainer"
hosts = ["n2:0-0"]
container = "podman:/:O"
script = "asks.py"
args = ["{{server.addrs}}", "{seconds}"]
after = ["server"]
ends = "job"
"""


@pytest.fixture
def roles(folder: Path) -> Path:
    """The folder of a job whose roles run in containers or not, side by side."""
    (folder / "server.py").write_text(SERVER)
    (folder / "asks.py").write_text(ASKS)
    (folder / "r.toml").write_text(ROLES.format(server="", seconds="0"))
    return folder


OF_ROLES = ("--accelerator", "cpu", "--roles", "r.toml")


def places(output: str) -> dict[str, bool]:
    """Whether each role has run inside a container."""
    return {str(one["rank"]): "--stdio" in str(one["init"]) for one in told(output)}


APART = {"server": True, "beside": False, "trainer": True}


@pytest.mark.each_launcher
@pytest.mark.parametrize("launcher", ["ssh", "slurm"])
def test_roles_have_containers_of_their_own(site: Cluster, roles: Path, launcher: str) -> None:
    hosts = () if launcher == "slurm" else ("--host", "n1:2,n2:1")
    ended = Dsrun(site, roles, "--launcher", launcher, *hosts, *OF_ROLES)()
    assert ended.returncode == 0, ended
    assert places(ended.stdout) == APART
    gone(site)


def test_roles_on_a_hold_have_containers_of_their_own(cluster: Cluster, roles: Path) -> None:
    with Held(cluster, roles, "n1:2,n2:1") as held:
        for _ in range(2):
            ended = held(*OF_ROLES)
            assert ended.returncode == 0, ended
            assert places(ended.stdout) == APART
        assert held.release().returncode == 0
    gone(cluster)


@pytest.mark.parametrize("victim", ["runner", "client", "base"])
def test_a_fault_leaves_nothing_of_the_containers_of_roles(
    cluster: Cluster, made: Dsrun, roles: Path, victim: str
) -> None:
    again = 'on_failure = "restart"\nmax_restarts = 1' if victim == "client" else ""
    (roles / "r.toml").write_text(ROLES.format(server=again, seconds="600"))
    job, host = made.start("--host", "n1:2,n2:1", *LEASE, *OF_ROLES), cluster.host("n1")
    wait_for(lambda: len(told(job.stdout)) == 3, "all roles")
    if victim == "client":
        os.kill(client(host), signal.SIGKILL)
        wait_for(lambda: len(told(job.stdout)) == 4, "the server again")
        assert places(job.stdout) == APART
        job.process.send_signal(signal.SIGTERM)
        assert job.wait().returncode == 128 + signal.SIGTERM
    elif victim == "base":
        outside = [pid for pid in of_containers(host, "--stdio") if "podman" not in _line(pid)]
        os.kill(min(outside, key=started), signal.SIGKILL)
        ended = job.wait()
        assert ended.returncode == LOST, ended
    else:
        job.process.kill()
        job.wait()
    gone(cluster)


@pytest.mark.tier("all")
def test_a_debugger_reaches_a_rank_inside(cluster: Cluster, made: Dsrun, folder: Path) -> None:
    need_modules("debugpy")
    (folder / "train.py").write_text(TRAIN)
    (folder / "helper.py").write_text(HELPER)
    inside = ("--python", sys.executable, "--mount", f"{sys.prefix}:ro")
    base = () if sys.base_prefix.startswith("/usr") else ("--mount", f"{sys.base_prefix}:ro")
    words = (*HOSTS, *IN_IT, *inside, *base, "--debug", "1", "--debug_file", "launch.json")
    job = made.start(*words, "train.py")
    job.wait_for_output("rank 1 on n2 waits for a debugger at")
    seen = cluster.login.run(
        [sys.executable, "-c", EDITOR, f"{folder}/helper.py"], cwd=str(folder)
    )
    assert seen.stdout == f"3 {folder}/helper.py {{'number': '21', 'twice': '42'}}\n", seen.stderr
    done = job.wait()
    assert (done.returncode, "rank 1 42" in done.stdout) == (0, True), done.stderr
    gone(cluster)
