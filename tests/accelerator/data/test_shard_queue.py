"""Shard queues: every sample once per epoch, whatever workers take, do, lose or restore."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from dsrun.accelerator.shards import Shard, ShardQueue

from ...support.checkout import BIN, CHECKOUT, IMPORTABLE
from ...support.limits import HANG, wait_for
from ...support.needs import need_modules
from ...support.wire import through_json

Answer = dict[str, Any]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "DSRUN_QUEUE_FD"):
        monkeypatch.delenv(name, raising=False)


# -- a single process ---------------------------------------------------------------------------


def test_alone_it_works_within_the_process() -> None:
    seen: list[int] = []
    with ShardQueue("train", size=100, shard=9, epochs=2) as queue:
        for shard in queue:
            seen += shard
            queue.done(shard)
        assert queue.over
    assert sorted(seen) == sorted([*range(100), *range(100)])


def test_alone_it_goes_on_from_its_state() -> None:
    with ShardQueue("train", size=100, shard=10) as queue:
        first = queue.take()
        assert first
        queue.done(first, 4)
        state = through_json(queue.state_dict())
    with ShardQueue("train", size=100, shard=10) as again:
        again.load_state_dict(state)
        rest = [index for shard in _did(again) for index in shard]
    assert sorted([*list(first)[:4], *rest]) == list(range(100))


def _did(queue: ShardQueue) -> list[Shard]:
    shards = []
    for shard in queue:
        queue.done(shard)
        shards.append(shard)
    return shards


def test_alone_it_says_where_it_would_wait_for_itself() -> None:
    with ShardQueue("train", size=10, shard=10) as queue:
        assert queue.take()
        assert queue.take(wait=False) is None
        assert not queue.over
        with pytest.raises(
            RuntimeError, match=r"^no shard is left, and no worker can give one back"
        ):
            queue.take()


def test_leaving_gives_back() -> None:
    queue = ShardQueue("train", size=10, shard=10)
    with queue:
        queue.take()
    assert queue.take()


def test_many_workers_need_dsrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        RuntimeError, match=r"a ShardQueue for several workers needs dsrun --shard_queue$"
    ):
        ShardQueue("train", size=10, shard=10)


@pytest.mark.parametrize("value", ["", "x:y", "99999:1", f"0:{os.stat(0).st_ino + 1}"])
def test_a_descriptor_of_something_else_is_not_used(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("DSRUN_QUEUE_FD", value)
    with pytest.raises(RuntimeError, match=r"^DSRUN_QUEUE_FD is set, but this process has not"):
        ShardQueue("train", size=10, shard=10)


def test_it_is_not_sent_to_other_processes() -> None:
    queue = ShardQueue("train", size=10, shard=10)
    with pytest.raises(TypeError, match="cannot be sent to another process"):
        pickle.dumps(queue)
    shard = queue.take()
    assert list(pickle.loads(pickle.dumps(shard))) == list(range(10))


@pytest.mark.tier("ci")
def test_the_example_works_alone(tmp_path: Path) -> None:
    need_modules("torch")
    import torch

    example = str(CHECKOUT / "examples" / "train_shards.py")
    file = str(tmp_path / "model.pt")
    words = ["--size=300", "--shard=20", "--epochs=1", "--history", "--checkpoint", file]
    environ = {**os.environ, **IMPORTABLE}
    subprocess.run([sys.executable, example, *words], env=environ, check=True, timeout=HANG)
    history = torch.load(file, weights_only=True)["history"]
    assert sorted(sample for step in history for sample in step) == [(0, one) for one in range(300)]


# -- under dsrun, on this machine ---------------------------------------------------------------

START = """
import json, os, pickle, socket, sys, time
from dsrun.accelerator.shards import ShardQueue
rank = os.environ["RANK"]
def lines():
    number = int(os.environ["DSRUN_QUEUE_FD"].partition(":")[0])
    return socket.socket(fileno=os.dup(number))
