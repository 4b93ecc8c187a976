"""The place of a rank in its code, and the kind of waiting there. Pure.

The table of kinds is easy to add to: a row has patterns for the file and the function of a frame.
Only frames inside the user's innermost one are checked: the calls of the user's code.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from ...common.records import NamedTuple
from .messages import NETWORK_UNKNOWN, STORE
from .runner_frames import Frame, innermost, parsed, since_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .messages import Collective, ThreadStack
    from .runner_view import RankView


class Kind(Enum):
    """The activity of a rank; the value describes it, with `{s}` for one rank, before the place.

    `{held}` is the holder of the lock, if known.
    """

    COLLECTIVE = "wait{s} in"
    STORE = "wait{s} for the other ranks in"
    KEY = "wait{s} for a key of torch's store in"
    IMPORT = "import{s} a module in"
    DATA = "wait{s} for the data loader in"
    COMPILE = "compile{s} in"
    CHECKPOINT = "read{s} or write{s} a checkpoint in"
    BACKWARD = "{is} in the backward pass in"
    DEVICE = "wait{s} for the device in"
    DEBUGGER = "{is} in a debugger in"
    EXIT = "wait{s} at exit for a child process in"
    PROGRAM = "wait{s} for a program in"
    QUEUE = "wait{s} for a queue or a result in"
    THREAD = "wait{s} for a thread in"
    FILE_LOCK = "wait{s} for a file lock{held} in"
    LOCK = "wait{s} for a lock or a thread in"
    NATIVE = "wait{s} for a lock or native code in"
    SLEEP = "sleep{s} in"
    SIGNAL = "wait{s} for a signal in"
    DISK = "wait{s} for a file system in"
    IO = "wait{s} for input or output in"
    GIL = "wait{s} for the interpreter's lock in"
    CODE = "{is} in"


FOR_OTHERS = {Kind.COLLECTIVE, Kind.STORE, Kind.KEY}
"""Waits that only other ranks can end."""

PERHAPS_FOR_OTHERS = {Kind.BACKWARD, Kind.DEVICE, Kind.NATIVE}
"""Kinds in which a rank may wait for others, which its stack does not show."""

READS = {Kind.IO, Kind.CODE}
"""Kinds in which a rank may read from torch's store, whose functions are native code."""

COMPLETED = "completed"
"""The state of a collective that is over, as torch has it."""

LONGEST = 80
"""Characters of a function's name in a sentence."""

DECORATORS = {"wrapper", "inner", "inner_func", "decorate_context", "_fn", "__call__"}
"""Functions of libraries that only surround others."""

CONSTRUCTED = {"__init__", "_wrapped_call_impl", "_call_impl"}
"""Functions that build or call a model: for a wait within, they tell nothing."""

_COLLECTIVES = (
    "(all_|_?reduce|broadcast|_?gather|scatter|barrier|monitored_barrier|send|recv|isend|irecv"
    "|batch_isend_irecv|allreduce|allgather|alltoall|Allreduce|Bcast|Barrier|synchronize).*"
)
_STORES = "(init_|new_group|_new_process_group|_store_based_barrier|split_group|rendezvous|_tcp_).*"
_SYNCHRONIZES = "_sync_(buffers|final_model|module_states)|_verify_param_shape.*"

