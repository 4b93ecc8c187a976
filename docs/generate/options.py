"""Write `docs/options.md`: every option of dsrun, by group."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsrun.launcher.cli.help import summary
from dsrun.launcher.cli.help.rows import groups, row
from dsrun.launcher.cli.peers import REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsrun.launcher.cli.help.rows import OptionRow

HEAD = """\
<!-- Written by `python -m docs.generate` from launcher/cli. Change those files instead. -->

# Options

`dsrun -h` prints the options that most people need, `dsrun --help` all options, and
`dsrun --help TOPIC` more about hosts, output, elastic jobs, cores or Slurm.

`pip install` puts manual pages and completion into `share/` of the environment. `man dsrun` finds
the pages if the environment's `bin` is on PATH. Completion in an environment at `$VIRTUAL_ENV`:

| shell | line for its start-up file |
|---|---|
| bash | `for one in "$VIRTUAL_ENV"/share/bash-completion/completions/dsrun*; do . "$one"; done` |
| zsh | `fpath=("$VIRTUAL_ENV/share/zsh/site-functions" $fpath)`, before `compinit` |
| fish | `for one in $VIRTUAL_ENV/share/fish/vendor_completions.d/dsrun*; source $one; end` |

If dsrun is installed system-wide, the shells and `man` find these files automatically. Completion
asks `dsrun-job` for current names: jobs with their programs, holds, profiles, and the hosts of the
hostfile. Names with characters other than letters, digits and `_.+-` are not offered.
"""


def files() -> dict[str, str]:
    """Return the page by its path from the root."""
    return {"docs/options.md": page()}


def page() -> str:
    """Return the page."""
    lines = [HEAD, *(f"{plain(rule)}\n" for rule in summary.RULES)]
    for title, names in groups().items():
        lines += [f"## {title}\n", *_table(map(row, names)), ""]
    lines += [f"## {summary.REFUSED}\n", "| option | instead |", "|---|---|"]
    lines += [f"| `--{name}` | {plain(why)} |" for name, why in REFUSED.items()]
    return "\n".join(lines) + "\n"


def _table(rows: Iterable[OptionRow]) -> Iterator[str]:
    yield from ("| option | meaning | default |", "|---|---|---|")
    for one in rows:
        names = ", ".join(f"`{name}`" for name in one.names)
        value = f" `{_cell(one.metavar)}`" if one.metavar else ""
        choices = f" One of: {', '.join(one.choices)}." if one.choices else ""
        yield f"| {names}{value} | {plain(one.text + choices)} | {plain(one.default or 'off')} |"


def plain(words: str) -> str:
    """Return text in which only the names of options are marked, as code."""
    text = re.sub(r"([*<>_])", r"\\\1", words)
    return _cell(re.sub(r"(?<![\w-])--?[A-Za-z](?:\\?\w)*", _as_code, text))


def _as_code(name: re.Match[str]) -> str:
    return f"`{name[0].replace(chr(92), '')}`"


def _cell(words: str) -> str:
    """Return text that does not end the cell of a table."""
    return words.replace("|", "\\|")
