"""Try dsrun on the NVIDIA GPU of this machine, as `make gpu` does.

    PYTHON -m tests.gpu [--report FOLDER] [--patience N] [PART ...]

It takes at most 8 minutes, installs nothing and needs no network. PYTHON must have torch. The
folder gets `report.txt` and `report.json`. The exit code is 0 if no part fails, 1 if one does, and
2 if there is no NVIDIA GPU, or no torch.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import parts, surroundings, verdicts
from .checks import Outcome, skipped
from .desk import Desk, OverLimit
from .report import Result, as_json, as_text, ending, lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

NOTHING = 2
"""The exit code where there is nothing to try."""

LOOK = 40.0
"""Seconds for the first import of torch."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the parts, print and write the results, and return the exit code."""
    options = _options(words)
    if why := _nothing():
        print(f"make gpu: {why}", file=sys.stderr)
        return NOTHING
    folder = Path(options.report)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dsrun-gpu-") as scratch:
        more = (parts.WHOLE, options.patience)
        desk = Desk(Path(scratch), sys.executable, os.environ, *more)
        look, results = _looked(desk)
        where = surroundings.of_machine(os.environ, look)
        chosen = [one for one in parts.PARTS if not options.parts or one.name in options.parts]
        _tell(folder, where, results)
        for part in chosen:
            results.append(_tried(part, desk, look))
            _tell(folder, where, results)
    print(f"{ending(results)}\nwritten: {folder}/report.txt, {folder}/report.json")
    return int(any(one.outcome is Outcome.FAILED for one in results))


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    names = [one.name for one in parts.PARTS]
    parser = argparse.ArgumentParser(prog="make gpu", description="Try dsrun on an NVIDIA GPU.")
    parser.add_argument("--report", default="gpu-report", metavar="FOLDER")
    parser.add_argument(
        "--patience", type=float, default=1.0, metavar="N", help="multiply all time limits"
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of: {', '.join(names)}")
    options = parser.parse_args(words)
    if unknown := {*options.parts} - {*names}:
        parser.error(
            f"unknown part {', '.join(sorted(unknown))}; the parts are: {', '.join(names)}"
        )
    return options


def _nothing() -> str:
    """Return why there is nothing to try, "" if there is."""
    if not surroundings.devices():
        return "no NVIDIA GPU here: there is no /dev/nvidia0"
    if find_spec("torch") is None:
        return f"{sys.executable} has no torch; choose a Python with torch: make gpu PYTHON=..."
    return ""


def _looked(desk: Desk) -> tuple[dict[str, Any], list[Result]]:
    """Return the facts of torch, NVML and the driver, and the result of reading them."""
    look: dict[str, Any] = {"torch": None, "nvml": None, "proc": None, "packages": {}}
    began = time.monotonic()
    desk.begin(LOOK)
    try:
        look |= desk.program("look.py").json
    except (LookupError, OverLimit) as error:
        look["errors"] = {"torch": str(error)}
    checks = parts.gathered(verdicts.usable(look))
    return look, [Result("torch", time.monotonic() - began, checks, desk.ran)]


def _tried(part: parts.Part, desk: Desk, look: dict[str, Any]) -> Result:
    """Return the result of a part."""
    began = time.monotonic()
    desk.begin(part.seconds)
    if look["torch"] is None:
        checks = [skipped(part.name, "torch has no usable device")]
    else:
        checks = parts.tried(part, desk, parts.Gpu(look, _mask()))
    return Result(part.name, time.monotonic() - began, checks, desk.ran)


def _mask() -> str:
    """Return the entry of the mask for the first visible device."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]


def _tell(folder: Path, where: dict[str, Any], results: list[Result]) -> None:
    """Print the newest result, and write all: the machine may disappear at any time."""
    print(*lines_of(results[-1]), sep="\n", flush=True)
    whole = json.dumps(as_json(where, results), indent=1)
    (folder / "report.txt").write_text(as_text(where, results), encoding="utf-8")
    (folder / "report.json").write_text(f"{whole}\n", encoding="utf-8")


if __name__ == "__main__":
    # As after Ctrl-C, what was started is stopped.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
