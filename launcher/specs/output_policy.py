"""Where the output of a job goes, and how it is printed."""

from __future__ import annotations

from ..common.values import NamedTuple

NUMBERS = {0: set[int](), 1: {1}, 2: {2}, 3: {1, 2}}
"""torchrun's numbers for streams, as in --redirects 3."""

PREFIX_FIELDS = {"host": "", "rank": 0, "local_rank": 0, "node_rank": 0, "job": "", "role": ""}
"""Fields of `OutputPolicy.prefix`, each with an example of its type."""


def can_fold(prefix: str) -> bool:
    """Return whether this prefix can name several ranks: as `{rank}`, which is 0-3 then."""
    several = dict.fromkeys(PREFIX_FIELDS, "")
    try:
        return prefix.format(**several) != prefix.format(**{**several, "rank": "0-3"})
    except (ValueError, AttributeError, TypeError):
        return False  # a format for numbers, such as {rank:03d}


class Streams(NamedTuple):
    """Streams of the workers in torchrun's numbers: 1 stdout, 2 stderr, 3 both.

    Attributes:
        default: of every worker that `by_rank` does not name.
        by_rank: (local rank, streams) of the others.
    """

    default: int = 0
    by_rank: tuple[tuple[int, int], ...] = ()

    def of(self, local_rank: int) -> set[int]:
        """Return the streams of one worker, as file descriptors."""
        return NUMBERS[dict(self.by_rank).get(local_rank, self.default)]

    def __str__(self) -> str:
        return ",".join([str(self.default), *(f"{rank}:{one}" for rank, one in self.by_rank)])


class OutputPolicy(NamedTuple):
    """Where the output of a job goes, and how it is printed.

    Attributes:
        prefix: the text before every line, with fields such as {rank}.
        redirects: streams that go to log files only.
        tee: streams that go to the console and to log files.
        console_ranks: print the output of these ranks only; empty for all.
        local_ranks: print the output of these local ranks only; empty for all.
        log_dir: the folder of the log files on each node; "" for none.
        log_private: each node writes its log files to a new temporary folder.
        log_layout: how log files are named: `dsrun` or `torchrun`.
        logs_specs: torch's entry point that names the log files, and its arguments; () if dsrun
            names them.
        fold: whether the same line of several ranks is printed once: `auto` (on a terminal, if the
            prefix can name several ranks), `always` or `never`.
        color: `auto`, `always` or `never`.
        level: the lowest level of dsrun's own lines that is printed.
        stdin: rank 0 reads this process's standard input.
        report_file: the file to write the job's result to; None for none.
    """

    prefix: str = "{host}:{rank}| "
    redirects: Streams = Streams()
    tee: Streams = Streams()
    console_ranks: frozenset[int] = frozenset()
    local_ranks: frozenset[int] = frozenset()
    log_dir: str = ""
    log_private: bool = False
    log_layout: str = "dsrun"
    logs_specs: tuple[str, ...] = ()
    fold: str = "auto"
    color: str = "auto"
    level: str = "info"
    stdin: bool = False
    report_file: str | None = None
