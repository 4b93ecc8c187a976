"""`--container` with real podman and docker on real hosts: codes, faults, and what is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import LOST, NODE_UNUSABLE

from ..support.limits import wait_for
from ..support.needs import need, need_modules
from ..support.other_user import UID, argv
from .command import CHECKOUT, Dsrun
from .contained import (
    DOCKER,
    PLACE,
    PODMAN,
    SOCKET,
    WORKER,
    Daemon,
    Runtime,
    client,
    guard,
    line,
    load_image,
    need_containers,
    node_launcher,
    podman,
    processes,
    started,
    told,
)
from .held import Held
from .reaching import login_shell
from .test_debug import EDITOR, HELPER, TRAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .command import Running
    from .hosts import Cluster

WORDS = ("--no_local_rank", "--accelerator", "cpu")

LEASE = ("--heartbeat_timeout", "10")
"""What a busy machine keeps, for a node that is silent for good."""

GROUP = 54322
"""The group that may use docker's daemons."""


@pytest.fixture(scope="module")
def clusters(request: pytest.FixtureRequest) -> list[Cluster]:
    """That of Slurm, and the other one."""
    return [request.getfixturevalue("cluster"), request.getfixturevalue("slurm").cluster]


@pytest.fixture(scope="module")
def podmans(clusters: list[Cluster]) -> Runtime:
    """Podman on every host of the clusters."""
    need("podman", "runc", "conmon")
    podman(clusters)
    for cluster in clusters:
        need_containers(PODMAN, cluster.hosts[0])
    return PODMAN


@pytest.fixture(scope="module")
def daemons(
    clusters: list[Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Daemon]]:
    """Docker's daemons on the first two hosts of each cluster, and an image."""
    need("docker", "dockerd", "containerd", "runc", "podman")
    podman(clusters)  # --container exec:NAME asks it as well
    with ExitStack() as stack:
        made = []
        for cluster in clusters:
            socket = cluster.path("/run/docker.sock")
            socket.symlink_to(f"{PLACE}/{SOCKET}")  # to a daemon of each host's own
            stack.callback(socket.unlink)
            made += [stack.enter_context(Daemon(one, GROUP)) for one in cluster.hosts[:2]]
            load_image(cluster, tmp_path_factory.mktemp("image"))
        yield made


@pytest.fixture(scope="module", params=["podman", "docker"])
def engine(request: pytest.FixtureRequest) -> Runtime:
    """Each runtime of containers in turn."""
    request.getfixturevalue({"podman": "podmans", "docker": "daemons"}[request.param])
    return {"podman": PODMAN, "docker": DOCKER}[request.param]


LATER = pytest.mark.parametrize(
    "engine", ["podman", pytest.param("docker", marks=pytest.mark.tier("all"))], indirect=True
)
"""What does not depend on the runtime is run with docker in the last tier."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a job, whose name is as difficult as a name can be."""
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


@pytest.mark.each_launcher
@pytest.mark.parametrize("launcher", ["ssh", "openssh", "pdsh", "mpich", "slurm"])
def test_workers_run_inside_and_their_codes_are_the_jobs(
    site: Cluster, engine: Runtime, folder: Path, launcher: str
) -> None:
    hosts = () if launcher == "slurm" else ("--host", "n1:1,n2:1")
    dsrun = Dsrun(site, folder, "--launcher", launcher, *hosts, *engine.job, *WORDS)
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
    engine.gone(site)


HOSTS = ("--host", "n1:1,n2:1")


def running(engine: Runtime, dsrun: Dsrun) -> Running:
    """A job on two hosts whose workers wait."""
    job = dsrun.start(*HOSTS, *engine.job, *WORDS, *LEASE, "--grace", "1", "t.py", "wait")
    wait_for(lambda: job.stdout.count('"rank"') == 2, "both workers")
    return job


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_runner_is_that_of_the_containers(
    cluster: Cluster, engine: Runtime, made: Dsrun, number: int
) -> None:
    job = running(engine, made)
    job.process.send_signal(number)
    ended = job.wait()
    assert ended.returncode == (-number if number == signal.SIGKILL else 128 + number)
    engine.gone(cluster)


VICTIMS = {
    "client": "lost n2 .*its container or its client was killed",
    "guard": "lost n2 .*its container (or its client )?was killed",
    "container": "lost n2 .*its container (or its client )?was killed",
    "launcher": "lost n2 .*the node launcher was killed by SIGKILL; its workers were stopped",
}


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_killed_process_of_the_chain_ends_the_job(
    cluster: Cluster, engine: Runtime, made: Dsrun, victim: str
) -> None:
    job, host = running(engine, made), cluster.host("n2")
    if victim == "container":
        engine(host, "kill", *engine.containers(host))
    else:
        found = {"client": client, "guard": guard, "launcher": node_launcher}[victim](host)
        os.kill(found, signal.SIGKILL)
    ended = job.wait()
    assert ended.returncode == LOST, ended
    assert re.search(VICTIMS[victim], ended.stderr), ended
    engine.gone(cluster)


