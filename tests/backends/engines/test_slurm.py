"""srun's command and messages; jobs with it are in `tests/cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import backends
from dsrun.launcher.backends.engines.slurm import Slurm
from dsrun.launcher.backends.events import EngineEnded, EngineOutput
from dsrun.launcher.common.errors import LOST
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.container import ContainerSpec, Mount
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import lay_out

from ...support.frozen import silent
from ...support.limits import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from dsrun.launcher.backends.events import BackendEvent

NODES = lay_out([Host("n1", (0,)), Host("n2", (0,))])
MOUNTS = (
    Mount("/work", "/work"),
    Mount("/logs", "/logs", made=True),
    Mount("/data", "/mnt", read_only=True, given=True),
    Mount("/src", "/src", read_only=True),
)
AS_PYXIS = "/work:/work:nofail,/logs:/logs,/data:/mnt:ro,/src:/src:ro+nofail"


@pytest.fixture(autouse=True)
def _environ(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMPI_MCA_x", "ENROOT_CONFIG_PATH"):
        monkeypatch.setenv(name, "1")


def slurm(container: ContainerSpec) -> Slurm:
    backend = backends.load("slurm", BackendSettings("python3", container=container))
    assert isinstance(backend, Slurm)
    return backend


def options(container: ContainerSpec) -> list[str]:
    """The options for pyxis, and that of the variables."""
    words = slurm(container).argv(NODES, None)
    return [one for one in words if one.startswith(("--container", "--export", "--no-container"))]


def test_a_container_of_pyxis() -> None:
    exported, *words = options(ContainerSpec("pyxis", "nvcr.io#x", mounts=MOUNTS))
    assert words == [
        *("--container-image=nvcr.io#x", f"--container-mounts={AS_PYXIS}"),
        "--container-workdir=/",
    ]
    names = exported.removeprefix("--export=").split(",")
    assert {"HOME", "PATH", "OMPI_MCA_x", "ENROOT_CONFIG_PATH"} <= {*names}
    assert "LD_LIBRARY_PATH" not in names
    assert options(ContainerSpec("podman", "x", mounts=MOUNTS)) == []


@pytest.mark.parametrize(
    "given", [("--container-mounts=/x:/y,tmpfs:/z",), ("--container-mounts", "/x:/y,tmpfs:/z")]
)
def test_no_option_of_pyxis_is_given_twice(given: tuple[str, ...]) -> None:
    args = (*given, "--container-workdir=/w", "--no-container-mount-home")
    _, *words = options(ContainerSpec("pyxis", "x", mounts=MOUNTS[:1], args=args))
    assert words == [
        *("--container-image=x", "--container-mounts=/work:/work:nofail,/x:/y,tmpfs:/z"),
        *("--container-workdir=/w", "--no-container-mount-home"),
    ]


class Started:
    """A start that has to make a folder, and what it emits; the loop stops at its end."""

    def __init__(self, place: str) -> None:
        self.loop = Loop()
        self.emitted: list[BackendEvent] = []
        self.backend = slurm(ContainerSpec("pyxis", "x", mounts=(Mount(place, place, made=True),)))
        self.backend.start(NODES, self.loop, self._emit, None)

    def _emit(self, event: BackendEvent) -> None:
        self.emitted.append(event)
        if isinstance(event, EngineEnded):
            self.loop.stop()


def test_a_folder_that_cannot_be_made_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = f"{tmp_path}/file/logs"
    started = Started(place)
    started.loop.run()
    assert started.emitted == [
        EngineOutput(f"making {place} for the containers"),
        EngineEnded(f"{place}: not a directory", LOST, False),
    ]


def test_a_file_system_that_does_not_answer_leaves_the_loop_alone(tmp_path: Path) -> None:
    with silent(tmp_path) as point:
        place = f"{point}/logs"
        started = Started(place)
        assert started.emitted == [EngineOutput(f"making {place} for the containers")]
    started.loop.run()
    assert isinstance(started.emitted[-1], EngineEnded)


def test_nothing_is_started_once_it_is_closed(tmp_path: Path) -> None:
    started = Started(f"{tmp_path}/logs")
    started.backend.close()
    wait_for((tmp_path / "logs").is_dir, "the folder")
    started.loop.call_later(0.0, started.loop.stop)
    started.loop.run()
    assert [type(one) for one in started.emitted] == [EngineOutput]


# Output of srun 22.05 with pyxis 0.20 and enroot 3.5.
NO_IMAGE = """\
srun: error: n2: task 1: Exited with exit code 1
slurmstepd: error: pyxis: child 34 failed with error code: 1
slurmstepd: error: pyxis: failed to create container filesystem
slurmstepd: error: pyxis: printing enroot log file:
slurmstepd: error: pyxis:     [ERROR] No such file or directory: /no/image.sqsh
slurmstepd: error: pyxis: couldn't start container
slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
"""
NO_MOUNT = """\
slurmstepd: error: pyxis: container start failed with error code: 1
slurmstepd: error: pyxis: printing enroot log file:
slurmstepd: error: pyxis:     enroot-mount: failed to mount: /no at /x/no: No such file or directory
"""
NO_ENTRY = "slurmstepd: error: pyxis: couldn't join user namespace: Invalid argument\n"
NO_PYTHON = "slurmstepd: error: execve(): python3: No such file or directory\n"
OLD_PYTHON = "python 3.10 or newer is needed, this is 3.8.1 (default)\n"
NO_PLUGIN = "srun: unrecognized option '--container-image=x'\nTry \"srun --help\"\n"
SAID = (
    (NO_IMAGE, "No such file or directory: /no/image.sqsh"),
    (NO_MOUNT, "failed to mount: /no at /x/no: No such file or directory"),
    (NO_ENTRY, "couldn't join user namespace: Invalid argument"),
    (NO_PYTHON, "there is no python3 inside; name a Python 3.10 or newer inside with --python"),
    (NO_PLUGIN, "Slurm has no plugin pyxis on this machine, see srun --help"),
    (
        OLD_PYTHON,
        "its Python is 3.8.1, but 3.10 or newer is needed; name another one inside with --python",
    ),
)


@pytest.mark.parametrize(("text", "why"), SAID)
def test_why_pyxis_did_not_start(text: str, why: str) -> None:
    lines = text.splitlines()
    found = slurm(ContainerSpec("pyxis", "x")).start_failure(lines)
    assert found == f"pyxis:x did not start: {why}"
    assert slurm(ContainerSpec("podman", "x")).start_failure(lines) == ""


def test_other_lines_say_nothing_of_pyxis() -> None:
    lines = ["srun: error: n1: task 0: Killed", "pyxis: imported docker image: x"]
    assert slurm(ContainerSpec("pyxis", "x")).start_failure(lines) == ""
