"""What keeps the code small, and the tests true on a busy machine.

Bounds on what a class shows and on who takes a run, and a test file for each module: whoever meets
a bound divides by reasons to exist, and does not raise it. No test tells a good program from a bad
one by a clock.
"""

from __future__ import annotations

import ast
import re
from functools import cache, partial
from textwrap import indent
from typing import TYPE_CHECKING

import pytest

from .support.checkout import CHECKOUT
from .support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Set
    from pathlib import Path

    Function = ast.FunctionDef | ast.AsyncFunctionDef

LAUNCHER, TESTS = CHECKOUT / "launcher", CHECKOUT / "tests"
MODULES = sorted(LAUNCHER.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def functions(path: Path) -> tuple[Function, ...]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return tuple(node for node in ast.walk(parsed(path)) if isinstance(node, kinds))


def all_functions() -> Iterator[tuple[str, Function]]:
    """Every function of the launcher, with where it is."""
    for path in MODULES:
        for function in functions(path):
            yield f"{path.relative_to(CHECKOUT)}:{function.lineno} {function.name}", function


def arguments(function: Function) -> int:
    args = function.args
    named = (*args.posonlyargs, *args.args, *args.kwonlyargs)
    return len(named) + bool(args.vararg) + bool(args.kwarg)


def test_few_modules_and_folders_are_at_the_top() -> None:
    assert len(list(LAUNCHER.glob("*.py"))) <= 6
    assert len(list(LAUNCHER.glob("*/__init__.py"))) <= 13


PUBLIC_NAMES = 31
"""Public methods and attributes of a class; one of many more has many reasons to change."""

OTHER_BOUNDS = {"Run": 20, "RunState": 50, "RunNode": 39, "NodeRun": 39, "RunnerRounds": 32}
"""What is to stay small, and classes that are to lose some."""

HOLDERS_OF_RUN = {
    "features/setup/runner.py",
    *("head/doors.py", "features/elastic/runner_host_watch.py", "features/hold/runner_survey.py"),
    *("head/job/one_program.py", "features/watch/runner.py", "features/health/runner.py"),
    *(
        "features/quick_check/runner_interfaces.py",
        "features/quick_check/runner_gate.py",
        "features/sync/runner_gate.py",
    ),
}
"""Modules outside of `head/run` that have the whole of a run, as they put it together. Others take
a view of it, its events, and a function that takes decisions."""


def stored(function: Function) -> Iterator[str]:
    """Yield the attributes of `self` that a method sets."""
    for node in ast.walk(function):
        owner = node.value if isinstance(node, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id == "self":
            assert isinstance(node, ast.Attribute)
            if isinstance(node.ctx, ast.Store):
                yield node.attr


def names_of(one: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a class's body gives to its objects."""
    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from (one.name, *stored(one))
    elif isinstance(one, ast.Assign | ast.AnnAssign):
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        inner = (name for target in targets for name in ast.walk(target))
        yield from (name.id for name in inner if isinstance(name, ast.Name))


def public_names(one: ast.ClassDef) -> set[str]:
    return {name for part in one.body for name in names_of(part) if not name.startswith("_")}


def is_declared(one: ast.ClassDef) -> bool:
    """Return whether a class lists fields, one for each that its subject has."""
    made = any(isinstance(part, ast.FunctionDef) and part.name == "__init__" for part in one.body)
    return one.name == "Options" or not made


def test_what_a_public_name_is() -> None:
    text = "class A:\n b = _c = 1\n def d(self): self.e, self._f = 1, 2; self.g.h = 3"
    (one,) = ast.parse(text).body
    assert isinstance(one, ast.ClassDef)
    assert public_names(one) == {"b", "d", "e"}


def test_no_class_has_very_many_public_names() -> None:
    classes = (
        one
        for path in MODULES
        for one in ast.walk(parsed(path))
        if isinstance(one, ast.ClassDef) and not is_declared(one)
    )
    found = [(one.name, len(public_names(one))) for one in classes]
    assert [one for one in found if one[1] > OTHER_BOUNDS.get(one[0], PUBLIC_NAMES)] == []


def test_no_two_classes_have_one_name() -> None:
    """A search then gives the one that is meant."""
    where: dict[str, list[str]] = {}
    for path in MODULES:
        for one in ast.walk(parsed(path)):
            if isinstance(one, ast.ClassDef):
                where.setdefault(one.name, []).append(path.as_posix())
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_no_table_has_handlers_by_type() -> None:
    """With a method for each event, or `match`, the type checker sees what a handler gets."""
    table = re.compile(r"(dict|Mapping)\[type\b.*Callable")
    assert [path for path in MODULES if table.search(path.read_text(encoding="utf-8"))] == []


def has_run(path: Path) -> bool:
    """Return whether a module imports the class of runs, be it for types alone."""
    imports = (one for one in ast.walk(parsed(path)) if isinstance(one, ast.ImportFrom))
    return any(name.name == "Run" for one in imports for name in one.names)


def test_few_modules_have_the_whole_run() -> None:
    inside = {path.relative_to(LAUNCHER).as_posix() for path in MODULES if has_run(path)}
    assert {path for path in inside if not path.startswith("head/run/")} == HOLDERS_OF_RUN


def test_no_constructor_takes_more_than_seven_arguments() -> None:
    """A NamedTuple, which declares its fields, has no constructor of its own and may have more."""
    constructors = [one for one in all_functions() if one[1].name == "__init__"]
    assert [at for at, one in constructors if arguments(one) > 1 + 7] == []


def repeated(tree: ast.Module) -> list[str]:
    """Return the names of a module that are given a value at its top more than once."""
    names = [
        name.id
        for one in tree.body
        if isinstance(one, ast.Assign)
        for name in one.targets
        if isinstance(name, ast.Name)
    ]
    return [name for at, name in enumerate(names) if name in names[:at]]


def test_no_module_gives_one_name_to_two_values() -> None:
    """The second takes the place of the first wherever that is meant."""
    assert repeated(ast.parse("ONE = 1\nTWO = 2\nONE = 3")) == ["ONE"]
    assert {path: names for path in MODULES if (names := repeated(parsed(path)))} == {}


def mirrored(path: Path) -> Path:
    return TESTS / path.relative_to(LAUNCHER).parent / f"test_{path.name}"


TESTED_WITH_OTHERS = {
    *("features/containers/node_images.py", "features/containers/node_records.py"),
    *("features/promises/runner_job.py", "features/promises/runner_table.py"),
    "features/promises/worker_program.py",
}
"""Modules that the tests of their neighbours try."""


@pytest.mark.parametrize("room", ["head", "node", "control", "features"])
def test_every_module_has_its_tests_in_the_same_place(room: str) -> None:
    """But for those without a function, which declare values, and for plans and commands."""
    modules = [path for path in (LAUNCHER / room).rglob("*.py") if functions(path)]
    tested = [path for path in modules if not path.name.startswith(("plan", "command"))]
    missing = [path for path in tested if not mirrored(path).exists()]
    assert {path.relative_to(LAUNCHER).as_posix() for path in missing} <= TESTED_WITH_OTHERS


NAMED_PATH = re.compile(r"`(?:launcher/)?([a-z_]+(?:/[a-z_]+)+)(?:\.py)?/?`")
"""A module or folder of the launcher, in words."""

PATHS_OF_OTHERS = {"elastic/multiprocessing/errors", "jax/_src/clusters"}
"""Of torch and jax."""


def missing_paths(path: Path) -> list[str]:
    """Return the modules that the words of a module name, and that are not there."""
    roots = (LAUNCHER, LAUNCHER / "features", path.parent, CHECKOUT)
    folders = {one.name for root in roots[:2] for one in root.iterdir() if one.is_dir()}
    return [
        name
        for name in NAMED_PATH.findall(path.read_text(encoding="utf-8"))
        if name.partition("/")[0] in folders
        and not any((root / name).exists() or (root / f"{name}.py").exists() for root in roots)
    ]


def test_words_name_modules_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("# As `head/job/launch` and `head/job/no_such.py`, `a/b` does.")
    assert missing_paths(tmp_path / "a.py") == ["head/job/no_such"]
    found = {name: path for path in MODULES for name in missing_paths(path)}
    assert found.keys() == PATHS_OF_OTHERS


# -- tests tell the truth on a busy machine -------------------------------------------------------

READERS = {"load", "loads", "JSONDecoder", "raw_decode"}

BY_THEMSELVES = {
    *("backends/package/ask.py", "backends/package/bootstrap.py", "node/call.py"),
    *(
        "features/elastic/agent.py",
        "features/full_check/all_reduce.py",
        "features/preload/node_messages.py",
    ),
}
"""Modules that run without the package, and read what dsrun has written for them."""


def readers_of_json(text: str) -> list[str]:
    """Return the functions of `json` that a module uses to read."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module in {"json", "json.decoder"}:
            found += [name.name for name in node.names if name.name in READERS]
        elif isinstance(node, ast.Attribute) and node.attr in READERS:
            owner = node.value
            if node.attr == "raw_decode" or (isinstance(owner, ast.Name) and owner.id == "json"):
                found.append(node.attr)
    return found


def test_json_is_read_in_one_place() -> None:
    """What anybody may have written fails there in one way alone."""
    found = {
        f"{path.relative_to(LAUNCHER)}" for path in MODULES if readers_of_json(path.read_text())
    }
    assert found - BY_THEMSELVES == {"common/text.py"}
    assert found >= BY_THEMSELVES


def test_toml_is_read_in_one_place() -> None:
    """Where its size is bounded, and whatever is wrong has one line."""
    importing = {
        f"{path.relative_to(LAUNCHER)}"
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Import) and node.names[0].name in {"tomllib", "tomli"}
    }
    assert importing == {"cli/toml_file.py"}


@pytest.mark.parametrize(
    "text",
    [
        "import json; json.loads(b)",
        "import json; map(json.load, b)",
        "from json import loads",
        "import json; json.JSONDecoder().decode(b)",
    ],
)
def test_what_reads_json(text: str) -> None:
    assert len(readers_of_json(text)) == 1
    assert readers_of_json("import json, pickle; json.dumps(1); pickle.loads(b)") == []


CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}

LONG_PAUSE = 0.3

VIRTUAL = TESTS / "simulation"
"""Whoever sleeps here takes no time: a simulated kernel has the clocks."""
"""Seconds; whoever sleeps for as long, and not for ever, guesses when something has happened."""


def called(node: ast.AST) -> str:
    """Return the last name of what a call calls; nothing if it is no call."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def mentions(node: ast.AST, names: Set[str]) -> bool:
    return any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(node))


def reads_clock(node: ast.AST) -> bool:
    return any(called(one) in CLOCKS for one in ast.walk(node))


def is_measured(node: ast.AST) -> bool:
    """Return whether an expression has a difference of times in it."""
    differences = (one for one in ast.walk(node) if isinstance(one, ast.BinOp))
    return any(isinstance(one.op, ast.Sub) and reads_clock(one) for one in differences)


def assigned(tree: ast.AST, wanted: Callable[[ast.AST], bool]) -> set[str]:
    """Return the names of all values that are wanted."""
    found = (one for one in ast.walk(tree) if isinstance(one, ast.Assign) and wanted(one.value))
    return {name.id for one in found for name in one.targets if isinstance(name, ast.Name)}


def endless_in(*trees: ast.AST) -> set[str]:
    """Return the names of limits that only a hang can reach, and of the times of their ends."""
    names: set[str] = set()
    more = {"HANG", "NEVER"}
    while more - names:
        names |= more
        is_endless = partial(mentions, names=frozenset(names))
        more = {name for tree in trees for name in assigned(tree, is_endless)}
    return names


def functions_of(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield functions and methods, with those in them, and what else is at the top."""
    for one in body:
        yield from functions_of(one.body) if isinstance(one, ast.ClassDef) else [one]


def bounds(comparison: ast.Compare) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what is to be smaller than something else, and that."""
    sides = [comparison.left, *comparison.comparators]
    for left, operator, right in zip(sides, comparison.ops, sides[1:], strict=False):
        if isinstance(operator, ast.Lt | ast.LtE):
            yield left, right
        elif isinstance(operator, ast.Gt | ast.GtE):
            yield right, left


def asserted_durations(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of assertions that something took less than so long."""
    constants = [one for one in tree.body if isinstance(one, ast.Assign)]
    for function in filter(reads_clock, functions_of(tree.body)):
        measured = assigned(function, is_measured)
        endless = endless_in(function, *constants)
        for test in (one.test for one in ast.walk(function) if isinstance(one, ast.Assert)):
            comparisons = (one for one in ast.walk(test) if isinstance(one, ast.Compare))
            for small, large in (pair for one in comparisons for pair in bounds(one)):
                timed = reads_clock(small) or mentions(small, measured)
                if timed and not mentions(large, endless):
                    yield test.lineno


def long_pauses(tree: ast.Module) -> Iterator[int]:
    """Yield the lines where this program itself sleeps for long."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) == "sleep" and node.args:
            seconds = getattr(node.args[0], "value", 0)
            if isinstance(seconds, int | float) and LONG_PAUSE <= seconds < HANG:
                yield node.lineno


@pytest.mark.parametrize(
    ("offences", "words"), [(asserted_durations, CLOCKS), (long_pauses, {"sleep"})]
)
def test_no_test_needs_an_idle_machine(
    offences: Callable[[ast.Module], Iterator[int]], words: Set[str]
) -> None:
    """Whatever a machine does beside the tests may take any time from them.

    Await events with `tests/support/limits.py`; show what is cheap with `tests/support/cost.py`.
    """
    found = [
        f"{path.relative_to(CHECKOUT)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if offences is not long_pauses or VIRTUAL not in path.parents
        if any(word in path.read_text() for word in words)
        for line in sorted(offences(parsed(path)))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("assert time.monotonic() - began < 4", 1),
        ("assert 4 >= round(monotonic() - began)", 1),
        ("assert 1 < time.perf_counter_ns() - began < 4", 1),
        ("took = time.process_time() - began\nassert took < 2, 'long'", 1),
        ("assert time.time() < deadline", 1),
        ("LIMIT = 5\nend = time.monotonic() + LIMIT\nassert time.monotonic() < end", 1),
        ("LIMIT = 2 * HANG\nend = time.monotonic() + LIMIT\nassert time.monotonic() < end", 0),
        ("assert 1 <= time.monotonic() - began", 0),
        ("assert time.monotonic() - began >= 1", 0),
        ("assert told <= time.time()", 0),
        ("took = 3 - 1\nassert took < 2", 0),
    ],
)
def test_what_is_an_asserted_duration(text: str, count: int) -> None:
    tree = ast.parse(f"def test() -> None:\n{indent(text, '    ')}")
    assert len([*asserted_durations(tree)]) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("time.sleep(0.3)", 1),
        ("await asyncio.sleep(2)", 1),
        ("sleep(0.01)", 0),
        ("sleep(seconds)", 0),
        ("sleep(600)", 0),
        ("TEXT = 'time.sleep(60)'", 0),
    ],
)
def test_what_is_a_long_pause(text: str, count: int) -> None:
    assert len([*long_pauses(ast.parse(text))]) == count


OTHER_VERBS = {
    *("abandon", "begin", "conclude", "crash", "dismiss", "drop", "end", "forget", "give_up"),
    *("hang_up", "leave", "quit", "refuse", "release", "settle", "shut", "terminate"),
}
"""Verbs for an end besides `stop` (workers), `close` (resources), `cancel` (requests) and `finish`
(the normal end), and for a beginning besides `start`."""

WORDS_OF_THE_FIELD = {
    "abandon": "goes on without what does not answer, and ends nothing",
    "forget": "a verb of dsrun-job",
    "refuse": "a login, a request or an option",
    "release": "what others get then: a port, a node, a shard",
}
"""Those that say something else than these five."""

NO_VERBS = {
    *("end_signals", "crash_fields", "_crash"),
    *("leave_no_trace", "_leave_input", "_leave_open", "_leave_round", "_leave_us_out"),
}
"""Functions whose names have a noun, or end nothing."""


def test_a_beginning_has_one_verb_and_an_end_has_four() -> None:
    others = sorted(OTHER_VERBS - {*WORDS_OF_THE_FIELD})
    verb = re.compile(rf"_*({'|'.join(others)})(_|$)")
    names = {function.name for path in MODULES for function in functions(path)}
    assert sorted(name for name in names - NO_VERBS if verb.match(name)) == []
