"""What a node tells of itself, so that nodes can be compared: a field of HELLO."""

from __future__ import annotations

from ..common.values import NamedTuple
from ..specs.field_types import register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..specs.field_types import Size

UNLIMITED = -1
"""A resource limit that there is not."""


class Space(NamedTuple):
    """A folder that a job writes to, and the room on its file system.

    Attributes:
        role: what the folder is for: `work`, `log`, `tmp` or `shm`.
        path: the folder, or the nearest one above it that exists.
        total: bytes of the file system, 0 if not known.
        free: bytes that this user may still write.
        inodes: files that this user may still make, -1 if the file system has no limit.
        writable: whether this user may write there.
    """

    role: str
    path: str
    total: Size
    free: Size
    inodes: int
    writable: bool


class DeviceFacts(NamedTuple):
    """A device that the workers can see.

    Attributes:
        id: as in the variable that masks devices.
        name: of the product.
        total: bytes of memory, 0 if not known.
        free: bytes of memory that nobody uses.
        problems: what the driver reports, in words.
        users: the processes on it, as in `pid 12 (alice)`.
    """

    id: str
    name: str
    total: Size
    free: Size
    problems: tuple[str, ...]
    users: tuple[str, ...]


class Facts(NamedTuple):
    """What decides whether a node fits to others; "" for what is not known.

    Text is as `environment.to_wire` makes it.

    Attributes:
        wall: the node's clock when this was sent, in seconds since the epoch.
        python: version of the workers' Python, as in `3.11.2`.
        python_path: its path.
        versions: of packages, libraries and drivers by name (`torch`, `nccl`, `cuda`, `driver`,
            `cuda_driver`, `numpy` ...), as far as they are there; `cuda` is the one that torch was
            built with.
        script: SHA-256 of the script's content, in hex; "" without one.
        files: digest of the names and sizes of all `*.py` below the working folder; "" if there are
            more than 2000 (`MOST_FILES`).
        file_count: how many these are; 2001 for more than 2000.
        env: variables of the workers that decide how libraries behave; no secrets.
        limits: soft limits by name (`nofile`, `memlock`, `nproc`, `stack`), -1 (`UNLIMITED`) for
            none; bytes where they limit memory.
        memory: bytes of this machine.
        cgroup_memory: the smallest memory limit of the cgroups above, in bytes; 0 for none.
        cpus: that workers may use at a time, in seconds of processor time per second; a cgroup's
            quota counts.
        mtus: the MTU in bytes of each network interface that is up and has an address; without
            loopback.
        spaces: the folders of the job.
        devices: the visible devices, as far as their driver describes them.
        imports_torch: whether the script is a Python script that imports torch.
        modules: modules that the script imports, and in which folder they are: that of the script,
            or one of PYTHONPATH; without those that are installed.
        absent: folders of PYTHONPATH that do not exist.
    """

    wall: float
    python: str
    python_path: str
    versions: dict[str, str]
    script: str
    files: str
    file_count: Size
    env: dict[str, str]
    limits: dict[str, int]
    memory: Size
    cgroup_memory: Size
    cpus: float
    mtus: dict[str, int]
    spaces: tuple[Space, ...] = ()
    devices: tuple[DeviceFacts, ...] = ()
    imports_torch: bool = False
    modules: dict[str, str] = {}  # noqa: RUF012
    absent: tuple[str, ...] = ()


MOST_FILES = 2000
"""Python files below the working folder that are compared."""

register(Space, DeviceFacts)