def test_what_a_killed_monitor_leaves_is_removed_by_the_next_start(
    cluster: Cluster, podmans: Runtime, made: Dsrun
) -> None:
    """Without conmon nobody tells podman of the end: it keeps the container."""
    engine = podmans
    job, host = running(engine, made), cluster.host("n2")
    own = engine.start(host)
    mine = next(one for one in engine.containers(host) if not own.startswith(one))
    monitor = next(pid for pid in processes(host, "conmon") if mine in line(pid))
    os.kill(monitor, signal.SIGKILL)
    assert job.wait().returncode == LOST
    wait_for(lambda: not processes(host, "t.py"), "no worker")
    assert mine in engine.containers(host)
    assert made(*HOSTS, *engine.job, *WORDS, "t.py", "0").returncode == 0
    wait_for(lambda: engine.containers(host) == [own[:12]], "only the other one")
    engine.remove(host, own)
    engine.gone(cluster)


@pytest.mark.parametrize("by", ["the next start", "dsrun-job"])
def test_a_container_that_nothing_can_reach_any_more_is_removed(
    cluster: Cluster, daemons: list[Daemon], made: Dsrun, by: str
) -> None:
    """What is in a paused container does not see that its input has ended."""
    assert daemons
    engine = DOCKER
    job, host = running(engine, made), cluster.host("n2")
    mine = engine.containers(host)
    own = engine.start(host, "--label=dsrun.job=other")
    engine(host, "pause", *mine)
    job.kill()
    wait_for(lambda: not processes(host, "--interactive"), "no client")
    assert processes(host, "t.py")
    if by == "dsrun-job":
        ended = end(cluster, job)
        assert f"n2: stopped: docker container {mine[0]}" in ended.stdout, ended
        assert ended.returncode == 0, ended
    else:
        assert made(*HOSTS, *engine.job, *WORDS, "t.py", "0").returncode == 0
    wait_for(lambda: engine.containers(host) == [own[:12]], "only the other one")
    engine.remove(host, own)
    engine.gone(cluster)


@pytest.mark.tier("all")
def test_without_docker_s_daemon_only_the_heartbeat_ends_the_workers(
    cluster: Cluster, daemons: list[Daemon], made: Dsrun
) -> None:
    engine, host, daemon = DOCKER, cluster.host("n2"), daemons[1]
    job = running(engine, made)
    daemon.kill()
    try:
        assert job.wait().returncode == LOST
        wait_for(lambda: not processes(host, "t.py"), "no worker")
        refused = made(*HOSTS, *engine.job, *WORDS, "t.py", "0")
        assert refused.returncode == NODE_UNUSABLE
        assert re.search(r"n2: .*Is the docker daemon running\?", refused.stderr), refused
        ended = end(cluster, job)
        assert re.search(r"n2: could not be stopped: docker container \w{12}: ", ended.stdout), (
            ended
        )
    finally:
        daemon.restart()
    assert made(*HOSTS, *engine.job, *WORDS, "t.py", "0").returncode == 0
    engine.gone(cluster)


def end(cluster: Cluster, job: Running) -> subprocess.CompletedProcess[str]:
    """`dsrun-job kill` on the hosts of a job."""
    name = re.search(r"job (\S+)", job.stderr)
    assert name
    kill = [sys.executable, str(CHECKOUT / "bin/dsrun-job"), "kill"]
    return cluster.login.run([*kill, name[1], "--host", "n1,n2", "--grace", "1"])


def test_files_are_the_user_s_and_all_groups_are_there(
    cluster: Cluster, daemons: list[Daemon]
) -> None:
    """On one host, where a uid that nobody else has may use docker."""
    assert daemons
    host, groups = cluster.host("n1"), [GROUP, GROUP + 1]
    folder = f"/tmp/of-{UID}"
    host.run(["mkdir", folder])
    try:
        place = host.root / folder[1:]
        (place / "t.py").write_text(WORKER)
        os.chown(place, UID, UID)
        words = (*DOCKER.job, *WORDS, "--num_gpus", "1", "t.py", "0", "a\nb")
        command = argv(sys.executable, str(CHECKOUT / "bin/dsrun"), *words, groups=groups)
        ended = host.run(["env", f"HOME={folder}", *command], cwd=folder)
        assert ended.returncode == 0, ended
        (worker,) = told(ended.stdout)
        assert worker["uid"] == UID
        assert worker["argv"] == ["a\nb"]
        assert {*groups} <= {*worker["groups"]}  # type: ignore[misc]
        assert {one.stat().st_uid for one in place.glob("made-*")} == {UID}
    finally:
        host.run(["rm", "-r", folder])
    DOCKER.gone(cluster)


