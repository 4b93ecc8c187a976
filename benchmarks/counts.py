"""Count what the processes of a start do: counts show changes of a percent, which timing cannot.

    python benchmarks/counts.py                    count, and compare with the recorded counts
    python benchmarks/counts.py --before REV       compare with a commit, or another checkout
    python benchmarks/counts.py --write REASON     record the counts, and why one has gone up

strace does the counting. Each process is counted up to a point that does not depend on the
machine's speed: the runner until it has sent START, the guard until it has started the node
launcher, the node launcher until it has started the worker, and the worker until it executes its
program. A node launcher on this machine is a fork of the runner, so its modules are only those that
it loads in addition.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import traces
from benchmarks.checkouts import checkout_of
from benchmarks.measure import CHECKOUT, Unfit
from tests.support.code_size import code_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from benchmarks.traces import Call

    Process: TypeAlias = "dict[str, int]"
    Start: TypeAlias = "dict[str, Process]"

FILE = CHECKOUT / "benchmarks" / "counts.json"

WORKER = "#!/bin/sh\necho a worker is here\n"

SSH = '#!/bin/sh\nfor last; do :; done\nexec /bin/sh -c "$last"\n'
"""An ssh that runs everything on this machine."""

START, HELLO = r"\\3\\0", r"\\0dsrun-line-"
"""The beginnings of START and of a node launcher's first bytes, as strace prints them."""

EXACT = ("modules", "forks")
"""Counts that may not exceed the recorded ones, not even by one."""

EVERYWHERE = (*EXACT, "code", "line")
"""Counts that are the same on every machine and with every version of Python."""

TOLERANCE = {
    "code": (0.005, 0),  # so that not every new line needs a reason
    "line": (0.02, 16),  # numbers with more digits, and facts of the machine
    "foreign": (0.0, 0),
    "memory": (0.1, 4),  # depends on malloc
    "other": (0.1, 4),
    "socket": (0.5, 4),  # messages while the node is slow
    "wait": (0.5, 12),
    "calls": (0.03, 24),
}
"""The share, or the number if that is more, by which a count may exceed the recorded one."""

OTHERS = (0.03, 8)
"""The same for the other kinds of calls: a deeper folder has more parts to look up."""

OF_MACHINE = {"fact child"}
"""Processes that read files of the machine: their system calls may exceed the record by a fifth."""

SLACK = 0.01
"""The share by which `code` may fall below the record before the new value must be recorded."""

LATE = 4.0
"""Seconds after which a slow start loads more modules, to report what it waits for."""

TRIES = 3
"""The number of starts. A busy machine only makes more system calls, so the minimum counts."""


class Traced(NamedTuple):
    """A start under strace.

    Attributes:
        first: the pid of the command.
        calls: of every thread, by its id.
    """

    first: int
    calls: Mapping[int, list[Call]]

    def of(self, pid: int) -> list[Call]:
        """Return the calls of a process's main thread."""
        return self.calls.get(pid, [])

    def find(self, pids: Sequence[int], last: Callable[[Call], bool]) -> int:
        """Return the first of these processes with such a call.

        Raises:
            LookupError: no process has one.
        """
        found = (pid for pid in pids if any(last(call) for call in self.of(pid)))
        pid = next(found, None)
        if pid is None:
            raise LookupError("no such process")
        return pid


@contextmanager
def place() -> Iterator[Path]:
    """Provide a folder with a worker, a Python and an ssh; its path always has the same length."""
    folder = Path(mkdtemp(prefix="dsrun-counts-", dir="/tmp"))
    try:
        for name, text in (("worker", WORKER), ("ssh", SSH)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        (folder / "python").symlink_to(Path(sys.executable).resolve())
        yield folder
    finally:
        shutil.rmtree(folder)


def command(folder: Path, checkout: Path, name: str, *words: str) -> list[str]:
    """Return a dsrun command that runs on the Python of a folder."""
    return [str(folder / "python"), "-E", "-S", str(checkout / "bin" / name), *words]


def environ(folder: Path) -> dict[str, str]:
    """Return the environment of all commands."""
    kept = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "DSRUN_ACCELERATOR": "cpu"}
    return {**kept, "XDG_RUNTIME_DIR": str(folder)}


