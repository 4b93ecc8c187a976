"""Failures whose advice depends on how the program was started."""

from __future__ import annotations

import os
import re

from ...specs.program import TORCHS_RANK_OPTION
from ...specs.verdict import FailureClass, Retry, Verdict
from .runner_classify import evidence_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...head.report.report import WorkerFailure
    from ...specs.program import Program

LOCAL_RANK = Verdict(
    FailureClass.SCRIPT,
    Retry.NO,
    "the script does not accept --local_rank",
    "give --no_local_rank (LOCAL_RANK is set anyway)",
)

TORCHS_LOCAL_RANK = LOCAL_RANK._replace(
    sentence="the script does not accept --local-rank",
    advice="leave --local_rank out (LOCAL_RANK is set anyway), or replace torchrun's"
    " options with --num_gpus, which passes --local_rank",
)

NO_INPUT = Verdict(
    FailureClass.SCRIPT,
    Retry.NO,
    "the workers' standard input is empty",
    "for breakpoint() and input() on rank 0, give --stdin rank0, which forwards dsrun's own input",
)

ONE_OR_OTHERS = "workers = 1, or add LOCAL_RANK to the port"

# Output of breakpoint() and input() without input; newer Pythons exit at pdb's prompt.
_NO_INPUT = r"(^(bdb\.)?BdbQuit|^EOFError: EOF when reading a line|^\(Pdb\).*)\Z"

# How programs report an unknown option, on the line that names it: argparse, click, absl and
# gflags, fire, getopt of glibc, musl and Python, Perl, git, gcc, boost, cobra, clap, Go's flag,
# bash, node, awk, find, ip, transformers; and Python where a number is expected.
_UNKNOWN = (
    r"(unrecogni[sz]ed|unknown|bad|invalid|illegal|unexpected|unsupported|no such) "
    r"(command.line |gnu long |extra )?(options?|flags?|arguments?|predicate|switch|parameter)"
    r"|could not consume arg|not (an option|recogni[sz]ed|expected)|wasn't expected|is unknown"
    r"|provided but not defined|arguments are not used"
    r"|(string to float|with base 10): '(?=-)"
)
_BEFORE = r"-local[_-]rank\b"
_BEHIND = r"\blocal[_-]rank"

# Reports by programs with short options only, such as ssh, nvidia-smi and procps, and by any
# program that repeats it. In the output of a Python script this may mean something else.
_UNNAMED = (
    r"-local[_-]rank=[0-9]|illegal option -|(invalid|unrecognized|unknown) option:? (-- )?['\"`]?-"
    r"|invalid combination of input arguments|unknown gnu long option"
)

_MISSING = r"^ModuleNotFoundError: No module named '([^'.]+)"


def hint(failure: WorkerFailure, program: Program | None, folder: str) -> Verdict | None:
    """Return the verdict on a failure to which a hint applies, None if none does.

    Args:
        failure: the failure of the worker.
        program: the program that it ran; None if unknown.
        folder: its working folder, as a path on this machine.
    """
    found = (one(failure, program, folder) for one in HINTS)
    return next((one for one in found if one), None)


def _local_rank(failure: WorkerFailure, program: Program | None, _folder: str) -> Verdict | None:
    output = f"{failure.stderr}\n{failure.stdout}"
    if program is not None and not program.local_rank:
        return None
    executable = program is not None and program.no_python
    named = "rank" in output.lower()  # else the patterns, which are large, need not be compiled
    complains = (named and any(map(_is_unknown, output.split("\n")))) or (
        executable and re.search(_UNNAMED, output, re.IGNORECASE)
    )
    if not complains:
        return None
    torchs = program is not None and program.rank_option == TORCHS_RANK_OPTION
    return TORCHS_LOCAL_RANK if torchs else LOCAL_RANK


def _is_unknown(line: str) -> bool:
    """Return whether a line says that --local_rank, found before or after, is unknown."""
    if "rank" not in line.lower():
        return False
    unknown = [match.span() for match in re.finditer(_UNKNOWN, line, re.IGNORECASE)]
    before = re.search(_BEFORE, line, re.IGNORECASE)
    behind = [match.start() for match in re.finditer(_BEHIND, line, re.IGNORECASE)]
    return bool(unknown) and (
        (before is not None and before.end() <= unknown[-1][0])
        or (bool(behind) and behind[-1] >= unknown[0][1])
    )


def _no_input(failure: WorkerFailure, _program: Program | None, _folder: str) -> Verdict | None:
    texts = [text.rstrip() for text in (failure.stderr, failure.stdout)]
    asked = any(word in text for text in texts for word in ("BdbQuit", "EOFError", "(Pdb)"))
    ends = asked and any(re.search(_NO_INPUT, text, re.MULTILINE) for text in texts)
    return NO_INPUT if ends else None


def _missing(failure: WorkerFailure, _program: Program | None, folder: str) -> Verdict | None:
    names = re.findall(_MISSING, failure.stderr, re.MULTILINE)
    if not names or not folder or not _has_module(folder, names[-1]):
        return None
    sentence = (
        f"{names[-1]} is in {folder}, which python does not search for a script in another folder"
    )
    import shlex

    path = shlex.quote(f"PYTHONPATH={folder}")
    return Verdict(FailureClass.SCRIPT, Retry.NO, sentence, f"use --export {path}")


def _shared_port(failure: WorkerFailure, _program: Program | None, _folder: str) -> Verdict | None:
    who, _, what = evidence_of(failure, "shared").partition("; ")
    sentence = f"{who} on {failure.host} {what}"
    return Verdict(FailureClass.SCRIPT, Retry.NO, sentence, ONE_OR_OTHERS) if what else None


HINTS: tuple[Callable[[WorkerFailure, Program | None, str], Verdict | None], ...] = (
    _local_rank,
    _no_input,
    _missing,
    _shared_port,
)


def _has_module(folder: str, name: str) -> bool:
    path = os.path.join(folder, name)
    return os.path.isfile(f"{path}.py") or os.path.isdir(path)
