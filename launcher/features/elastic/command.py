"""dsrun-elastic: the batch plan of a DeepSpeed config as a table, or as JSON."""

from __future__ import annotations

import os

from ...common import entry
from ...common.errors import UsageError
from ...common.formats import versioned
from ...common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...specs.batch_plan import BatchPlan, BatchShare
    from .json_types import ElasticPlan, ShareJson

    Rows = Sequence[tuple[int, BatchShare]]

METAVARS = {"config": "FILE", "world_size": "N"}
"""Options with a value; the others are flags."""

NAMES = {"-c": "config", "-w": "world_size", "-h": "help"}
NAMES |= {f"--{name}": name for name in (*METAVARS, "json", "help")}

HEADINGS = ("world size", "micro batch", "accumulation steps", "batch size")


def run(words: list[str]) -> int:
    """Run the command with these arguments; return the exit code.

    Raises:
        UsageError: an argument, the config or the world size is invalid.
    """
    given = _parse(words)
    if "help" in given:
        from ...cli.help.pages import of_tool

        entry.write(of_tool("dsrun-elastic"))
        return 0
    if "config" not in given:
        raise UsageError("dsrun-elastic: no config; expected -c FILE, see dsrun-elastic -h")
    size = _size(given["world_size"]) if "world_size" in given else None
    from .plan_batch import read

    plan = read(given["config"], "--config")
    rows = _rows(plan, size, given["config"])
    entry.write(f"{_as_json(plan, rows) if 'json' in given else _as_table(plan, rows)}\n")
    return 0


def _parse(words: list[str]) -> dict[str, str]:
    """Return the options that were given, with their values, "" for a flag."""
    given = dict[str, str]()
    rest = iter(words)
    for word in rest:
        typed, attached, value = _split(word)
        name = NAMES.get(typed)
        if name is None:
            what = "unknown option" if word.startswith("-") else "unexpected argument"
            meant = (
                f"; write -c {word}"
                if (os.path.isfile(word) or word.endswith(".json")) and not given
                else ""
            )
            raise UsageError(f"dsrun-elastic: {what} {word!r}{meant}; see dsrun-elastic -h")
        if name in given and name in METAVARS:
            raise UsageError(f"{typed}: is given twice; give it once")
        given[name] = _value(name, typed, value if attached else None, rest)
    return given


def _split(word: str) -> tuple[str, bool, str]:
    """Split `--name=value` and `-Xvalue` into (name, whether a value is attached, value)."""
    if word.startswith("--"):
        name, attached, value = word[2:].partition("=")
        return f"--{name.replace('-', '_')}", bool(attached), value
    return word[:2], len(word) > 2, word[2:].removeprefix("=")


def _value(name: str, typed: str, attached: str | None, rest: Iterator[str]) -> str:
    if name not in METAVARS:
        if attached is not None:
            raise UsageError(f"{typed}: takes no value, not {attached!r}")
        return ""
    value = next(rest, None) if attached is None else attached
    if value is None:
        raise UsageError(f"{typed}: expected {METAVARS[name]} after it")
    return value


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise UsageError(f"--world_size: expected 1 or more, not {text!r}")
    return int(text)


def _rows(plan: BatchPlan, size: int | None, path: str) -> Rows:
    if size is None and not plan.valid:
        raise UsageError(
            f"{path}: elasticity: no number of whole nodes has min_gpus to max_gpus ranks that"
            " divide a batch; -w N shows the plan for N ranks"
        )
    try:
        return [(one, plan.for_world(one)) for one in (plan.valid if size is None else [size])]
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _as_json(plan: BatchPlan, rows: Rows) -> str:
    import json

    fields: ElasticPlan = {
        "version": plan.settings.schema,
        "valid": plan.valid,
        "shares": [_share(*row) for row in rows],
    }
    return json.dumps(versioned("elastic_plan", fields))


def _share(size: int, share: BatchShare) -> ShareJson:
    return {
        "world_size": size,
        "train_micro_batch_size_per_gpu": share.micro_batch,
        "gradient_accumulation_steps": share.accumulation,
        "train_batch_size": share.batch,
    }


def _as_table(plan: BatchPlan, rows: Rows) -> str:
    table = [HEADINGS, *((str(size), *map(str, share)) for size, share in rows)]
    return "\n".join([*_summary(plan, rows), "", *map(_line, table)])


def _summary(plan: BatchPlan, rows: Rows) -> Iterator[str]:
    if plan.valid:
        yield (
            f"batch size {plan.batch} (schema {plan.settings.schema}):"
            f" {counted(len(plan.valid), 'world size')}, {plan.valid[0]} to {plan.valid[-1]}"
        )
    parallel = plan.settings.model_parallel
    if parallel > 1:
        yield f"every {parallel} ranks share one copy of the model (model_parallel_size)"
    if rows[0][0] not in plan.valid:
        yield f"world size {rows[0][0]} is not among them; its batch size differs (schema 0.2)"


def _line(cells: Sequence[str]) -> str:
    pairs = zip(cells, HEADINGS, strict=True)
    return "  ".join(f"{cell:>{len(name)}}" for cell, name in pairs)


def start() -> None:
    """Run the command `dsrun-elastic` and exit."""
    entry.start(run)


if __name__ == "__main__":
    start()
