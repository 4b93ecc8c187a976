"""Where the output of a job goes, and how it is shown."""

from __future__ import annotations

from ..common.values import NamedTuple

NUMBERS = {0: set[int](), 1: {1}, 2: {2}, 3: {1, 2}}
"""torchrun's numbers for streams, as in --redirects 3."""

PREFIX_FIELDS = {"host": "", "rank": 0, "local_rank": 0, "node_rank": 0, "job": "", "role": ""}
"""What `OutputPolicy.prefix` may name, each with a value of its kind."""


class Streams(NamedTuple):
    """Which streams of a worker are meant, in torchrun's numbers: 1 stdout, 2 stderr, 3 both.

    Attributes:
        default: of every worker that `by_rank` does not name.
        by_rank: of those with these local ranks.
    """

    default: int = 0
    by_rank: tuple[tuple[int, int], ...] = ()

    def of(self, local_rank: int) -> set[int]:
        """Return the streams of one worker, as file descriptors."""
        return NUMBERS[dict(self.by_rank).get(local_rank, self.default)]

    def __str__(self) -> str:
        return ",".join([str(self.default), *(f"{rank}:{one}" for rank, one in self.by_rank)])


class OutputPolicy(NamedTuple):
    """Where the output of a job goes, and how it is shown.

    Attributes:
        prefix: the text before every line, with fields such as {rank}.
        redirects: streams that go to log files only.
        tee: streams that go to the console nevertheless.
        console_ranks: only these ranks are shown; all where it is empty.
        local_ranks: only these local ranks are shown; all where it is empty.
        log_dir: the folder of the log files, as the node knows it; "" for none.
        log_private: log files go to a folder of the node's own choice.
        log_layout: how log files are named: `dsrun` or `torchrun`.
        logs_specs: the entry point that names log files in torch's way, and what it is made with;
            () where dsrun names them.
        color: `auto`, `always` or `never`.
        level: the least of dsrun's own lines that is shown.
        stdin: rank 0 reads this process's standard input.
        report_file: where it is written how the job ended; None for nowhere.
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
    color: str = "auto"
    level: str = "info"
    stdin: bool = False
    report_file: str | None = None
