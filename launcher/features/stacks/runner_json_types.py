"""The JSON types of `dsrun-job stacks --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from ...common.json_types import one_of
from .runner_culprit import Reason
from .runner_wait_kinds import Kind


class PlaceJson(TypedDict):
    """The place of a thread in its code.

    Attributes:
        kind: the kind of wait.
        function: the function of the user, or the library function in which it waits for other
            ranks.
        where: file and line in the user's code.
    """

    kind: Annotated[str, one_of(one.name.lower() for one in Kind)]
    function: str
    where: str


class Thread(TypedDict):
    """One thread.

    Attributes:
        name: its name, "" if unknown.
        main: whether it is the process's main thread.
        active: whether it runs, or holds the interpreter's lock.
        frames: its frames, the innermost first, each as `function (file:line)`.
    """

    name: str
    main: bool
    active: bool
    frames: Sequence[str]


class ProcessJson(TypedDict):
    """One process of a rank.

    Attributes:
        pid: its pid.
        parent: the pid of its parent process.
        command: its command line, shortened.
        state: the kernel's letter for its state, as in ps.
        waits_in: the kernel function in which it waits, "" if unknown.
        source: the reader of its stacks: py-spy, faulthandler, worker (a thread in it), or "" for
            nothing.
        problem: why there are no stacks, "" otherwise.
        threads: its threads, the main thread first.
    """

    pid: int
    parent: int
    command: str
    state: str
    waits_in: str
    source: str
    problem: str
    threads: list[Thread]


class CollectiveJson(TypedDict):
    """One collective operation of a rank.

    Attributes:
        group: the process group, as torch names it.
        members: the ranks of the group, empty if unknown.
        sequence: the number of the collective in its group, as this rank counts.
        operation: such as all_reduce.
        sizes: the sizes of its inputs.
        types: their types.
        state: such as scheduled, started or completed.
        age: seconds since it was called.
        where: the user's frame that called it, or "".
    """

    group: str
    members: Sequence[int]
    sequence: int
    operation: str
    sizes: str
    types: str
    state: str
    age: float
    where: str


class Rank(TypedDict):
    """One rank.

    Attributes:
        rank: the rank.
        host: the host's name.
        pid: the pid of the worker there.
        idle: seconds for which it has been inactive, 0 if unknown.
        problem: the reason for missing information; else "".
        saved: the folder on its host where its stacks were written, or "".
        place: the place of its main thread, None if unknown.
        processes: the worker, and the processes it has started.
        collectives: the latest few collectives of each process group, if torch records them.
    """

    rank: int
    host: str
    pid: int
    idle: float
    problem: str
    saved: str
    place: PlaceJson | None
    processes: list[ProcessJson]
    collectives: list[CollectiveJson]


class StacksJson(TypedDict):
    """The places of a job's ranks in their code.

    Attributes:
        job_id: the id of the job.
        sentence: the ranks that wait, and the ranks they wait for, in words.
        reason: why ranks are odd, as docs/stacks.md says.
        odd: the ranks that others wait for; empty if none can be named.
        waiting: the ranks that wait for other ranks.
        sure: whether the odd ranks follow from the evidence; otherwise they are only likely.
        ranks: the running ranks that were requested.
    """

    job_id: str
    sentence: str
    reason: Reason
    odd: Sequence[int]
    waiting: Sequence[int]
    sure: bool
    ranks: list[Rank]