RULES: tuple[tuple[Kind, str, str], ...] = (
    (Kind.STORE, r"torch/distributed/(distributed_c10d|rendezvous|device_mesh)\.py", _STORES),
    (Kind.STORE, r"torch/distributed/elastic/(utils/store|rendezvous/.*)\.py", ".*"),
    (Kind.COLLECTIVE, r"torch/distributed/distributed_c10d\.py", _COLLECTIVES),
    (Kind.COLLECTIVE, r"torch/distributed/(_functional_collectives|nn/functional)\.py", ".*"),
    (Kind.COLLECTIVE, r"torch/(nn/parallel/distributed|distributed/utils)\.py", _SYNCHRONIZES),
    (Kind.COLLECTIVE, r"torch/distributed/pipelining/.*", "_(wait_batch|batch|sorted_batch)_p2p"),
    (Kind.COLLECTIVE, r"deepspeed/comm/\w+\.py", _COLLECTIVES),
    (Kind.COLLECTIVE, r"horovod/\w+/mpi_ops\.py", ".*"),
    (Kind.COLLECTIVE, r"lib(torch|c10d|gloo).*", "gloo::.*|c10d::(Work|ProcessGroup).*"),
    (Kind.COLLECTIVE, r"lib(nccl|rccl|mpi|ucc|oneccl).*", "nccl.*|P?MPI_.*|ompi_.*|ucc_.*"),
    (Kind.STORE, r"libtorch.*", "c10d::(TCP|File|Hash|Prefix)?Store.*|c10d::detail::.*"),
    (Kind.IMPORT, "<frozen importlib.*", "_find_and_load|exec_module|_call_with_frames_removed"),
    (Kind.FILE_LOCK, r"torch/utils/file_baton\.py", "wait"),
    (Kind.FILE_LOCK, r"(filelock|portalocker|fasteners)/.*", ".*acquire.*|.*lock.*|__enter__"),
    (Kind.DATA, r"torch/utils/data/dataloader\.py", ".*"),
    (Kind.DATA, r"(torchdata|ffcv|webdataset|nvidia/dali|datasets)/.*", "__next__|_?next.*|get.*"),
    (Kind.COMPILE, r"torch/_dynamo/(convert_frame|symbolic_convert|output_graph)\.py", ".*"),
    (Kind.COMPILE, r"torch/_inductor/.*", "_?compile.*|fx_codegen.*|codegen.*|load_by_.*"),
    (Kind.COMPILE, r"torch/utils/cpp_extension\.py", ".*"),
    (Kind.COMPILE, r"triton/(compiler/.*|runtime/(jit|autotuner)\.py)", "_?compile.*|_bench.*"),
    (Kind.COMPILE, r"(jax|jaxlib|tvm|tensorrt|torch_tensorrt)/.*", ".*compile.*"),
    (Kind.CHECKPOINT, r"torch/(serialization\.py|distributed/checkpoint/.*)", ".*"),
    (Kind.CHECKPOINT, r"safetensors/.*|deepspeed/runtime/checkpoint_engine/.*", ".*"),
    (Kind.BACKWARD, r"torch/(_tensor|autograd/\w+)\.py", "backward|grad|_engine_run_backward"),
    (Kind.DEVICE, r"torch/(cuda|xpu|npu|mlu|hpu|musa)/.*", "synchronize|wait|wait_.*|query"),
    (Kind.DEVICE, r"libcuda.*|libcudart.*|libamdhip.*", ".*[sS]ynchronize.*|cuMemcpy.*"),
    (Kind.DEBUGGER, r"(pdb|bdb|ipdb/.*|IPython/.*|debugpy/.*|pydevd.*|.*/pydevd.*)(\.py)?", ".*"),
    (Kind.EXIT, r"multiprocessing/util\.py", "_exit_function"),
    (Kind.PROGRAM, r"subprocess\.py", "wait|_wait|_try_wait|communicate|_communicate|call|run"),
    (Kind.PROGRAM, r"multiprocessing/popen_\w+\.py", "wait|poll"),
    (Kind.QUEUE, r"(queue|multiprocessing/(queues|pool))\.py", "get|put|join|wait|recv.*"),
    (Kind.QUEUE, r"(concurrent/futures/\w+|asyncio/\w+)\.py", "result|wait|_run_once|select"),
    (Kind.THREAD, r"threading\.py", "join|_wait_for_tstate_lock|_join.*|_shutdown"),
    (Kind.LOCK, r"(threading|multiprocessing/synchronize)(\.py)?", ".*"),
    (Kind.GIL, r".*python.*", "take_gil|PyEval_RestoreThread|PyGILState_Ensure"),
    (Kind.LOCK, r".*python.*", "acquire_timed|PyThread_acquire_lock.*|_?PyMutex_Lock.*"),
    (Kind.IO, r"(selectors|socket|ssl|multiprocessing/connection|http/client)\.py", ".*"),
    (Kind.IO, r"(urllib3|requests|urllib|botocore|fsspec|gcsfs|s3fs|paramiko|zmq)/.*", ".*"),
)
"""Kind, file and function: the first row that one of the frames matches decides."""

KERNEL: tuple[tuple[Kind, str], ...] = (
    (Kind.SLEEP, ".*nanosleep.*"),
    (Kind.NATIVE, "futex.*"),
    (
        Kind.FILE_LOCK,
        "(locks_lock|flock_lock|posix_lock|fcntl_setlk|do_lock|nlm|nfs4_proc_lock).*",
    ),
    (Kind.DISK, "(nfs|rpc_|lustre|ll_|cl_|fuse_|request_wait|ceph|jbd2|folio_|io_schedule).*"),
    (Kind.SIGNAL, ".*pause|.*sigsuspend|.*sigtimedwait"),
    (Kind.PROGRAM, "do_wait|kernel_wait.*|vfork.*|wait_for_vfork.*"),
    (Kind.IO, "(pipe_|anon_pipe|unix_stream|sk_wait|tcp_|inet_csk|wait_woken|.*skb_wait).*"),
    (Kind.IO, "(n_tty_|poll_schedule|do_select|do_poll|do_epoll|ep_poll).*"),
)
"""Kinds of waits by the kernel function, for processes whose frames reveal nothing."""


