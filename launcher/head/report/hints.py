"""What to try when a worker has failed in a way that is known, from its own last words."""

from __future__ import annotations

import os
import re
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...specs.program import Program
    from .report import Failure

LOCAL_RANK_HINT = (
    "the script takes no --local_rank: leave it out with --no_local_rank (LOCAL_RANK is set anyway)"
)

NO_INPUT_HINT = (
    "a worker's standard input is empty: with --stdin rank0 rank 0 reads dsrun's, for breakpoint()"
    " and input() there"
)

# How breakpoint() and input() end where there is no input; newer Pythons leave at pdb's prompt.
_NO_INPUT = re.compile(r"(^(bdb\.)?BdbQuit|^EOFError: EOF when reading a line|^\(Pdb\).*)\Z", re.M)

# What programs say of an option that they do not have, on the line that names it: argparse, click,
# absl and gflags, fire, getopt of glibc, musl and Python, Perl, git, gcc, boost, cobra, clap, Go's
# flag, bash, node, awk, find, ip, transformers.
_UNKNOWN = (
    r"(unrecogni[sz]ed|unknown|bad|invalid|illegal|unexpected|unsupported|no such) "
    r"(command.line |gnu long |extra )?(options?|flags?|arguments?|predicate|switch|parameter)"
    r"|could not consume arg|not (an option|recogni[sz]ed|expected)|wasn't expected|is unknown"
    r"|provided but not defined|arguments are not used"
)
_NAMED = re.compile(rf"({_UNKNOWN}).*\blocal[_-]rank|-local[_-]rank\b.*({_UNKNOWN})", re.IGNORECASE)

# What programs that have only short options say of it, ssh, nvidia-smi and procps among them, and
# any that repeats it. Of a script of Python's such words may mean something else.
_UNNAMED = re.compile(
    r"-local[_-]rank=[0-9]|illegal option -|(invalid|unrecognized|unknown) option:? (-- )?['\"`]?-"
    r"|invalid combination of input arguments|unknown gnu long option",
    re.IGNORECASE,
)

_MISSING = re.compile(r"^ModuleNotFoundError: No module named '([^'.]+)", re.MULTILINE)


def hints(failure: Failure, program: Program | None, folder: str) -> list[str]:
    """Return a line for each thing that is worth a try.

    Args:
        failure: how the worker has failed.
        program: what it ran; None where that is not known.
        folder: where it ran, as this machine calls it.
    """
    found = (hint(failure, program, folder) for hint in HINTS)
    return [text for text in found if text]


def _local_rank(failure: Failure, program: Program | None, _folder: str) -> str:
    output = f"{failure.stderr}\n{failure.stdout}"
    if program is not None and not program.local_rank:
        return ""
    executable = program is not None and program.no_python
    complains = _NAMED.search(output) or (executable and _UNNAMED.search(output))
    return LOCAL_RANK_HINT if complains else ""


def _no_input(failure: Failure, _program: Program | None, _folder: str) -> str:
    ends = any(_NO_INPUT.search(text.rstrip()) for text in (failure.stderr, failure.stdout))
    return NO_INPUT_HINT if ends else ""


def _missing(failure: Failure, _program: Program | None, folder: str) -> str:
    names = _MISSING.findall(failure.stderr)
    if not names or not folder or not _has_module(folder, names[-1]):
        return ""
    path = shlex.quote(f"PYTHONPATH={folder}")
    return (
        f"{names[-1]} lies in {folder}, where python does not look for a script that is elsewhere:"
        f" --export {path}"
    )


HINTS: tuple[Callable[[Failure, Program | None, str], str], ...] = (
    _local_rank,
    _no_input,
    _missing,
)


def _has_module(folder: str, name: str) -> bool:
    """Return whether a module, or a folder of modules, of that name lies in a folder."""
    path = os.path.join(folder, name)
    return os.path.isfile(f"{path}.py") or os.path.isdir(path)
