"""What `dsrun --help` prints."""

from __future__ import annotations

import textwrap

from .option import GROUPS, Option
from .options import all_options
from .peers import REFUSED

HEAD = """\
usage: dsrun [options] SCRIPT [ARGS...]          a Python script
       dsrun [options] -m MODULE [ARGS...]       a module
       dsrun [options] --no_python PROGRAM ...   any executable

Starts one worker on every device of every host, watches them, and ends with the first failure's
exit code. Run it once, on any machine that can reach the hosts. Without hosts it runs here.

    dsrun train.py --lr 0.1
    dsrun -H hosts --include 'worker-[0-3]' --bind_cores_to_rank train.py
    dsrun --host h1:4,h2:4 --dry_run train.py
    dsrun -H hosts --no_python --no_local_rank nvidia-smi

Everything after SCRIPT is the script's. Dashes in option names serve as well as underscores, and
every option can be set by a variable: DSRUN_GRACE=60 is --grace 60. -V, --version: the version.
"""

TAIL = """\
exit codes: the first failed rank's own, 128+N for signal N; of dsrun itself: 2 the command or a
file is not usable as written, 69 a node cannot be used, 70 a bug in dsrun, 74 standard output
takes nothing, 75 a node was lost
"""

WIDTH = 100
COLUMN = 30


def text() -> str:
    """Return the whole help, grouped."""
    return "\n".join([HEAD, *(_group(name) for name in GROUPS), _refused(), TAIL])


def _group(name: str) -> str:
    rows = [_row(field, option) for field, option in all_options().items() if option.group == name]
    return f"{name}:\n" + "".join(rows)


def _row(name: str, option: Option) -> str:
    short = [also for also in option.also if also.startswith("-")]
    long = [f"--{also}" for also in (name, *option.also) if not also.startswith("-")]
    left = f"  {', '.join([*short, *long])} {option.metavar}".rstrip()
    words = option.help if isinstance(option.help, str) else option.help()
    about = textwrap.wrap(words, WIDTH - COLUMN)
    first = (
        f"{left:<{COLUMN}}{about[0]}" if len(left) < COLUMN else f"{left}\n{'':{COLUMN}}{about[0]}"
    )
    return "\n".join([first, *(f"{'':{COLUMN}}{line}" for line in about[1:])]) + "\n"


def _refused() -> str:
    names = ", ".join(f"--{name}" for name in REFUSED)
    wrapped = textwrap.fill(names, WIDTH - 2, initial_indent="  ", subsequent_indent="  ")
    return f"Refused, each with what to use instead:\n{wrapped}\n"
