"""The question `stacks`: where the processes of workers are in their code, and in collectives."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...specs.field_types import Pid, Rank, Size, register

CLIENTS, CLIENT, CONNECTION, STORE = "clients", "client", "connection", "store"
"""Words for a thread's wait on the network: for connections, for data from a client, for data on a
connection that its own side has made, or for an answer of torch's store."""

NETWORK_UNKNOWN = "unknown"
"""The word for a thread that may or may not wait on the network."""


class StacksAsk(NamedTuple):
    """Report the stacks of workers on this node.

    Attributes:
        ranks: the ranks of the workers; () for all.
        native: whether to add frames of C and C++ code where possible; this takes seconds.
        children: whether to add descendant processes of workers, such as data loaders.
        collectives: whether to add the records of torch's flight recorder.
        save: whether to add the stacks of each rank to a file in the log folder, if the job has
            one.
    """

    ranks: tuple[Rank, ...] = ()
    native: bool = False
    children: bool = True
    collectives: bool = True
    save: bool = False


class ProcessState(NamedTuple):
    """One process of a worker, in a row of `StacksAnswer`.

    Attributes:
        pid: its own.
        parent: its parent process; the node launcher for the worker itself.
        command: its command line, shortened.
        state: the kernel's letter (proc(5)): R, S, D, T, t, Z.
        waits_in: the kernel function in which it waits (/proc/PID/wchan), "" if unknown.
        source: the reader of its stacks: `py-spy`, `faulthandler`, `worker` (a thread in it), or ""
            for none.
        problem: why there are no stacks, in words, or "".
        holder: the process that holds the file lock for which it waits, 0 if unknown.
    """

    rank: Rank
    pid: Pid
    parent: Pid
    command: str
    state: str
    waits_in: str
    source: str
    problem: str
    holder: int = 0


class ThreadStack(NamedTuple):
    """The stack of one thread, in a row of `StacksAnswer`.

    Attributes:
        name: the thread's name, "" if unknown.
        main: whether it is the process's main thread.
        active: whether it certainly runs, or holds the interpreter's lock (GIL).
        frames: the innermost first, each as `function (file:line)`; file is a whole path. A native
            frame is `function (library)`.
    """

    pid: Pid
    name: str
    main: bool
    active: bool
    frames: tuple[str, ...]


class NetworkUse(NamedTuple):
    """A process on the network, or on a Unix socket with a path, in a row of `StacksAnswer`.

    Attributes:
        awaits: the wait of its main thread, one of the words above, or "".
        others: the wait of its other threads, the first of these words that fits one; threads of
            torch, which wait for other ranks, are left out.
        received: bytes received by its open TCP connections.
        quiet: seconds since gloo has exchanged data with other ranks; -1.0 if unknown.
    """

    rank: Rank
    pid: Pid
    awaits: str
    others: str
    received: Size
    quiet: float


class Collective(NamedTuple):
    """A collective operation of a rank, in a row of `StacksAnswer`: of each group the newest few.

    Attributes:
        group: torch's name of the process group: `default_pg` for the group of all ranks.
        members: the ranks of the group in the job, () if unknown.
        sequence: the number of the collective in this group, as this rank counts, from 1 on.
        operation: such as `all_reduce`.
        sizes: the sizes of its inputs, as text such as `[[10], [2, 3]]`.
        types: their types, as text.
        state: `scheduled`, `started` or `completed`, as torch has it.
        age: seconds since it was called.
        where: the frame of the user's code that called it, as in `ThreadStack`, or "".
    """

    rank: Rank
    group: str
    members: tuple[Rank, ...]
    sequence: int
    operation: str
    sizes: str
    types: str
    state: str
    age: float
    where: str


class StacksAnswer(NamedTuple):
    """The stacks of the processes of workers.

    Attributes:
        saved: the folder on the node where they are in files, "" for nowhere.
        network: the network use of the processes that run Python, as far as known.
    """

    processes: tuple[ProcessState, ...]
    threads: tuple[ThreadStack, ...]
    collectives: tuple[Collective, ...]
    saved: str = ""
    network: tuple[NetworkUse, ...] = ()


register(ProcessState, ThreadStack, Collective, NetworkUse)

STACKS = "stacks", StacksAsk, StacksAnswer