def test_a_running_container_is_entered(
    cluster: Cluster, engine: Runtime, made: Dsrun, folder: Path
) -> None:
    source = str(folder).replace('"', '""')
    for host in cluster.hosts[:2]:
        engine.start(host, "--name=keep", f'--mount=type=bind,"source={source}",target=/job')
    words = ("--container", "exec:keep", "--workdir", "/job", "--no_local_rank")
    try:
        ended = made(*HOSTS, *words, "t.py", "7")
        assert ended.returncode == 7, ended
        job = made.start(*HOSTS, *words, *LEASE, "t.py", "wait")
        wait_for(lambda: job.stdout.count('"rank"') == 2, "both workers")
        os.kill(client(cluster.host("n2")), signal.SIGKILL)
        assert job.wait().returncode == LOST
        for host in cluster.hosts[:2]:
            wait_for(lambda host=host: not processes(host, "t.py"), "clean")  # type: ignore[misc]
            assert len(engine.containers(host)) == 1, "it is not ours to remove"
    finally:
        for host in cluster.hosts[:2]:
            engine.remove(host, "keep")
    engine.gone(cluster)


REFUSED: Sequence[tuple[tuple[str, ...], str]] = (
    (("--container", "podman:/no/such"), "no such file or directory on this host"),
    (("--container", "exec:none"), "on this host"),
    (("--container", "prefix:/no/such"), "cannot run /no/such: no such file or directory"),
)


def test_what_a_host_lacks_is_said_in_one_line(
    cluster: Cluster, engine: Runtime, made: Dsrun
) -> None:
    own: Sequence[tuple[tuple[str, ...], str]] = (
        (("--container", f"{engine.name}:localhost/none:1"), "the image cannot be pulled"),
        ((*engine.job, "--mount", "/no/such:/x"), "--mount /no/such: no such file"),
        ((*engine.job, "--python", "python9"), "there is no python9 inside"),
    )
    for words, why in (*own, *(REFUSED if engine is PODMAN else ())):
        ended = made(*HOSTS, *words, "t.py", "0")
        assert ended.returncode == NODE_UNUSABLE, ended
        lines = [one for one in ended.stderr.splitlines() if one.startswith("dsrun:   n1, n2: ")]
        assert len(lines) == 1, ended
        assert why in lines[0]
        assert ended.stdout == ""
    engine.gone(cluster)


@LATER
def test_a_hold_has_its_container(cluster: Cluster, folder: Path, engine: Runtime) -> None:
    with Held(cluster, folder, "n1:1,n2:1", *engine.job) as held:
        for code in (0, 7):
            ended = held("--no_local_rank", "t.py", str(code))
            assert ended.returncode == code, ended
            assert [one["host"] for one in told(ended.stdout)] == ["n1", "n2"]
        refused = held("--container", "podman:other", "t.py", "0")
        assert refused.returncode == 2
        assert "not with --container, which dsrun-hold sets" in refused.stderr
        assert held.release().returncode == 0
    engine.gone(cluster)


@LATER
def test_a_job_whose_runner_is_gone_is_ended_on_its_hosts(
    cluster: Cluster, engine: Runtime, made: Dsrun
) -> None:
    """A stopped client keeps its container alive, whatever becomes of the runner."""
    job, host = running(engine, made), cluster.host("n2")
    frozen = client(host)
    os.kill(frozen, signal.SIGSTOP)
    job.process.kill()
    job.wait()
    ended = end(cluster, job)
    assert ended.returncode == 0, ended
    engine.gone(cluster)


@LATER
def test_copies_of_a_folder_are_kept_on_the_hosts(
    cluster: Cluster, engine: Runtime, tmp_path: Path
) -> None:
    """The login alone has the folder; inside, the workers run in its copy."""
    place = f"/dev/shm/{tmp_path.name}"
    cluster.login.run(["mkdir", place])
    (cluster.login.root / place[1:] / "t.py").write_text(WORKER)
    try:
        words = (*HOSTS, *engine.job, *WORDS)
        dsrun = Dsrun(cluster, tmp_path, "--sync", place, "--workdir", place, *words)
        ended = [dsrun("t.py", "0", "--log_level", "debug") for _ in range(2)]
        assert [one.returncode for one in ended] == [0, 0], ended
        folders = {str(one["folder"]) for one in told(ended[1].stdout)}
        assert all("/dsrun/" in one and one != place for one in folders)
    finally:
        cluster.login.run(["rm", "-r", place])
    engine.gone(cluster)