class Place(NamedTuple):
    """The place of a thread in its code.

    Attributes:
        call: a function: the user's own, or for waits in `FOR_OTHERS` the one that it has called.
        at: the file and line in the user's code, such as `train.py:41`; else in the library.
        active: whether the thread runs, and does not wait.
        bare: whether it is in unknown native code that the user's code, or torch's, has called.
        own: whether it is in the user's code, not only in libraries.
        known: whether there was a stack.
        holder: the process that holds the file lock for which it waits, 0 if unknown.
    """

    kind: Kind
    call: str
    at: str
    active: bool = False
    bare: bool = False
    own: bool = False
    known: bool = True
    holder: int = 0

    def words(self, *, several: bool = False, for_long: bool = False) -> str:
        """Return the activity there, such as `waits in all_reduce (train.py:41)`.

        Args:
            several: whether the subject is several ranks.
            for_long: whether the duration of the activity follows.
        """
        verb = "are" if several else "is"
        if not self.known:
            return f"{verb} in code that could not be read"
        held = f" held by pid {self.holder}" if self.holder else ""
        if for_long:
            verb = "have been" if several else "has been"
        does = self.kind.value.replace("{is}", verb).replace("{s}", "" if several else "s")
        return f"{does.replace('{held}', held)} {self.call} ({self.at})"


NOWHERE = Place(Kind.CODE, "", "", known=False)
"""The place of a rank without a stack."""


def place_of(view: RankView) -> Place:
    """Return the place of a rank: of its main thread, or of the thread that this one awaits."""
    places = [of_thread(one) for one in view.threads_of(view.pid)]
    place = of_process(view, view.pid)
    if place.kind is Kind.THREAD:
        return next((one for one in places[1:] if one.kind in FOR_OTHERS), place)
    if place.kind in READS and not place.active and awaits(view) == STORE:
        return place._replace(kind=Kind.KEY)
    return _in_collective(view, place) or place


def awaits(view: RankView) -> str:
    """Return the network wait of a rank's main thread."""
    found = (one.awaits for one in view.network if one.pid == view.pid)
    return next(found, NETWORK_UNKNOWN)


def of_process(view: RankView, pid: int) -> Place:
    """Return the place of the main thread of one of a rank's processes."""
    process = next((one for one in view.processes if one.pid == pid), None)
    threads = view.threads_of(pid)
    if process is None or not threads:
        return NOWHERE
    place = of_thread(threads[0], process.waits_in)
    return place._replace(holder=process.holder if place.kind is Kind.FILE_LOCK else 0)


def _in_collective(view: RankView, place: Place) -> Place | None:
    """Return the collective in which a rank waits by native code alone, if torch records them."""
    may_be = place.kind in PERHAPS_FOR_OTHERS or (place.bare and place.kind is Kind.CODE)
    if place.active or not may_be:
        return None
    unfinished = [one for one in view.collectives if one.state != COMPLETED]
    if not unfinished:
        return None
    newest = min(unfinished, key=lambda one: one.age)
    return place._replace(kind=Kind.COLLECTIVE, call=operation(newest))


def operation(one: Collective) -> str:
    """Return the name of a collective without its backend's, as in `nccl:all_reduce`."""
    return one.operation.rpartition(":")[2]


def of_thread(thread: ThreadStack, waits_in: str = "") -> Place:
    """Return the place of a thread; `waits_in` is the kernel function where its process waits."""
    frames = since_fork(parsed(one) for one in thread.frames)
    if not frames:
        return NOWHERE
    inside, user = innermost(frames)
    shown = user or frames[-1]
    kind, matched = _matched(tuple(inside))
    called = next((one for one in inside if not one.native), None)
    if kind is Kind.CODE and called is None and not thread.active:
        kind = _from_kernel(waits_in)
    bare = called is None or called.path.startswith("torch/")
    call = _called(inside, matched) if matched and kind in FOR_OTHERS else shown.function
    return Place(kind, call[:LONGEST], shown.place, thread.active, bare, user is not None)


def _called(inside: Sequence[Frame], matched: Frame) -> str:
    """Return the library's function that the user has called, without decorators around it."""
    names = [one.name for one in inside if not one.native and one.name not in DECORATORS]
    return matched.name if not names or CONSTRUCTED.intersection(names) else names[-1]


@lru_cache(4096)
def _matched(inside: tuple[Frame, ...]) -> tuple[Kind, Frame | None]:
    """Return the kind of waiting that frames show, and the frame that shows it."""
    for kind, file, function in RULES:
        for frame in inside:
            name = frame.function if frame.native else frame.name
            if re.fullmatch(file, frame.path) and re.fullmatch(function, name, re.DOTALL):
                return kind, frame
    return Kind.CODE, None


def _from_kernel(waits_in: str) -> Kind:
    return next((kind for kind, name in KERNEL if re.fullmatch(name, waits_in)), Kind.CODE)