def line(desk):
    ours, theirs = socket.socketpair()
    socket.send_fds(desk, [b"line"], [theirs.fileno()])
    theirs.close()
    return ours
def say(*words):
    print(*words, flush=True)
"""


def dsrun(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run these workers here with the real dsrun."""
    (folder / "work.py").write_text(START + textwrap.dedent(text))
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("DSRUN", "PYTHON"))}
    words = ["--accelerator", "cpu", "--prefix", "{rank} ", *options]
    return subprocess.run(
        [sys.executable, str(BIN / "dsrun"), *words, "work.py"],
        cwd=folder,
        env={**environ, **IMPORTABLE},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )


def numbers(output: str, word: str) -> list[int]:
    lines = [line.split()[2:] for line in output.splitlines() if line.split()[1:2] == [word]]
    return sorted(int(one) for line in lines for one in line)


def test_workers_share_a_queue(tmp_path: Path) -> None:
    """The last one to have a shard keeps the others waiting; forked processes take as well."""
    ran = dsrun(
        tmp_path,
        """
        queue = ShardQueue("train", size=1000, shard=30, epochs=2)
        if rank == "1" and (child := os.fork()):
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        for shard in queue:
            open(rank, "w")
            while not all(map(os.path.exists, "012")):
                time.sleep(0.01)
            say("trained", *shard)
            queue.done(shard)
        assert queue.over
        """,
        "--num_gpus=3",
        "--shard_queue",
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert numbers(ran.stdout, "trained") == sorted([*range(1000)] * 2)
    assert {line.split()[0] for line in ran.stdout.splitlines()} == {"0", "1", "2"}


def test_a_shard_is_the_workers_whichever_process_has_taken_it(tmp_path: Path) -> None:
    ran = dsrun(
        tmp_path,
        """
        queue = ShardQueue("train", size=20, shard=10)
        read, write = os.pipe()
        if not os.fork():
            os.write(write, pickle.dumps(queue.take()))
            os._exit(0)
        shard = pickle.loads(os.read(read, 999))
        os.wait()
        assert queue.take().number != shard.number
        queue.done(shard)
        say("done", *shard)
        try:
            queue.done(shard)
        except ValueError as error:
            say(error)
        """,
        "--num_gpus=1",
        "--shard_queue",
    )
    assert ran.returncode == 0, ran.stderr
    assert len(numbers(ran.stdout, "done")) == 10
    assert "0 shard 0 of epoch 0 is no longer this worker's" in ran.stdout


def test_what_a_worker_leaves_running_takes_nothing(tmp_path: Path) -> None:
    ran = dsrun(
        tmp_path,
        """
        queue = ShardQueue("train", size=1000, shard=10)
        if rank == "1":
            if os.fork():
                os._exit(0)
            while os.getppid() != int(os.environ["DSRUN_NODE_LAUNCHER"].split(":")[0]):
                time.sleep(0.01)
            try:
                for shard in queue:
                    queue.done(shard)
                    time.sleep(0.01)
            except OSError:
                say("refused")
            open("over", "w")
            os._exit(0)
        while not os.path.exists("over"):
            time.sleep(0.01)
        for shard in queue:
            queue.done(shard)
        """,
        "--num_gpus=2",
        "--shard_queue",
    )
    assert ran.returncode == 0, ran.stderr
    assert "1 refused" in ran.stdout


def test_who_waits_hears_that_the_runner_is_gone(tmp_path: Path) -> None:
    """Even one that does not die of the signal that it gets then."""
    ran = dsrun(
        tmp_path,
        """
        import signal
        def parent(pid):
            with open(f"/proc/{pid}/stat") as file:
                return int(file.read().rpartition(")")[2].split()[1])
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        queue = ShardQueue("train", size=10, shard=10)
        if queue.take(wait=False):
            while not os.path.exists("waits"):
                time.sleep(0.01)
            os.kill(parent(parent(os.getppid())), signal.SIGKILL)
            sys.exit()
        open("waits", "w")
        try:
            queue.take()
        except OSError:
            open("heard", "w")
        """,
        "--num_gpus=2",
        "--shard_queue",
    )
    assert ran.returncode == -signal.SIGKILL
    wait_for((tmp_path / "heard").exists, "the worker to hear of it")


def test_a_data_loader_takes_in_its_own_processes(tmp_path: Path) -> None:
    need_modules("torch", "numpy")
    ran = dsrun(
        tmp_path,
        """
        from torch.utils.data import DataLoader, IterableDataset

        class Batches(IterableDataset):
            def __init__(self, queue):
                self.queue = queue
            def __iter__(self):
                for shard in self.queue:
                    yield shard, [index * 10 for index in shard]

        queue = ShardQueue("train", size=90, shard=4, epochs=2)
        loading = {"batch_size": None, "num_workers": 2, "in_order": False}
        for shard, samples in DataLoader(Batches(queue), **loading):
            say("trained", *(sample // 10 for sample in samples))
            queue.done(shard)
        """,
        "--num_gpus=2",
        "--shard_queue",
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert numbers(ran.stdout, "trained") == sorted([*range(90)] * 2)


def test_workers_that_do_not_mean_the_same_are_told(tmp_path: Path) -> None:
    ran = dsrun(
        tmp_path,
        """
        if rank == "1":
            while not os.path.exists("named"):
                time.sleep(0.01)
        try:
            ShardQueue("train", size=10 + int(rank), shard=3)
        except ValueError as error:
            say(error)
        open("named", "w")
        """,
        "--num_gpus=2",
        "--shard_queue",
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "1 queue 'train': size=11, but rank 0 opened it with size=10\n"


def test_without_the_option_there_is_no_descriptor(tmp_path: Path) -> None:
    ran = dsrun(
        tmp_path,
        """
        say("DSRUN_QUEUE_FD" in os.environ, len(os.listdir("/proc/self/fd")) - 1)
        """,
        "--num_gpus=1",
        "--no_worker_hook",
    )
    assert ran.stdout == "0 False 3\n"


GARBAGE = {
    "noise": (r'mine.sendall(b"\xff{" + b"x" * 999 + b"\n")', "invalid request"),
    "no object": (r'mine.sendall(b"[1]\n")', "invalid request"),
    "empty": (r'mine.sendall(b"\n")', "an empty request"),
    "endless": (r'mine.sendall(b"x" * (8 << 20))', "a request of more than 1048576 bytes"),
    "flood": (r'mine.sendall(b"{}\n" * 1_000_000)', "more than one request at a time"),
    "lines": (r"[line(desk) for _ in range(999)]", "more than 64 connections"),
    "a file": (r"socket.send_fds(desk, [b'x'], [1])", ""),
    "nothing": (r"desk.send(b'')", ""),
}


@pytest.mark.parametrize(("deed", "note"), GARBAGE.values(), ids=list(GARBAGE))
def test_who_talks_nonsense_loses_its_lines_and_nobody_else_is_hurt(
    tmp_path: Path, deed: str, note: str
) -> None:
    ran = dsrun(
        tmp_path,
        f"""
        desk = lines()
        mine = line(desk)
        if rank == "1":
            try:
                {deed}
                assert {not note} or mine.recv(9) == b""
            except OSError:
                pass
            try:
                ShardQueue("train", size=300, shard=3)
            except OSError as error:
                say("closed")
            open("gone", "w")
        while not os.path.exists("gone"):
            time.sleep(0.01)
        if rank == "0":
            with ShardQueue("train", size=300, shard=3) as queue:
                for shard in queue:
                    say("trained", *shard)
                    queue.done(shard)
        """,
        "--num_gpus=2",
        "--shard_queue",
    )
    assert ran.returncode == 0, ran.stderr
    assert numbers(ran.stdout, "trained") == list(range(300))
    assert "1 closed" in ran.stdout
    assert ran.stderr.count("\n") == bool(note)
    assert note in ran.stderr
