"""The container in which the node launcher of each node runs. Pure."""

from __future__ import annotations

import base64
import json

from ..common.records import NamedTuple
from ..common.text import read_json
from .field_types import register

PROGRAM = "--program=container"
"""The option of a node launcher that starts a node launcher in a container (`node.programs`)."""


class Mount(NamedTuple):
    """A folder or file of the host inside the container.

    Attributes:
        source: its path on the host.
        target: its path inside.
        read_only: whether it cannot be changed inside.
        given: whether the user names it, so that it must exist on each host.
        made: whether a missing folder is made on the host.
    """

    source: str
    target: str
    read_only: bool = False
    given: bool = False
    made: bool = False


class ContainerSpec(NamedTuple):
    """A container.

    Attributes:
        runtime: `podman`, `docker`, `apptainer`, `enroot`, `pyxis`, `exec` or `prefix`.
        image: the image or its file; the name of a running container; the words of the prefix.
        python: the interpreter inside.
        mounts: its folders and files of the host, without dsrun's own folder.
        args: the user's arguments for the runtime.
        job: the id of the job.
        several: whether the job may have several nodes, which must reach each other.
        copies: whether `--sync` keeps its copies in the cache folder of the host.
        of_role: whether it belongs to one role of the job, whose node launchers run over lanes.
    """

    runtime: str
    image: str
    python: str = "python3"
    mounts: tuple[Mount, ...] = ()
    args: tuple[str, ...] = ()
    job: str = ""
    several: bool = False
    copies: bool = False
    of_role: bool = False

    @property
    def shown(self) -> str:
        """The container as the user writes it."""
        return f"{self.runtime}:{self.image}"

    @property
    def by_engine(self) -> bool:
        """True if the engine itself starts the container, by its own options."""
        return self.runtime == "pyxis"

    @property
    def entry(self) -> tuple[str, ...]:
        """The words before the node launcher's arguments that start one in a container."""
        return () if self.by_engine else (PROGRAM, packed(self))


def packed(spec: ContainerSpec) -> str:
    """Return a container as one word of letters, digits, `-`, `_` and `=`, for any shell."""
    from .codec import encode

    return base64.urlsafe_b64encode(json.dumps(encode(spec)).encode()).decode()


def unpacked(word: str) -> ContainerSpec:
    """Return the container of a word.

    Raises:
        UsageError: it is of another version of dsrun, or a field is invalid.
        ValueError: it is damaged.
    """
    from .codec import decode

    return decode(ContainerSpec, read_json(base64.urlsafe_b64decode(word)))


register(Mount)
