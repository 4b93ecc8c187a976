"""Measure the cost of several programs in one job: an RL-like trio on four virtual hosts.

    python benchmarks/roles.py [--rounds 5]

The job runs over ssh (this needs root). Two servers are on two hosts, and one of them needs longer
until it answers. After them a trainer starts on the third host, with two workers, and an evaluator
on the fourth. The script measures

* the time from the slower server listening to the start of the first trainer;
* the time from the trainer's successful exit to the end of dsrun, with all hosts released: with
  servers that exit on SIGTERM, and, after their grace period, with servers that ignore it;
* the time from SIGKILL of a server to the end of the job, and to the server's restart;
* the memory (PSS) of dsrun's processes on a host with one role, two and three, in MB of 1,000,000
  bytes.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import CHECKOUT, DSRUN, WORKERS, bar
from benchmarks.memory import held
from tests.cluster.hosts import Cluster
from tests.cluster.machines import user_environment
from tests.support.limits import wait_for

GRACE = 1.0
FILE, LOG = "/run/roles.toml", "/run/roles.log"

SERVER = """
[[role]]
name = "{name}"
{where}
workers = 1
ports = ["http"]
script = "{workers}/role_server.py"
args = ["{{port.http}}", {slow}, "{kind}"]
ready = "http:/"
ends = "never"
on_failure = "{failure}"
grace = {grace}
"""

TRAINER = """
[[role]]
name = "{name}"
hosts = ["{host}"]
workers = {ranks}
script = "{workers}/role_trainer.py"
args = [{seconds}]
after = [{after}]
ends = "{ends}"
"""


class Trio:
    """A job on the cluster, and its output."""

    def __init__(self, cluster: Cluster, text: str) -> None:
        cluster.path(FILE).write_text(text)
        self._log = cluster.path(LOG)
        self._cluster = cluster
        self._before = {one.pid for one in cluster.processes()}
        where = ["--host", "n1:2,n2:2,n3:2,n4:2", "--accelerator", "cpu", "--no_check"]
        argv = cluster.login.argv([*DSRUN, *where, "--roles", FILE], CHECKOUT)
        with self._log.open("w") as log:
            self.runner = subprocess.Popen(argv, env=user_environment(), stdout=log, stderr=log)

    def times(self, role: str, word: str) -> list[float]:
        """Return the times when workers of a role printed a word, on the monotonic clock."""
        text = self._log.read_text(errors="replace")
        return [float(one) for one in re.findall(rf"^{role}/\S+ {word} (\S+)$", text, re.M)]

    def wait(self, role: str, word: str, times: int = 1) -> None:
        """Wait until workers of a role have printed a word this often."""
        wait_for(lambda: len(self.times(role, word)) >= times or self._over(), f"{role} {word}")
        assert len(self.times(role, word)) >= times, self._log.read_text()

    def _over(self) -> bool:
        return self.runner.poll() is not None

    def pids(self, host: str, part: str) -> list[int]:
        """Return the job's processes on a host that have this in their command line."""
        new = (one for one in self._cluster.processes() if one.pid not in self._before)
        return [one.pid for one in new if one.host == host and any(part in w for w in one.argv)]

    def own(self, host: str) -> list[int]:
        """Return the processes of dsrun itself on a host."""
        workers = {*self.pids(host, "role_"), *self.pids(host, "sshd")}
        new = (one for one in self._cluster.processes() if one.pid not in self._before)
        return [one.pid for one in new if one.host == host and one.pid not in workers]

    def end(self) -> tuple[float, int]:
        """Return the time of the job's end, and its exit code."""
        code = self.runner.wait()
        return time.monotonic(), code