@LATER
def test_torch_trains_in_containers_on_two_hosts(
    cluster: Cluster, engine: Runtime, made: Dsrun
) -> None:
    need_modules("torch")
    script = str(CHECKOUT / "examples/train_ddp.py")
    inside = ("--python", sys.executable, "--mount", f"{sys.prefix}:ro")
    base = () if sys.base_prefix.startswith("/usr") else ("--mount", f"{sys.base_prefix}:ro")
    ended = made(*HOSTS, *engine.job, *WORDS, *inside, *base, script)
    assert ended.returncode == 0, ended
    engine.gone(cluster)


@LATER
def test_an_elastic_job_restarts_in_a_new_container(
    cluster: Cluster, engine: Runtime, made: Dsrun
) -> None:
    job = made.start(*HOSTS, *engine.job, *WORDS, *LEASE, "--elastic_training",
                     "--max_restarts", "2", "--min_elastic_nodes", "1", "t.py", "wait")  # fmt: skip
    wait_for(lambda: job.stdout.count('"rank"') == 2, "both workers")
    os.kill(client(cluster.host("n2")), signal.SIGKILL)
    wait_for(lambda: len(told(job.stdout)) >= 4, "two workers again")
    job.process.send_signal(signal.SIGTERM)
    assert job.wait().returncode == 128 + signal.SIGTERM
    engine.gone(cluster)


@pytest.mark.tier("all")
def test_no_word_changes_where_the_login_shell_is_csh(
    cluster: Cluster, podmans: Runtime, made: Dsrun
) -> None:
    need("tcsh")
    value, words = "a b\n'\"$HOME %h ! \\ \t", ["it's", '"a" !x', "a\nb  %h !", "$HOME `id`", ""]
    given = (*podmans.job, *WORDS, "--export", "GIVEN", "t.py", "7", *words)
    with login_shell(cluster, "/bin/tcsh"):
        ended = made(*HOSTS, *given, env={"GIVEN": value})
    assert ended.returncode == 7, ended
    assert [(one["given"], one["argv"]) for one in told(ended.stdout)] == [(value, words)] * 2
    podmans.gone(cluster)


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
def test_roles_have_containers_of_their_own(
    site: Cluster, podmans: Runtime, roles: Path, launcher: str
) -> None:
    hosts = () if launcher == "slurm" else ("--host", "n1:2,n2:1")
    ended = Dsrun(site, roles, "--launcher", launcher, *hosts, *OF_ROLES)()
    assert ended.returncode == 0, ended
    assert places(ended.stdout) == APART
    podmans.gone(site)


def test_roles_on_a_hold_have_containers_of_their_own(
    cluster: Cluster, podmans: Runtime, roles: Path
) -> None:
    with Held(cluster, roles, "n1:2,n2:1") as held:
        for _ in range(2):
            ended = held(*OF_ROLES)
            assert ended.returncode == 0, ended
            assert places(ended.stdout) == APART
        assert held.release().returncode == 0
    podmans.gone(cluster)


@pytest.mark.parametrize("victim", ["runner", "client", "base"])
def test_a_fault_leaves_nothing_of_the_containers_of_roles(
    cluster: Cluster, podmans: Runtime, made: Dsrun, roles: Path, victim: str
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
        outside = [pid for pid in processes(host, "--stdio") if "podman" not in line(pid)]
        os.kill(min(outside, key=started), signal.SIGKILL)
        ended = job.wait()
        assert ended.returncode == LOST, ended
    else:
        job.process.kill()
        job.wait()
    podmans.gone(cluster)


@pytest.mark.tier("all")
def test_a_debugger_reaches_a_rank_inside(
    cluster: Cluster, podmans: Runtime, made: Dsrun, folder: Path
) -> None:
    need_modules("debugpy")
    (folder / "train.py").write_text(TRAIN)
    (folder / "helper.py").write_text(HELPER)
    inside = ("--python", sys.executable, "--mount", f"{sys.prefix}:ro")
    base = () if sys.base_prefix.startswith("/usr") else ("--mount", f"{sys.base_prefix}:ro")
    words = (
        *HOSTS,
        *podmans.job,
        *WORDS,
        *inside,
        *base,
        "--debug",
        "1",
        "--debug_file",
        "launch.json",
    )
    job = made.start(*words, "train.py")
    job.wait_for_output("rank 1 on n2 waits for a debugger at")
    seen = cluster.login.run([sys.executable, "-c", EDITOR, f"{folder}/helper.py"], cwd=str(folder))
    assert seen.stdout == f"3 {folder}/helper.py {{'number': '21', 'twice': '42'}}\n", seen.stderr
    done = job.wait()
    assert (done.returncode, "rank 1 42" in done.stdout) == (0, True), done.stderr
    podmans.gone(cluster)
