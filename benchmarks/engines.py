"""Compare dsrun over an MPI launcher or Slurm with the engine alone, for the same processes.

    python benchmarks/engines.py [--rounds 9] [--failures 5] [--engines openmpi4 slurm]

On four virtual hosts with two workers each (this needs root), the script times whole runs of
workers that print a line, and the end of a job after a rank exits with 7. Then, without hosts, it
reads Slurm's lists of 10,000 nodes. The engines are those of `tests/cluster/engines.py` (`make
engines` installs them), and Slurm's srun in an allocation of all hosts. Engines that are not
installed are skipped.

`inf` means "not within 20 s". Open MPI 5 occasionally misses the end of processes that live only
for milliseconds. MPICH lets the other ranks continue after one exits with a code other than 0, and
so does Intel MPI if one of them is on the same host.
"""

from __future__ import annotations

import argparse
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dsrun.launcher.resources.nodelist import expand_nodelist

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.jobs import HOSTFILE, LIMIT, SCRIPT, started
from benchmarks.measure import (
    CHECKOUT,
    DSRUN,
    WORKERS,
    Figures,
    Measure,
    Unfit,
    bar,
    command_time,
    take_turns,
    tell,
)
from tests.cluster.engines import ENGINES
from tests.cluster.hosts import Cluster
from tests.cluster.machines import user_environment
from tests.cluster.slurm import Slurm
from tests.support.limits import wait_for

HOSTS, A_HOST = 4, 2
ALL = HOSTS * A_HOST
NODES = 10_000
HELLO = str(WORKERS / "hello.py")
SLURM = "slurm"
HELD = "/run/allocation"
SLURM_TOOLS = ("slurmctld", "slurmd", "munged", "salloc", "srun")

NAMES = [f"n{number}" for number in range(1, HOSTS + 1)]
WITH_COUNTS = ",".join(f"{name}:{A_HOST}" for name in NAMES)
HYDRA = ("-hosts", ",".join(NAMES), "-ppn", f"{A_HOST}", "-n", f"{ALL}")
ALONE: dict[str, tuple[str, ...]] = {
    "openmpi": ("--allow-run-as-root", "--host", WITH_COUNTS),
    "mpich": HYDRA,
    "impi": HYDRA,
    SLURM: (f"-N{HOSTS}", f"-n{ALL}", "--overcommit", "--kill-on-bad-exit"),
}
"""Options that make an engine start all workers itself, by its kind in `--launcher`."""
RANKS = {
    "openmpi": "OMPI_COMM_WORLD_RANK",
    "mpich": "PMI_RANK",
    "impi": "PMI_RANK",
    SLURM: "SLURM_PROCID",
}
"""The variable in which a worker started by the engine finds its rank."""

LISTS = {
    "one bracket": f"node[00001-{NODES}]",
    "one of single numbers": f"node[{','.join(map(str, range(1, 2 * NODES, 2)))}]",
    "100 brackets": ",".join(f"rack{rack}n[001-100]" for rack in range(100)),
    "two that multiply": "rack[01-100]n[001-100]",
    "10,000 brackets": ",".join(f"rack{number}n[1]" for number in range(NODES)),
    "no bracket": ",".join(f"node{number}" for number in range(NODES)),
}
"""Lists of `NODES` nodes, in forms that SLURM_JOB_NODELIST may have."""


@dataclass(frozen=True)
class Contender:
    """An engine, with and without dsrun.

    Attributes:
        name: its name in the results.
        program: the engine's own program.
        launcher: the name of its kind in `--launcher`.
        options: dsrun's options for using it and finding the hosts.
        enter: the words before every command, as a user would type them.
    """

    name: str
    program: str
    launcher: str
    options: tuple[str, ...]
    enter: tuple[str, ...] = ()

    def alone(self, *worker: str) -> list[str]:
        """Return the engine's command that runs this worker on all hosts."""
        return [*self.enter, self.program, *ALONE[self.launcher], *worker]

    def dsrun(self, *words: str) -> list[str]:
        """Return dsrun's command, up to these words."""
        return [*self.enter, *DSRUN, *self.options, *words]


def main() -> None:
    """Measure and print the times."""
    known = [*(engine.name for engine in ENGINES), SLURM]
    parser = argparse.ArgumentParser(description="Compare engines with and without dsrun.")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of whole runs")
    parser.add_argument("--failures", type=int, default=5, help="rounds of exits")
    parser.add_argument("--failures_alone", type=int, default=2, help="rounds without dsrun")
    parser.add_argument("--engines", nargs="*", choices=known, default=known)
    options = parser.parse_args()
    with Cluster(HOSTS, shared=[CHECKOUT]) as cluster:
        cluster.path(HOSTFILE).write_text(cluster.hostfile(A_HOST))
        with contenders(cluster, options.engines) as found:
            whole_runs(cluster, found, options.rounds)
            failures(cluster, found, options.failures, options.failures_alone)
    nodelists(options.rounds)


