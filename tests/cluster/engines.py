"""The real MPI launchers that tests start jobs with, each with a Python that has MPI for it.

Open MPI 4 and MPICH 4 are Debian's; the others, and all of mpi4py, come from PyPI into
environments that `make engines` puts beside the one of the tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..support.needs import need
from .command import CHECKOUT

ENVIRONMENTS = CHECKOUT / ".venv" / "engines"


@dataclass(frozen=True)
class Engine:
    """A launcher of one MPI.

    Attributes:
        name: it, and its major version.
        launcher: what dsrun's `--launcher` calls its kind.
        program: what is run, as `--launcher_path` takes it.
        python: a Python in which `from mpi4py import MPI` finds a library for this launcher.
        version: a pattern that is in what its `--version` says, and in no other engine's here.
    """

    name: str
    launcher: str
    program: str
    python: str
    version: str

    def __str__(self) -> str:
        return self.name

    @property
    def options(self) -> tuple[str, ...]:
        """What has dsrun use it."""
        return "--launcher", self.launcher, "--launcher_path", self.program

    def need(self) -> None:
        """Skip the running test unless it is installed, with its Python; in CI, fail it."""
        need(self.program, self.python)


def installed(environment: str, program: str) -> str:
    """The path of a program that `.ci/engines` has installed."""
    return str(ENVIRONMENTS / environment / "bin" / program)


# Intel's `mpirun` runs any `mpiexec.hydra` that is first on PATH. mpi4py does not find Debian's
# MPICH by the name that it has there; PyPI's library starts under the launchers of both.
ENGINES = (
    Engine(
        name="openmpi4",
        launcher="openmpi",
        program="mpirun.openmpi",
        python=installed("openmpi4", "python"),
        version=r"\(OpenRTE\) 4\.",
    ),
    Engine(
        name="openmpi5",
        launcher="openmpi",
        program=installed("openmpi5", "mpirun"),
        python=installed("openmpi5", "python"),
        version=r"\(Open MPI\) 5\.",
    ),
    Engine(
        name="mpich4",
        launcher="mpich",
        program="mpiexec.mpich",
        python=installed("mpich", "python"),
        version=r"HYDRA build details:\s+Version: +4\.",
    ),
    Engine(
        name="mpich5",
        launcher="mpich",
        program=installed("mpich", "mpiexec.hydra"),
        python=installed("mpich", "python"),
        version=r"HYDRA build details:\s+Version: +5\.",
    ),
    Engine(
        name="impi",
        launcher="impi",
        program=installed("impi", "mpiexec.hydra"),
        python=installed("impi", "python"),
        version=r"Intel\(R\) MPI Library .* Version 2021\.",
    ),
)
