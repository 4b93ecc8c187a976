"""What kind of waiting a stack shows."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.stacks.messages import STORE, NetworkUse
from dsrun.launcher.features.stacks.runner_view import RankView
from dsrun.launcher.features.stacks.runner_wait_kinds import (
    NOWHERE,
    Kind,
    of_process,
    of_thread,
    place_of,
)

from ...support.stacks import (
    ALL_REDUCE,
    BACKWARD,
    BARRIER,
    C10D,
    FETCH,
    IDLE,
    LIB,
    LOAD,
    NEXT,
    TRAIN,
    collective,
    process,
    thread,
    view,
)

PACKAGES = f"{LIB}/site-packages"


@pytest.mark.parametrize(
    ("inner", "kind", "call"),
    [
        (ALL_REDUCE[:2], Kind.COLLECTIVE, "all_reduce"),
        (
            (f"broadcast ({C10D}:3)", f"broadcast_object_list ({C10D}:9)"),
            Kind.COLLECTIVE,
            "broadcast_object_list",
        ),
        (
            (f"_store_based_barrier ({C10D}:3)", f"init_process_group ({C10D}:9)"),
            Kind.STORE,
            "init_process_group",
        ),
        (
            (f"wait_tensor ({PACKAGES}/torch/distributed/_functional_collectives.py:1)",),
            Kind.COLLECTIVE,
            "wait_tensor",
        ),
        ((f"synchronize ({PACKAGES}/horovod/torch/mpi_ops.py:1)",), Kind.COLLECTIVE, "synchronize"),
        ((f"all_reduce ({PACKAGES}/deepspeed/comm/comm.py:1)",), Kind.COLLECTIVE, "all_reduce"),
        (
            ("pthread_cond_wait (libc.so.6)", "c10d::Work::wait (libtorch_cpu.so)"),
            Kind.COLLECTIVE,
            "c10d::Work::wait",
        ),
        (("PMPI_Allreduce (libmpi.so.40)",), Kind.COLLECTIVE, "PMPI_Allreduce"),
        (("cudaStreamSynchronize (libcudart.so.12)",), Kind.DEVICE, "main"),
        (("cuMemcpyDtoH_v2 (libcuda.so.1)",), Kind.DEVICE, "main"),
        (NEXT[:4], Kind.DATA, "main"),
        ((f"Queue.get ({LIB}/queue.py:171)",), Kind.QUEUE, "main"),
        ((f"Thread.join ({LIB}/threading.py:1119)",), Kind.THREAD, "main"),
        ((f"Condition.wait ({LIB}/threading.py:327)",), Kind.LOCK, "main"),
        ((f"backward ({PACKAGES}/torch/_tensor.py:9)",), Kind.BACKWARD, "main"),
        ((f"synchronize ({PACKAGES}/torch/cuda/__init__.py:9)",), Kind.DEVICE, "main"),
        ((f"_compile ({PACKAGES}/torch/_dynamo/convert_frame.py:9)",), Kind.COMPILE, "main"),
        ((f"compile_fx ({PACKAGES}/torch/_inductor/compile_fx.py:9)",), Kind.COMPILE, "main"),
        ((f"_save ({PACKAGES}/torch/serialization.py:9)",), Kind.CHECKPOINT, "main"),
        ((f"interaction ({LIB}/pdb.py:9)",), Kind.DEBUGGER, "main"),
        ((f"Popen._wait ({LIB}/subprocess.py:9)",), Kind.PROGRAM, "main"),
        ((f"SSLSocket.read ({LIB}/ssl.py:9)",), Kind.IO, "main"),
        ((f"forward ({PACKAGES}/torch/nn/modules/linear.py:9)",), Kind.CODE, "main"),
        ((f"tqdm.update ({PACKAGES}/tqdm/std.py:9)",), Kind.CODE, "main"),
    ],
)
def test_kinds(inner: tuple[str, ...], kind: Kind, call: str) -> None:
    place = of_thread(thread(1, (*inner, *TRAIN)))
    assert [place.kind, place.call, place.at] == [kind, call, "train.py:41"]


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("hrtimer_nanosleep", Kind.SLEEP),
        ("futex_do_wait", Kind.NATIVE),
        ("poll_schedule_timeout.constprop.0", Kind.IO),
        ("anon_pipe_read", Kind.IO),
        ("nfs_wait_bit_killable", Kind.DISK),
        ("do_wait", Kind.PROGRAM),
        ("__do_sys_pause", Kind.SIGNAL),
        ("0", Kind.CODE),
        ("", Kind.CODE),
    ],
)
def test_what_the_kernel_says_of_native_code(kernel: str, kind: Kind) -> None:
    assert of_thread(thread(1, LOAD), kernel).kind is kind
    assert of_thread(thread(1, LOAD, active=True), kernel).kind is Kind.CODE
    assert of_thread(thread(1, (f"f ({PACKAGES}/x.py:1)", *LOAD)), kernel).kind is Kind.CODE


def test_native_code_that_waits_in_a_recorded_collective() -> None:
    """`Work.wait` has no Python frame."""
    pending = (collective(0, 3, operation="gloo:all_reduce"),)
    done = (collective(0, 3, "completed"),)
    waits = place_of(view(0, TRAIN, waits_in="futex_do_wait", collectives=pending))
    assert [waits.kind, waits.call] == [Kind.COLLECTIVE, "all_reduce"]
    assert place_of(view(0, BACKWARD, collectives=pending)).kind is Kind.COLLECTIVE
    assert place_of(view(0, BACKWARD, collectives=pending, active=True)).kind is Kind.BACKWARD
    assert place_of(view(0, TRAIN, waits_in="futex_do_wait", collectives=done)).kind is Kind.NATIVE
    assert place_of(view(0, TRAIN, waits_in="do_wait", collectives=pending)).kind is Kind.PROGRAM


def test_a_thread_that_the_main_thread_waits_for() -> None:
    whole = view(0, (f"Thread.join ({LIB}/threading.py:1119)", *TRAIN))
    trainer = thread(whole.pid, BARRIER)._replace(main=False)
    assert place_of(whole).kind is Kind.THREAD
    assert place_of(whole._replace(threads=(trainer, *whole.threads))).call == "barrier"


def test_processes_of_a_data_loader() -> None:
    children = (process(0, 5000), IDLE), (process(0, 5001), FETCH), (process(0, 5002), ())
    whole = view(0, NEXT, children=children)
    assert place_of(whole).kind is Kind.DATA
    assert of_process(whole, 5000).kind is Kind.QUEUE
    assert of_process(whole, 5001).at == "data.py:12"
    assert of_process(whole, 5002) is NOWHERE


def test_nothing_is_known() -> None:
    assert place_of(RankView(0, "n0", 1)) is NOWHERE
    assert place_of(view(0, ())) is NOWHERE
    assert of_thread(thread(1, ())) is NOWHERE
    assert NOWHERE.words() == "is in code that could not be read"


def test_code_of_libraries_alone() -> None:
    frames = f"run ({LIB}/runpy.py:3)", f"_run ({LIB}/runpy.py:9)"
    assert of_thread(thread(1, frames)).words() == "is in _run (runpy.py:9)"


IMPORT = (
    f"<module> ({LIB}/site-packages/torch/utils/data/dataloader.py:20)",
    "_call_with_frames_removed (<frozen importlib._bootstrap>:241)",
    "exec_module (<frozen importlib._bootstrap_external>:940)",
    "_find_and_load (<frozen importlib._bootstrap>:1176)",
    f"<module> ({LIB}/site-packages/torch/__init__.py:2162)",
    "<module> (/work/train.py:1)",
)
AT_EXIT = (
    f"Popen.poll ({LIB}/multiprocessing/popen_fork.py:27)",
    f"Popen.wait ({LIB}/multiprocessing/popen_fork.py:43)",
    f"Process.join ({LIB}/multiprocessing/process.py:149)",
    f"_exit_function ({LIB}/multiprocessing/util.py:360)",
)
SCHEDULE = f"{LIB}/site-packages/torch/distributed/pipelining/schedules.py"
PIPELINE = (
    f"_wait_batch_p2p ({SCHEDULE}:683)",
    f"ScheduleGPipe._step_microbatches ({SCHEDULE}:928)",
    f"PipelineScheduleSingle.step ({SCHEDULE}:785)",
    *TRAIN,
)
BATON = (f"FileBaton.wait ({LIB}/site-packages/torch/utils/file_baton.py:43)", *TRAIN)
SOFT_LOCK = (f"BaseFileLock.acquire ({LIB}/site-packages/filelock/_api.py:344)", *TRAIN)


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (IMPORT, "imports a module in <module> (train.py:1)"),
        (AT_EXIT, "waits at exit for a child process in _exit_function (util.py:360)"),
        (PIPELINE, "waits in step (train.py:41)"),
        (BATON, "waits for a file lock in main (train.py:41)"),
        (SOFT_LOCK, "waits for a file lock in main (train.py:41)"),
    ],
)
def test_waits_of_all_kinds(frames: tuple[str, ...], words: str) -> None:
    assert place_of(view(0, frames)).words() == words


def test_an_import_that_waits_for_other_ranks() -> None:
    importing = (*ALL_REDUCE[:2], *IMPORT[1:])
    assert place_of(view(0, importing)).kind is Kind.COLLECTIVE


def test_who_holds_a_file_lock() -> None:
    waits = view(0, TRAIN, waits_in="locks_lock_inode_wait")
    worker = waits.processes[0]._replace(holder=4711)
    held = waits._replace(processes=(worker,))
    assert place_of(waits).words() == "waits for a file lock in main (train.py:41)"
    assert place_of(held).words() == "waits for a file lock held by pid 4711 in main (train.py:41)"
    elsewhere = view(0, ALL_REDUCE)._replace(processes=(worker._replace(waits_in="futex_wait"),))
    assert place_of(elsewhere).words() == "waits in all_reduce (train.py:41)"


def test_a_key_of_the_store() -> None:
    """The functions of the store are native code, which the stack does not have."""
    waits = view(0, TRAIN, waits_in="wait_woken")
    reads = NetworkUse(0, waits.pid, STORE, "", 0, -1.0)
    assert place_of(waits).kind is Kind.IO
    found = place_of(waits._replace(network=(reads,)))
    assert found.words() == "waits for a key of torch's store in main (train.py:41)"
    barrier = view(0, BARRIER)._replace(network=(reads,))
    assert place_of(barrier).kind is Kind.COLLECTIVE


def test_words() -> None:
    place = of_thread(thread(1, ALL_REDUCE))
    assert place.words() == "waits in all_reduce (train.py:41)"
    assert place.words(several=True) == "wait in all_reduce (train.py:41)"
    assert of_thread(thread(1, LOAD)).words(several=True) == "are in load_batch (data.py:88)"
