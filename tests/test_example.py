"""The example really trains: alone, under torchrun, with any number of ranks, on from a save."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .support.checkout import CHECKOUT
from .support.limits import HANG
from .support.needs import need_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.tier("ci")

EXAMPLE = str(CHECKOUT / "examples" / "train_ddp.py")
SHORT = ("--batch", "51", "--log_every", "1")

Losses = dict[int, float]


@pytest.fixture(scope="module", autouse=True)
def torch_is_here() -> None:
    need_modules("torch")


@pytest.fixture(scope="module")
def alone() -> Losses:
    """The losses of twenty steps in one process."""
    return losses(finish(sys.executable, EXAMPLE, *SHORT, "--steps", "20"))


def test_loss_falls(alone: Losses) -> None:
    assert list(alone) == list(range(1, 21))
    assert alone[1] > 4.0
    assert alone[20] < alone[1] - 1.0


def test_uneven_ranks_have_the_same_losses(alone: Losses) -> None:
    with ranks(2, *SHORT, "--steps", "20", "--local_rank=0") as processes:
        outputs = [process.communicate(timeout=HANG)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert losses(outputs[0]) == pytest.approx(alone, abs=1e-4)
    assert outputs[1] == ""


def test_goes_on_from_a_checkpoint_with_other_ranks(alone: Losses, tmp_path: Path) -> None:
    save = ("--checkpoint", str(tmp_path / "model.pt"))
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    begun = finish(*torchrun, "--nproc_per_node", "2", EXAMPLE, *SHORT, *save, "--steps", "10")
    ended = finish(sys.executable, EXAMPLE, *SHORT, *save, "--steps", "20")
    assert list(losses(begun)) == list(range(1, 11))
    assert list(losses(ended)) == list(range(11, 21))
    assert losses(begun) | losses(ended) == pytest.approx(alone, abs=1e-4)
    assert final_loss(ended) == losses(ended)[20]


def test_signals_to_any_rank_save_and_stop_all(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    # One example a step for two ranks: one of them has nothing to do, and must do it right.
    endless = ("--batch", "1", "--log_every", "1", "--steps", "1000000")
    often = ("--checkpoint", str(file), "--checkpoint_every", "1000000")
    with ranks(2, *endless, *often) as processes:
        wait_for_step(processes[0])
        processes[1].send_signal(signal.SIGUSR1)
        while not file.exists():
            wait_for_step(processes[0])
        processes[1].send_signal(signal.SIGTERM)
        output = processes[0].communicate(timeout=HANG)[0]
        assert [process.wait(HANG) for process in processes] == [0, 0]
    assert "stopped by SIGTERM" in output
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def finish(*command: str) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def ranks(count: int, *arguments: str) -> Iterator[list[subprocess.Popen[str]]]:
    """So many ranks of the example, started with nothing but what every launcher sets."""
    with ExitStack() as stack:
        master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(stack.enter_context(free_port()))}
        processes = []
        for rank in range(count):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
            command = [sys.executable, EXAMPLE, *arguments]
            env = environment() | master | place
            process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        yield processes


def environment() -> dict[str, str]:
    """The tests' own, without anybody's ranks; one thread a rank, as there are few cores."""
    contract = re.compile(r"(LOCAL_|GROUP_)?(RANK|WORLD_SIZE)|MASTER_(ADDR|PORT)")
    kept = {name: value for name, value in os.environ.items() if not contract.fullmatch(name)}
    return kept | {"OMP_NUM_THREADS": "1"}


@contextmanager
def free_port() -> Iterator[int]:
    """A port that the system gives to nobody else, and that rank 0 can bind meanwhile.

    Linux lets several sockets bind a port that has been bound with SO_REUSEADDR, as torch does it,
    as long as none of them listens (socket(7)).
    """
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


def wait_for_step(process: subprocess.Popen[str]) -> None:
    """Read on to the next line that reports a step."""
    assert process.stdout is not None
    assert any(line.startswith("step") for line in process.stdout), "ended without a step"


def losses(output: str) -> Losses:
    """The loss of every step that the output reports."""
    found = re.findall(r"^step +(\d+)  loss ([\d.]+)$", output, re.MULTILINE)
    return {int(step): float(loss) for step, loss in found}


def final_loss(output: str) -> float:
    found = re.search(r"^final loss ([\d.]+)$", output, re.MULTILINE)
    assert found, output
    return float(found[1])
