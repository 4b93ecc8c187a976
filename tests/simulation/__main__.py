"""Play worlds by their seeds.

python -m tests.simulation --seeds 0-999        play many, and sum up
python -m tests.simulation --seed 4711 --trace  tell the story of one
python -m tests.simulation --shrink 4711        make it simpler while it still fails
python -m tests.simulation --digest             compare the hashes of 1,200 worlds with the recorded
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import Counter
from itertools import chain
from multiprocessing import Pool, Process, Value
from typing import TYPE_CHECKING, Any, NamedTuple

from . import digest as digests
from .checker import check
from .kept import KEPT, each
from .reached import REACHED
from .scenario import scenario, simpler
from .story import line_of
from .world import play

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .history import Event
    from .scenario import Scenario


LIMIT = 20.0
"""Seconds of processor time after which a world does not end any more."""


class Verdict(NamedTuple):
    """What is wrong with a world.

    Attributes:
        problems: as text, none for a clean one.
        faults: how many of each kind there were.
        seconds: of virtual time.
    """

    seed: int
    problems: list[str]
    faults: dict[str, int]
    seconds: float


def judge(one: Scenario) -> Verdict:
    """Play a world, and check its history."""
    outcome = play(one)
    found = [f"{p.rule} at {p.time:.3f}: {p.text}" for p in check(outcome.history)]
    kinds = Counter(_kind(event) for event in outcome.history if event.kind == "fault")
    return Verdict(one.seed, [*outcome.crashes, *found], dict(kinds), outcome.seconds)


def _kind(event: Event) -> str:
    target = event["target"]
    named = "worker" if isinstance(target, int) else target
    return str(event.fields.get("what", f"{event['fault']} {named}"))


def judged(seed: int) -> Verdict:
    """Play the world of a seed, and check its history; whatever happens is a verdict."""
    try:
        return judge(scenario(seed))
    except Exception as error:
        return Verdict(seed, [f"broken: {error!r}"], {}, 0.0)


def run_seeds(seeds: Sequence[int], jobs: int) -> int:
    """Play many worlds; print those with problems, and a sum."""
    began, faults, virtual, bad = time.monotonic(), Counter[str](), 0.0, []
    with Pool(jobs) as pool:
        for verdict in pool.imap_unordered(judged, seeds, chunksize=4):
            faults.update(verdict.faults)
            virtual += verdict.seconds
            if verdict.problems:
                bad.append(verdict.seed)
                more = f" (and {len(verdict.problems) - 1} more)" if verdict.problems[1:] else ""
                print(f"seed {verdict.seed}: {verdict.problems[0]}{more}", flush=True)
    seconds = time.monotonic() - began
    print(
        f"{len(seeds)} worlds in {seconds:.0f} s ({len(seeds) / seconds:.1f} a second),"
        f" {virtual / 3600:.1f} virtual hours; {len(bad)} with problems: {sorted(bad)}"
    )
    print(", ".join(f"{kind} {count}" for kind, count in sorted(faults.items())))
    return 1 if bad else 0


def run_until_found(seeds: Sequence[int], finds: int, *, kept: bool) -> int:
    """Play the kept worlds, if asked for, and then these, until so many have a problem.

    One that does not end has one as well. Each search is a process of its own, as such a world, or
    one that has spoiled the interpreter, ends it.
    """
    worlds: list[tuple[str, Scenario | int]] = [
        (f"kept: {name}", one) for name in (KEPT if kept else ()) for one in each(KEPT[name])
    ]
    worlds += [(f"seed {seed}", seed) for seed in seeds]
    found, at = 0, Value("i", 0, lock=False)
    while worlds and found < finds:
        search = Process(target=_search, args=(worlds, at))
        search.start()
        search.join()
        if search.exitcode == 0:
            break
        if search.exitcode != 1:
            print(f"found by {worlds[at.value][0]}: crashed with {search.exitcode}", flush=True)
        found, worlds = found + 1, worlds[at.value + 1 :]
    print(f"{found} found in {len(seeds)} worlds")
    return int(found > 0)


def _search(worlds: Sequence[tuple[str, Scenario | int]], at: Any) -> None:
    """Play worlds, and exit with 1 at the first with a problem; `at` is the place of the last."""

    def on_limit(_number: int, _frame: object) -> None:
        print(f"found by {name}: endless: not over within {LIMIT:.0f} s", flush=True)
        os._exit(1)

    signal.signal(signal.SIGPROF, on_limit)
    for at.value, (name, one) in enumerate(worlds):
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        try:
            problems = (judged(one) if isinstance(one, int) else judge(one)).problems
        except Exception as error:
            problems = [f"broken: {error!r}"]
        if problems:
            print(f"found by {name}: {problems[0].strip().splitlines()[-1]}", flush=True)
            sys.exit(1)


def tell_reached(seeds: Sequence[int]) -> int:
    """Play worlds in a marked copy; tell of each clean one which old faults it reaches."""
    for seed in seeds:
        REACHED.clear()
        if not judged(seed).problems:
            print("clean:", seed, *sorted(REACHED), flush=True)
    return 0


def tell(one: Scenario, *, trace: bool) -> int:
    """Play one world, and say what is wrong with it; with `trace`, tell its story."""
    print(one)

    def show(event: Event) -> None:
        print(line_of(event))

    outcome = play(one, show if trace else None)
    print(outcome.output[-3000:])
    verdict = judge(one)
    print("\n".join(verdict.problems) or "clean")
    return 1 if verdict.problems else 0


def shrink(seed: int, *, trace: bool) -> int:
    """Make a world simpler while it breaks the same rule; with `trace`, tell its story."""
    best = scenario(seed)
    rules = _rules(judge(best))
    if not rules:
        print("clean")
        return 0
    found = True
    while found:
        found = False
        for one in simpler(best):
            if _rules(judge(one)) & rules:
                best, found = one, True
                break
    return tell(best, trace=trace)


def _rules(verdict: Verdict) -> set[str]:
    return {problem.split(" ", 1)[0] for problem in verdict.problems}


def digest(given: argparse.Namespace) -> int:
    """Compare the hashes of worlds, or record them; with `--trace`, tell what is hashed of one."""
    if given.trace:
        print("\n".join(digests.lines_of(scenario(given.seed or 0))))
        return 0
    one = None if given.seed is None else [given.seed]
    return digests.main(one if given.seeds is None else list(given.seeds), given.jobs, given.write)


def _seeds(text: str) -> Iterable[int]:
    parts = [part.partition("-") for part in text.split(",")]
    return chain.from_iterable(
        range(int(first), int(last or first) + 1) for first, _, last in parts
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, help="FIRST-LAST[,...]: play these")
    parser.add_argument("--seed", type=int, help="play this one")
    parser.add_argument("--trace", action="store_true", help="tell its story")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="make a failing world simpler")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--finds", type=int, metavar="N", help="stop when N have a problem")
    parser.add_argument("--digest", action="store_true", help="compare hashes of worlds")
    parser.add_argument("--write", metavar="REASON", help="with --digest: record them, and why")
    parser.add_argument("--reached", action="store_true", help="tell the old faults that they meet")
    parser.add_argument("--kept", action="store_true", help="with --finds: the kept ones before")
    given = parser.parse_args()
    if given.write is not None and (not given.digest or not given.write.strip()):
        parser.error("--write REASON needs --digest, and a reason")
    if given.digest:
        return digest(given)
    if given.reached:
        return tell_reached(list(given.seeds))
    if given.finds:
        return run_until_found(list(given.seeds), given.finds, kept=given.kept)
    if given.seeds is not None:
        return run_seeds(list(given.seeds), given.jobs)
    if given.shrink is not None:
        return shrink(given.shrink, trace=given.trace)
    return tell(scenario(given.seed or 0), trace=given.trace)


if __name__ == "__main__":
    sys.exit(main())
