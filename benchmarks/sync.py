"""Measure the cost of `--sync`: a folder of 2,000 files on four hosts.

    python benchmarks/sync.py
    python benchmarks/sync.py --files 20000 --hosts 8

The script starts a job with a folder that all hosts share, with a current copy, with a copy in
which one file has changed, and for the first time, which sends everything. The hosts are the
virtual ones of `tests/cluster` (this needs root), reached over ssh; each has its own cache.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import CHECKOUT, DSRUN, Measure, bar, command_time, take_turns
from tests.cluster.hosts import Cluster
from tests.cluster.machines import HOME, user_environment

HOSTFILE, FOLDER = "/run/hostfile", "/tmp/project"
IGNORED = "__pycache__/\n*.py[cod]\nbuild/\n*.egg-info/\n.venv/\n*.log\n/checkpoints/\n"
UNCHANGED, ONE_FILE = 0.3, 0.4
"""The limits of extra seconds for a start, without a change and with one file changed."""


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Measure the cost of --sync.")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(options.hosts, shared=[CHECKOUT]))
        for host in cluster.hosts:
            stack.enter_context(host.tmpfs(f"{HOME}/.cache", "1g"))
            (host.root / FOLDER[1:]).mkdir()  # for the start without a copy
            fill(host.root / FOLDER[1:], 0)
        fill(cluster.login.root / FOLDER[1:], options.files)
        measure(cluster, options.rounds)


def fill(folder: Path, files: int) -> None:
    """Create a project: a script that prints a line, and this many other files."""
    folder.mkdir(exist_ok=True)
    (folder / "hello.py").write_text("print('hello')\n")
    (folder / ".gitignore").write_text(IGNORED)
    for number in range(files):
        path = folder / f"package{number // 50}" / f"module{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"VALUE = {number}\n" * 100)


def measure(cluster: Cluster, rounds: int) -> None:
    """Print the times, and the extra time over no copy."""
    cluster.path(HOSTFILE).write_text(cluster.hostfile(1))
    changed = cluster.login.root / FOLDER[1:] / "hello.py"
    numbers = itertools.count()

    def start(*options: str) -> float:
        command = [*DSRUN, "-H", HOSTFILE, "--launcher", "ssh", "--no_local_rank", *options]
        argv = cluster.login.argv([*command, "hello.py"], FOLDER)
        return command_time(argv, "hello", len(cluster.hosts), env=user_environment())

    def edited() -> float:
        changed.write_text(f"print('hello')  # {next(numbers)}\n")
        return start("--no_check", "--sync", ".")

    print(f"first copy: {start('--sync', '.'):.3f} s")
    contenders: dict[str, Measure] = {
        "without": partial(start, "--no_check"),
        "unchanged": partial(start, "--no_check", "--sync", "."),
        "one file": edited,
    }
    figures = take_turns(contenders, rounds)
    print(figures.table("start", "without"))
    bar("extra time if nothing has changed (s)", figures.excess("unchanged", "without"), UNCHANGED)
    bar("extra time if one file has changed (s)", figures.excess("one file", "without"), ONE_FILE)


if __name__ == "__main__":
    main()
