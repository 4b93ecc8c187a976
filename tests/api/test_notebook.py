"""Jobs in a notebook, with a real kernel: output in the cell, Ctrl-C, and its event loop."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from traitlets.config import Config

from ..support.checkout import IMPORTABLE
from ..support.limits import HANG, wait_for
from ..support.needs import need_modules
from ..support.recipes import recipe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages of the kernel

FIRST = """
from dsrun.launcher.api import launch
here = {"hosts": "localhost:2", "accelerator": "cpu", "quiet": True}
"""

INTERRUPTED = """
import pathlib, signal, threading, time
up = pathlib.Path({path!r} + ".rank")
def work(path):
    print("up", flush=True)
    pathlib.Path(path).touch()
    while True:
        time.sleep(0.02)
def tell():
    while not up.exists() or signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        time.sleep(0.01)
    pathlib.Path({path!r}).touch()
threading.Thread(target=tell).start()
job = launch(work, [str(up)], **{{**here, "hosts": "localhost:1"}})
job.wait()
"""


class Notebook:
    """A notebook whose cells a test writes and runs one by one."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def run(self, text: str) -> str:
        """Run a cell; return what it shows: its output, and its last value."""
        cell = NotebookNode(nbformat.v4.new_code_cell(text))  # type: ignore[no-untyped-call]
        self._client.nb.cells.append(cell)
        try:
            self._client.execute_cell(cell, len(self._client.nb.cells) - 1)
        finally:
            self.shown = "".join(map(_text, cell.outputs))
        return self.shown

    def interrupt(self) -> None:
        """Do what the stop button does."""
        manager: Any = self._client.km
        os.kill(manager.provisioner.pid, signal.SIGINT)


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return str(output.get("data", {}).get("text/plain", ""))


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    """A notebook with a kernel."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", IMPORTABLE["PYTHONPATH"])
    book = NotebookNode(nbformat.v4.new_notebook())  # type: ignore[no-untyped-call]
    # With TCP, ports are chosen before the kernel binds them, and others may have them by then.
    folder = tempfile.TemporaryDirectory()  # the sockets' names begin with this path
    config = Config(KernelManager={"transport": "ipc", "ip": f"{folder.name}/kernel"})
    limits: dict[str, Any] = dict.fromkeys(
        ("timeout", "iopub_timeout", "startup_timeout"), int(HANG)
    )
    client = NotebookClient(book, kernel_name="python3", config=config, **limits)
    with client.setup_kernel():
        one = Notebook(client)
        one.run(FIRST)
        yield one
    folder.cleanup()
    patch.undo()


def test_output_appears_in_the_cell_and_results_are_values(notebook: Notebook) -> None:
    shown = notebook.run(
        "def work(n):\n"
        "    print('at work')\n"
        "    return n * int(__import__('os').environ['RANK'])\n"
        "launch(work, [7], **here).results()"
    )
    assert sorted(shown.splitlines()) == [
        "localhost:0| at work",
        "localhost:1| at work",
        "{0: 0, 1: 7}",
    ]


def test_the_stop_button_stops_the_job(notebook: Notebook, tmp_path: Path) -> None:
    flag = tmp_path / "up"

    def stop() -> None:
        wait_for(flag.exists, "a rank, and the kernel that waits for it")
        notebook.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
        notebook.run(INTERRUPTED.format(path=str(flag)))
    thread.join()
    assert "localhost:0| up\n" in notebook.shown
    assert notebook.run("job.report.cause, job.report.data['signal']") == "('signal', 2)"


def test_jobs_are_awaited_in_the_loop_of_the_kernel(notebook: Notebook) -> None:
    shown = notebook.run(
        "report = await launch(print, ['awaited'], **here)\n(report.exit_code, report.world_size)"
    )
    assert shown.count("| awaited\n") == 2
    assert shown.endswith("(0, 2)")


@pytest.mark.tier("all")
def test_the_recipe_trains_on_a_fleet(notebook: Notebook) -> None:
    need_modules("torch")
    page = recipe("Notebook")
    connect, train, release = page.every("python")
    notebook.run(connect)
    shown = notebook.run(train)
    again = notebook.run(train)
    notebook.run(release)
    assert page.not_in(shown) == [], shown
    assert page.not_in(again) == [], again