@contextmanager
def contenders(cluster: Cluster, names: Sequence[str]) -> Iterator[list[Contender]]:
    """Return the installed engines of this name; Slurm holds all hosts for the `with` block."""
    on_hosts = ("-H", HOSTFILE)
    found = [
        Contender(engine.name, engine.program, engine.launcher, (*on_hosts, *engine.options))
        for engine in ENGINES
        if engine.name in names and has(engine.name, engine.program)
    ]
    if SLURM not in names or not has(SLURM, *SLURM_TOOLS):
        yield found
        return
    with Slurm(cluster) as slurm, allocation(slurm) as variables:
        options = ("--launcher", SLURM)
        yield [*found, Contender(SLURM, "srun", SLURM, options, ("env", *variables))]


def has(name: str, *programs: str) -> bool:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        tell(f"no {', '.join(missing)}: {name} is skipped")
    return not missing


@contextmanager
def allocation(slurm: Slurm) -> Iterator[list[str]]:
    """Return the variables of a shell that holds all hosts for the `with` block."""
    counts = (f"-N{HOSTS}", f"--ntasks-per-node={A_HOST}", "--overcommit")
    shell = ("sh", "-c", f"env > {HELD}.part; mv {HELD}.part {HELD}; exec cat")
    note = slurm.cluster.path(HELD)
    # The shell ends with its standard input, which is closed at the end of the block.
    with slurm.cluster.login.popen(["salloc", *counts, *shell], stdin=subprocess.PIPE):
        wait_for(note.exists, "an allocation")
        yield [line for line in note.read_text().splitlines() if line.startswith("SLURM")]


def whole_runs(cluster: Cluster, found: Sequence[Contender], rounds: int) -> None:
    """Time workers that print a line."""
    env = user_environment()

    def measure(command: Sequence[str]) -> float:
        argv = cluster.login.argv(command, CHECKOUT)
        try:
            return command_time(argv, "worker here", ALL, env=env, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return math.inf

    measures: dict[str, Measure] = {}
    for one in found:
        measures[alone(one)] = partial(measure, one.alone(sys.executable, HELLO))
        measures[ours(one)] = partial(measure, one.dsrun(HELLO))
    figures = take_turns(measures, rounds)
    print(f"{f'{HOSTS} hosts x {A_HOST}, s':24}    alone    dsrun     more    ratio")
    for one in found:
        print(row(one.name, pair(figures, one)))
    for one in found:
        bar(f"extra time of dsrun, {one.name}, s", figures.excess(ours(one), alone(one)), 0.25)


def failures(cluster: Cluster, found: Sequence[Contender], rounds: int, rounds_alone: int) -> None:
    """Time the end of a job when a rank exits with 7 while the others sleep."""
    clean: dict[str, list[float]] = {}
    codes: dict[str, int | None] = {}

    def measure(name: str, command: Sequence[str]) -> float:
        with started(cluster, command, ALL) as job:
            ended, cleaned, codes[name] = job.fail()
        clean.setdefault(name, []).append(cleaned)
        return ended

    measures: dict[str, Measure] = {}
    for one in found:
        named = ("sh", "-c", f'RANK=${RANKS[one.launcher]} exec "$@"', "sh")
        bare = one.alone(*named, sys.executable, SCRIPT)
        measures[alone(one)] = partial(measure, alone(one), bare)
        measures[ours(one)] = partial(measure, ours(one), one.dsrun("--no_local_rank", SCRIPT))
    ended = take_turns(measures, rounds, {alone(one): rounds_alone for one in found})
    print(f"{'exit 7, s':24}   to end  to clean hosts")
    for name, code in codes.items():
        print(row(name, [ended.median(name), Figures(clean).median(name)]), f"  code {code}")
    for name in map(ours, found):
        bar(f"exit 7 to the end, {name}, s", ended.median(name), 1.0)
        bar(f"exit 7 reported as {codes[name]}, {name}, off by", abs((codes[name] or 0) - 7), 0)


def nodelists(rounds: int) -> None:
    """Time reading lists of many nodes."""

    def measure(text: str) -> float:
        began = time.monotonic()
        names = expand_nodelist(text)
        taken = time.monotonic() - began
        if len(set(names)) != NODES:
            raise Unfit(f"{text[:60]}...: {len(names)} names")
        return taken

    figures = take_turns({form: partial(measure, text) for form, text in LISTS.items()}, rounds)
    print(figures.table(f"{NODES} nodes", "one bracket"))
    for form in LISTS:
        bar(f"{NODES} nodes, {form}, s", figures.median(form), 0.1)


def alone(one: Contender) -> str:
    return f"{one.name} alone"


def ours(one: Contender) -> str:
    return f"dsrun over {one.name}"


def pair(figures: Figures, one: Contender) -> list[float]:
    """Return the medians without and with dsrun, the difference and the ratio."""
    bare, with_us = alone(one), ours(one)
    compared = figures.excess(with_us, bare), figures.ratio(with_us, bare)
    return [figures.median(bare), figures.median(with_us), *compared]


def row(name: str, numbers: Iterable[float]) -> str:
    return "  ".join([f"{name:24}", *(f"{number:7.3f}" for number in numbers)])


if __name__ == "__main__":
    main()