ALONE = ("unshare", "--map-root-user", "--net")
"""A network of its own, where no socket of another job of this user is found."""


def strace(folder: Path, argv: Sequence[str]) -> list[str]:
    """Return a command that runs another one, and writes a file for each of its threads."""
    for old in folder.glob("trace.*"):
        old.unlink()
    return ["strace", "-ff", "-y", "-s", "24", "-o", str(folder / "trace"), *argv]


def is_allowed() -> bool:
    """Return whether strace is installed and permitted to trace."""
    try:
        return not subprocess.run(["strace", "-o", os.devnull, "true"], check=False).returncode
    except OSError:
        return False


def traced(
    folder: Path, argv: Sequence[str], cwd: Path | None = None, before: Sequence[str] = ()
) -> Traced:
    """Run a command to its end, in its folder or another one, and return its processes.

    Words `before` it run another command that runs it, and are not traced.

    Raises:
        Unfit: it failed.
    """
    done = subprocess.run(
        [*before, *strace(folder, argv)],
        cwd=cwd or folder,
        env=environ(cwd or folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unfit(f"{argv} ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    return traces_in(folder)


def traces_in(folder: Path) -> Traced:
    """Return the processes in the files of strace; the command's own was started by none of them.

    The pids of the others may be lower, as pids start again at their maximum.
    """
    files = folder.glob("trace.*")
    calls = {int(path.suffix[1:]): traces.read(path.read_text()) for path in files}
    started = {pid for each in calls.values() for pid in traces.started(each)}
    (first,) = calls.keys() - started
    return Traced(first, calls)


# -- what is started ------------------------------------------------------------------------------


def runs_worker(call: Call) -> bool:
    """Return whether this call executes the program of a worker."""
    return traces.executes(call) and call.args.startswith('"./worker"')


def sends_start(call: Call) -> bool:
    """Return whether this call sends the runner's START."""
    return call.name == "write" and re.match(rf'\d+<[^>]*>, "{START}', call.args) is not None


def job(one: Traced, checkout: Path) -> Start:
    """Return the processes of a job with one worker on one node."""
    runner = traces.until(one.of(one.first), sends_start)
    guard = next(pid for pid in traces.children(one.of(one.first)) if traces.children(one.of(pid)))
    before = traces.after_exec(one.of(guard))
    launcher = traces.children(before)[0]
    below = traces.children(one.of(launcher))
    worker = one.find(below, runs_worker)
    node = traces.until(one.of(launcher), lambda call: starts(call, worker))
    return {
        "runner": counted(runner, checkout, sent=START),
        "guard": counted(traces.until(before, traces.starts_process), checkout),
        "node launcher": counted(node, checkout, sent=HELLO),
        "fact child": counted(one.of(next(pid for pid in below if pid != worker)), checkout),
        "worker": counted(traces.until(one.of(worker), runs_worker), checkout),
    }


def starts(call: Call, pid: int) -> bool:
    """Return whether this call has started a process."""
    return traces.starts_process(call) and call.result == pid


def counted(calls: Sequence[Call], checkout: Path, *, sent: str = "") -> Process:
    """Return the counts of a process.

    `modules` is the number of dsrun's modules, and `code` the bytes of their lines of code, without
    indentation. `foreign` are the other modules loaded from files, and `line` the bytes sent on the
    control line. The others are system calls by kind, with their sum.
    """
    counts = traces.count(calls)
    own = [path for path in counts.modules if Path(path).is_relative_to(checkout)]
    line = {"line": traces.sent(calls, sent)} if sent else {}
    return {
        "modules": len(own),
        "code": sum(len(line) for path in own for line in code_lines(Path(path).read_text())),
        "foreign": len(counts.modules) - len(own),
        "forks": counts.forks,
        **line,
        "calls": sum(counts.calls.values()),
        **dict(sorted(counts.calls.items())),
    }


def on_hold(folder: Path, checkout: Path) -> Start:
    """Return the counts of a job on held nodes: those of its client and its worker."""
    name, other = folder.name.replace("_", "-"), folder / "client"
    other.mkdir(exist_ok=True)
    held = strace(folder, command(folder, checkout, "dsrun-hold", f"--name={name}"))
    env = environ(folder)
    with subprocess.Popen(held, cwd=folder, env=env, stderr=subprocess.PIPE, text=True) as hold:
        assert hold.stderr is not None
        served = any("Ctrl-C releases the nodes" in line for line in hold.stderr)
        if not served:
            raise Unfit(f"dsrun-hold ended with {hold.wait()}")
        try:
            run = command(folder, checkout, "dsrun", f"--on={name}", "--no_python", "./worker")
            client = traced(other, run, folder)
        finally:
            release = command(folder, checkout, "dsrun-hold", "--release", name)
            subprocess.run(release, cwd=folder, env=env, check=True, capture_output=True)
            hold.stderr.read()
    one = traces_in(folder)
    worker = one.find([*one.calls], runs_worker)
    return {
        "client": counted(client.of(client.first), checkout),
        "worker": counted(traces.until(one.of(worker), runs_worker), checkout),
    }


def of_job(*words: str) -> Callable[[Path, Path], Start]:
    """Return a function that counts a job with these options."""

    def counted_job(folder: Path, checkout: Path) -> Start:
        argv = command(folder, checkout, "dsrun", *words, "--no_python", "./worker")
        return job(traced(folder, argv), checkout)

    return counted_job


def of_command(name: str, *words: str, before: Sequence[str] = ()) -> Callable[[Path, Path], Start]:
    """Return a function that counts a command that starts nothing."""

    def counted_command(folder: Path, checkout: Path) -> Start:
        one = traced(folder, command(folder, checkout, name, *words), before=before)
        return {"command": counted(one.of(one.first), checkout)}

    return counted_command


STARTS: dict[str, Callable[[Path, Path], Start]] = {
    "one host": of_job("--num_gpus=1"),
    "over ssh": of_job("--host=192.0.2.1:1", "--launcher=openssh"),
    "on a hold": on_hold,
    "-h": of_command("dsrun", "-h"),
    "--dry_run": of_command("dsrun", "--dry_run", "--num_gpus=1", "--no_python", "./worker"),
    "dsrun-job list": of_command("dsrun-job", "list", before=ALONE),
}
"""The starts that are counted, by name."""


class Trial(NamedTuple):
    """The lowest counts of a start so far.

    Attributes:
        counts: by process.
        seconds: the time of the quickest one.
    """

    counts: Start
    seconds: float

    @property
    def is_late(self) -> bool:
        """Whether this machine is too slow at the moment, because each start had to wait."""
        return self.seconds > LATE


def trials_of(name: str, checkout: Path = CHECKOUT) -> Iterator[Trial]:
    """Yield the lowest counts after one start, two ...; byte code is written beforehand."""
    with place() as folder:
        STARTS[name](folder, checkout)
        several: list[Trial] = []
        while True:
            began = time.monotonic()
            counts = STARTS[name](folder, checkout)
            several.append(Trial(counts, time.monotonic() - began))
            best = least([one.counts for one in several])
            yield Trial(best, min(one.seconds for one in several))


def measure(checkout: Path = CHECKOUT, tries: int = TRIES) -> dict[str, Start]:
    """Return the counts of all starts, each the lowest of several."""
    return {name: [*islice(trials_of(name, checkout), tries)][-1].counts for name in STARTS}


def least(several: Sequence[Start]) -> Start:
    """Return the lowest value of each count."""
    return {
        process: {count: min(one[process].get(count, 0) for one in several) for count in counts}
        for process, counts in several[0].items()
    }


# -- what is recorded -----------------------------------------------------------------------------


class Rise(NamedTuple):
    """A count that differs from the recorded one.

    Attributes:
        what: start, process and count.
        before: the recorded one.
        now: the new one.
    """

    what: str
    before: int
    now: int

    def __str__(self) -> str:
        """Return the change as a line."""
        return f"{self.what}: {self.before} -> {self.now}"


def pairs(before: Mapping[str, Start], now: Mapping[str, Start]) -> Iterator[Rise]:
    """Yield all counts with their recorded and new values."""
    for start, processes in now.items():
        for process, counts in processes.items():
            known = before.get(start, {}).get(process, {})
            for name in {**known, **counts}:
                what = f"{start}, {process}, {name}"
                yield Rise(what, known.get(name, 0), counts.get(name, 0))


def risen(before: Mapping[str, Start], now: Mapping[str, Start], *, alike: bool) -> list[Rise]:
    """Return the counts that exceed the recorded ones by more than they may.

    Args:
        before: the recorded counts.
        now: the new counts.
        alike: whether both are for the same version of Python; otherwise only counts that do not
            depend on it are compared.
    """
    return [one for one in pairs(before, now) if one.now > _most(one, alike=alike)]


def _most(one: Rise, *, alike: bool) -> float:
    _, process, name = one.what.split(", ")
    if name in EXACT:
        return one.before
    if not alike and name not in EVERYWHERE:
        return float("inf")
    usual = (0.2, 8) if process in OF_MACHINE else OTHERS
    share, least = TOLERANCE.get(name, usual)
    return one.before + max(share * one.before, least)


def fallen(before: Mapping[str, Start], now: Mapping[str, Start]) -> list[Rise]:
    """Return the counts that are so far below the recorded ones that they must be recorded."""
    return [
        one
        for one in pairs(before, now)
        if one.what.endswith((*EXACT, "code"))
        if one.now < one.before * (1 - SLACK * one.what.endswith("code"))
    ]


def version() -> str:
    """Return the version of Python in the recorded form."""
    return ".".join(map(str, sys.version_info[:2]))


def sum_of(counts: Mapping[str, Start]) -> str:
    """Return a hash of counts."""
    return hashlib.sha256(json.dumps(counts, sort_keys=True).encode()).hexdigest()[:8]


def recorded() -> dict[str, Any]:
    """Return the recorded file: `python`, `counts` and, oldest first, `changes`."""
    made: dict[str, Any] = json.loads(FILE.read_text())
    return made


def renewed(known: dict[str, Any], found: Mapping[str, Start], why: str, date: str) -> Any:
    """Return the file to record after a change.

    A count within its tolerance keeps its recorded value, so that many small steps do not raise
    it.

    Raises:
        ValueError: a count has gone up, and no reason is given.
    """
    before = known.get("counts", {})
    up = risen(before, found, alike=True) if before else []
    if up and not why.strip():
        raise ValueError("give a reason why these go up:\n" + "\n".join(map(str, up)))
    new = {one.what for one in up}

    def kept(start: str, process: str, name: str, count: int) -> int:
        least = before.get(start, {}).get(process, {}).get(name, count)
        return count if f"{start}, {process}, {name}" in new else min(least, count)

    counts = {
        start: {
            process: {name: kept(start, process, name, count) for name, count in one.items()}
            for process, one in processes.items()
        }
        for start, processes in found.items()
    }
    if counts == before:
        return known
    change = {"date": date, "why": why.strip(), "up": [*map(str, up)], "sum": sum_of(counts)}
    return {"python": version(), "changes": [*known.get("changes", []), change], "counts": counts}


def text_of(made: Any) -> str:
    """Return the text of the file, with a line per count so that changes can be merged."""
    return json.dumps(made, indent=1) + "\n"


def table(before: Mapping[str, Start], now: Mapping[str, Start]) -> str:
    """Return the counts next to the earlier ones, with their ratio."""
    lines = [
        f"{one.what:42} {one.before:8} {one.now:8} {one.now / one.before if one.before else 0:7.3f}"
        for one in pairs(before, now)
        if one.now or one.before
    ]
    return "\n".join([f"{'':42} {'before':>8} {'now':>8} {'ratio':>7}", *lines])


def main() -> None:
    """Count, and print or record the counts."""
    parser = argparse.ArgumentParser(description="Count what the processes of a start do.")
    parser.add_argument("--before", metavar="REV", help="a commit, or another checkout of dsrun")
    parser.add_argument(
        "--write", metavar="REASON", help="record the counts; '' if none has gone up"
    )
    parser.add_argument("--tries", type=int, default=TRIES)
    options = parser.parse_args()
    now = measure(tries=options.tries)
    if options.write is not None:
        known = recorded() if FILE.exists() else {}
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        FILE.write_text(text_of(renewed(known, now, options.write, today)))
    elif options.before:
        with checkout_of(options.before) as checkout:
            print(table(measure(checkout, options.tries), now))
    else:
        print(table(recorded()["counts"], now))


if __name__ == "__main__":
    main()