@contextmanager
def trio(cluster: Cluster, *, kind: str = "", failure: str = "job", train: float) -> Iterator[Trio]:
    """Provide the job, and stop it if something goes wrong."""
    more = {"workers": WORKERS, "kind": kind, "failure": failure, "grace": GRACE}
    text = SERVER.format(name="fast", where='hosts = ["n1"]', slow=0.0, **more)
    text += SERVER.format(name="slow", where='hosts = ["n2"]', slow=0.5, **more)
    after = '"fast", "slow"'
    for name, host, ranks, ends in (("trainer", "n3", 2, "job"), ("eval", "n4", 1, "wait")):
        given = {"name": name, "host": host, "ranks": ranks, "ends": ends}
        text += TRAINER.format(workers=WORKERS, seconds=train, after=after, **given)
    job = Trio(cluster, text)
    try:
        yield job
    finally:
        job.runner.kill()
        job.runner.wait()


def readiness(cluster: Cluster) -> float:
    """Return the seconds from the slower server listening to the trainer's start."""
    with trio(cluster, train=0.0) as job:
        job.end()
        return min(job.times("trainer", "started")) - max(job.times("slow", "listens"))


def clean_end(cluster: Cluster, kind: str) -> float:
    """Return the seconds from the trainer's end to that of the job."""
    with trio(cluster, kind=kind, train=0.3) as job:
        ended, code = job.end()
        assert code == 0, code
        last = max(job.times("trainer", "ends") + job.times("eval", "ends"))
        return ended - last


def failure(cluster: Cluster) -> float:
    """Return the seconds from the death of a server to the end of the job."""
    with trio(cluster, train=60.0) as job:
        job.wait("trainer", "started", 2)
        (pid,) = job.pids("n1", "role_server")
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return job.end()[0] - began


def restart(cluster: Cluster) -> float:
    """Return the seconds from the death of a server until it listens again."""
    with trio(cluster, failure="restart", train=60.0) as job:
        job.wait("trainer", "started", 2)
        (pid,) = job.pids("n1", "role_server")
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        job.wait("fast", "listens", 2)
        return job.times("fast", "listens")[-1] - began


def memory(cluster: Cluster, roles: int) -> float:
    """Return the PSS of dsrun's processes on a host with this many roles."""
    more = {"workers": WORKERS, "slow": 0.0, "kind": "", "failure": "job", "grace": GRACE}
    where = ['hosts = ["n1"]', *['beside = "r0"'] * (roles - 1)]
    text = "".join(SERVER.format(name=f"r{n}", where=one, **more) for n, one in enumerate(where))
    text += TRAINER.format(
        name="trainer", host="n3", ranks=1, workers=WORKERS, seconds=60, after='"r0"', ends="job"
    )
    job = Trio(cluster, text)
    try:
        job.wait("trainer", "started")
        for number in range(roles):
            job.wait(f"r{number}", "listens")
        return held("PSS", *job.own("n1"))
    finally:
        job.runner.terminate()
        job.runner.wait()


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Measure the cost of several programs in one job.")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = range(parser.parse_args().rounds)
    with Cluster(4, shared=[CHECKOUT]) as cluster:
        took = median(readiness(cluster) for _ in rounds)
        bar("from the slowest server to the trainer, seconds", took, 0.1)
        took = median(clean_end(cluster, "") for _ in rounds)
        bar("from the trainer's end to that of the job, seconds", took, 0.5)
        took = median(clean_end(cluster, "stubborn") for _ in rounds)
        bar("the same with servers that ignore SIGTERM, after their grace", took - GRACE, 0.5)
        bar("from a server's death to the job's end", median(failure(cluster) for _ in rounds), 1.0)
        bar(
            "from a server's death to its next start", median(restart(cluster) for _ in rounds), 1.0
        )
        one, two, three = (median(memory(cluster, n) for _ in rounds) for n in (1, 2, 3))
        print(f"PSS on a host with 1, 2 and 3 roles: {one:.1f}, {two:.1f} and {three:.1f} MB")
        bar("an additional role on a host, PSS in MB", max(two - one, three - two), 25.0)


if __name__ == "__main__":
    main()
