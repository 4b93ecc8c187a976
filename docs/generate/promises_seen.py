"""Write `docs/promises-seen.md`: what dsrun does under faults, and how often that was seen."""

from __future__ import annotations

import json
import re
from statistics import median
from typing import TYPE_CHECKING

from tests.promises.figures import FILE, read
from tests.promises.rows import (
    COLLECTIVE,
    FAULTS,
    GRACE,
    HANG,
    KNOWN,
    OTHER_ROWS,
    OTHERS,
    PHASES,
    ROWS,
    SILENCE,
    WAYS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.promises.figures import Figures, Trial
    from tests.promises.rows import Row

HEAD = """\
<!-- Written by `python -m docs.generate` from docs/promises.json and tests/promises. -->

# Promises seen

What dsrun does when something fails, and how often it was seen to do so: {trials} trials of
{rows} rows, each a fault, a phase of the job and a way to start it. [promises.md](promises.md)
has a command that plays some of these faults on your own hosts.

    make promises HOURS=1
    .venv/bin/python -m tests.promises --rows launcher-sigkill,slurm

`make promises` (as root) plays rows for so many hours, those of which least is known first, and
adds each trial to [promises.json](promises.json); `python -m docs.generate` then writes this
page. The second command plays the rows whose names have all these words.

## How it was seen

* **Jobs.** Two workers on each of two hosts, `n1` and `n2`, with `--heartbeat_timeout
  {silence:g}` and `--grace {grace:g}`. The ranks go from step to step together, print a line in
  each, and have a child in a session of its own that ignores SIGTERM. A fault comes at a random
  moment within half a second, by the number of the trial. It concerns `n2` or its last rank,
  unless the row says otherwise.
* **Kept** means: the exit code, the words on standard error and the report's `cause` are those
  of the row; no line of a rank is missing before its last one; and within the bound dsrun has
  ended, and no process, listening port, file or container of the job is left on any host. The
  bound counts from the fault; if the job goes on as it was, from the moment when the workers may
  end. What is left while a host is off or frozen is looked for once it is back.
* **Below x %** is the upper bound of the rate of failures, with 95 % confidence (Clopper and
  Pearson): without a failure in 5 trials 46 %, in 20 trials 14 %.
* **False alarms** are those of the same job without the fault: whether it failed, or its report
  has a failure, a loss or a hang.
* **dsrun**: `launcher/` and `accelerator/` of the git trees `{tree}`,
  from {first} to {last} (UTC). A row that was last seen on another tree names it.
* **Machine**: {machine}.

What these figures do not cover: no GPU, no RDMA; hosts are namespaces of one machine with few
cores, which share a kernel, a clock and a disk; two hosts, not thousands. The seconds are those
of a busy machine.
"""

WAYS_HEAD = """\
## Ways to start a job

| way | what it is |
|---|---|
"""

TABLE_HEAD = """\
| fault | way | dsrun | code | says | bound | kept | below | median | most | false alarms |
|---|---|---|---|---|---|---|---|---|---|---|
"""


NOBODY = {"dsrun-sigkill", "dsrun-sigterm", "dsrun-sigint", "reader-gone"}
"""Faults that no host is to be named for."""

OTHERS_HEAD = """\
## Other launchers

The same faults with other launchers, and with dsrun beside them; once each. Rows that are not
here were not played yet. Two ranks on each of two hosts meet in a gloo collective in each step,
which raises after {collective:g} s (torch's own default is 30 minutes). So ranks notice that a peer
has died or stopped, whatever started them.

* **dsrun**: over ssh, with `--elastic_training --min_elastic_nodes 1 --max_restarts 1
  --heartbeat_timeout {silence:g} --hang_timeout {hang:g} --on_hang restart`.
* **torchrun**: on each host, by pdsh, with `--rdzv-backend c10d --nnodes 1:2 --max-restarts 1
  --rdzv-conf last_call_timeout=8`.
* **ft_launcher**: likewise, with `--ft-param-rank_heartbeat_timeout {hang:g}` and ranks that send
  heartbeats; of nvidia-resiliency-ext 0.4.1, from PyPI. It started and restarted ranks here, but
  the faults were not played with it yet.
* **mpirun**: Open MPI's, at the login.
* **srun -K**: in an allocation; `-K` is `--kill-on-bad-exit`.

*Survived*: the ranks were started again, or never stopped, and the job then ended well. *Named*:
the launcher has a line with the host or the rank, beside what ranks say themselves (for torchrun
and ft_launcher, a line of the host's with an exit code). *Seconds* are those from the fault until
the launcher has ended and hosts are clean; with a restart, they include imports of torch. *Left*
are processes of the job (at most three are counted), or else files: torchrun and ft_launcher leave
a folder for logs in `/tmp` in each run. "The launcher itself" is, of torchrun and ft_launcher, the
one on the first host. mpirun and srun start nothing again, and are therefore clean sooner where a
rank fails. DeepSpeed (0.19.8 can be installed from PyPI) was not played.

    .venv/bin/python -m tests.promises --rows running/torchrun --tries 1

| fault | launcher | survived | code | named | seconds | left |
|---|---|---|---|---|---|---|
"""


def files() -> dict[str, str]:
    """Return the page by its path from the root."""
    return {"docs/promises-seen.md": page()}


def page() -> str:
    """Return the page."""
    seen = {name: one for name, one in read().items() if name in ROWS}
    parts = [_head(seen), WAYS_HEAD + "".join(_ways()), _broken(seen)]
    for phase, (title, words) in PHASES.items():
        rows = [row for row in ROWS.values() if row.phase == phase and row.name in seen]
        if rows:
            tree = _tree(seen)
            lines = "".join(_line(row, seen, tree) for row in rows)
            parts.append(f"## {title}\n\n{words}\n\n{TABLE_HEAD}{lines}")
    return "\n".join([*parts, _others(), _unseen(seen)])


def _tree(seen: Mapping[str, Figures]) -> str:
    """The tree of the latest trial."""
    latest = max(seen.values(), key=lambda one: one.tries[-1].at, default=None)
    return latest.tree if latest else ""


def _head(seen: Mapping[str, Figures]) -> str:
    times = [trial.at[:16].replace("T", " ") for one in seen.values() for trial in one.tries]
    machine = json.loads(FILE.read_text(encoding="utf-8"))["machine"] if FILE.exists() else {}
    return HEAD.format(
        trials=len(times),
        rows=len(seen),
        tree=_tree(seen),
        first=min(times, default="-"),
        last=max(times, default="-"),
        machine=", ".join(f"{name} {value}" for name, value in machine.items()),
        silence=SILENCE,
        grace=GRACE,
    )


def _ways() -> Iterator[str]:
    for name, way in WAYS.items():
        yield f"| {name} | {way.what} |\n"


def _broken(seen: Mapping[str, Figures]) -> str:
    rows = [(ROWS[name], one) for name, one in seen.items() if one.failures]
    if not rows:
        return "## What did not hold\n\nNothing: each promise was kept in each trial.\n"
    return "## What did not hold\n\n" + "".join(_fall(row, one) for row, one in rows)


def _fall(row: Row, one: Figures) -> str:
    why = next(trial for trial in reversed(one.tries) if trial.why).why[0]
    known = KNOWN.get(row.name)
    often = f"{one.failures} of {len(one.tries)}"
    said = f"{known}. " if known else ""
    title = f"{FAULTS[row.fault]}, {PHASES[row.phase][0].lower()}, {row.way}"
    return f"* **{title}** ({often}): {said}The last time: {_plain(why)}\n"


def _line(row: Row, seen: Mapping[str, Figures], tree: str) -> str:
    promise, one = row.promise, seen[row.name]
    seconds = [trial.seconds for trial in one.tries if not trial.why]
    kept, tries = len(seconds), len(one.tries)
    cells = [
        FAULTS[row.fault],
        row.way if one.tree == tree else f"{row.way} (`{one.tree}`)",
        promise.does,
        str(promise.code),
        _words(promise.says),
        f"{promise.within:g} s",
        f"{kept} of {tries}" if kept == tries else f"**{kept} of {tries}**",
        f"{one.bound:.0%}",
        f"{median(seconds):.1f} s" if seconds else "-",
        f"{max(seconds):.1f} s" if seconds else "-",
        _alarms(seen.get(row.twin)),
    ]
    return f"| {' | '.join(cells)} |\n"


def _others() -> str:
    seen = read()
    lines = [
        _other(row, seen[row.name].tries[-1]) for row in OTHER_ROWS.values() if row.name in seen
    ]
    head = OTHERS_HEAD.format(collective=COLLECTIVE, silence=SILENCE, hang=HANG)
    return head + "".join(lines) if lines else ""


def _other(row: Row, trial: Trial) -> str:
    processes = sum(why.startswith("left: ") and "process" in why for why in trial.why)
    files = any(why.startswith("left: ") for why in trial.why)
    clean = trial.code is not None and not processes
    cells = [
        FAULTS[row.fault]
        .replace("dsrun", "the launcher itself")
        .removesuffix(", with --hang_timeout"),
        OTHERS[row.way].what,
        "yes" if trial.code == 0 and "exit code 0" not in trial.why else "no",
        "does not end" if trial.code is None else f"{trial.code}",
        "-" if row.fault in NOBODY else "no" if _unsaid(trial) else "yes",
        f"{trial.seconds:.1f}" if clean else "-",
        f"{processes}" if processes else "files" if files else "nothing",
    ]
    return f"| {' | '.join(cells)} |\n"


def _unsaid(trial: Trial) -> bool:
    return any("it did not say" in why for why in trial.why)


def _alarms(twin: Figures | None) -> str:
    return f"{twin.failures} of {len(twin.tries)}" if twin else "-"


def _words(pattern: str) -> str:
    """Return a regular expression as a reader wants to see it."""
    plain = pattern.replace(r"\d+", "N").replace(".*", "...").replace("\\", "").strip()
    return f"`{plain}`" if plain else ""


def _plain(text: str) -> str:
    """Return a reason without what Markdown would take for its own."""
    return re.sub(r"[|<>*_`\[\]]", " ", text)


def _unseen(seen: Mapping[str, Figures]) -> str:
    rows = [row for row in ROWS.values() if row.name not in seen]
    lines = [f"* {row.name}: {row.skip or 'not played yet'}\n" for row in rows]
    return "## Not played\n\n" + ("".join(lines) or "Nothing.\n")
