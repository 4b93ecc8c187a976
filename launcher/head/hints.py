"""What to try when a worker has failed in a way that is known, from its own last words."""

from __future__ import annotations

import re
import shlex

from .. import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..program import Program
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
# absl and gflags, fire, getopt of glibc, musl and Python, Perl's Getopt::Long, git, boost, cobra,
# clap, Go's flag, bash, node, find, ip.
_UNKNOWN = (
    r"unrecogni[sz]ed (arguments?|options?)|no such option|could not consume arg"
    r"|(unknown|bad|invalid|illegal|unexpected|unsupported)"
    r" (gnu long |command.line )?(options?|flags?|arguments?|predicate|switch|parameter)"
    r"|(invalid|illegal|unknown) option|not (recogni[sz]ed|expected)|wasn't expected|is unknown"
    r"|provided but not defined"
)
_NAMED = re.compile(
    rf"(?i)({_UNKNOWN}).*\blocal[_-]rank|-local[_-]rank\b.*({_UNKNOWN})", re.MULTILINE
)

# What programs that have only short options, or name none, say of it; a script of Python's says
# more. The last two are nvidia-smi's and procps'.
_UNNAMED = re.compile(
    r"(?i)illegal option -|(invalid|unrecognized|unknown) option(:)? (-- )?['\"`]?-"
    r"|invalid combination of input arguments|unknown gnu long option"
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
    said = f"{failure.stderr}\n{failure.stdout}"
    if program is not None and not program.local_rank:
        return ""
    executable = program is not None and program.no_python
    complains = _NAMED.search(said) or (executable and _UNNAMED.search(said))
    return LOCAL_RANK_HINT if complains else ""


def _no_input(failure: Failure, _program: Program | None, _folder: str) -> str:
    ends = any(_NO_INPUT.search(text.rstrip()) for text in (failure.stderr, failure.stdout))
    return NO_INPUT_HINT if ends else ""


def _missing(failure: Failure, _program: Program | None, folder: str) -> str:
    names = _MISSING.findall(failure.stderr)
    if not names or not folder or not modules.has(folder, names[-1]):
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
