"""A node's facts about itself in HELLO, for comparison between nodes."""

from __future__ import annotations

from ..common.records import NamedTuple
from ..specs.field_types import register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..specs.field_types import Size

UNLIMITED = -1
"""The value of a resource limit that does not exist."""


class Space(NamedTuple):
    """A folder that a job writes to, and the room on its file system.

    Attributes:
        role: the purpose of the folder: `work`, `log`, `tmp` or `shm`.
        path: the folder, or its nearest parent that exists.
        total: size of the file system in bytes, 0 if unknown.
        free: bytes that this user may still write.
        inodes: number of files that this user may still create, -1 if the file system has no limit.
        writable: whether this user may write to the folder.
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
        id: the device as written in the variable that masks devices.
        name: the product name.
        total: bytes of memory, 0 if unknown.
        free: bytes of unused memory.
        problems: problems that the driver reports, in words.
        users: the processes on the device, as in `pid 12 (alice)`.
    """

    id: str
    name: str
    total: Size
    free: Size
    problems: tuple[str, ...]
    users: tuple[str, ...]


class Facts(NamedTuple):
    """Facts that decide whether a node fits in with others; "" for an unknown fact.

    Text is encoded by `environment.to_wire`.

    Attributes:
        wall: the node's clock when this was sent, in seconds since the epoch.
        python: version of the workers' Python, as in `3.11.2`.
        python_path: path of the workers' Python.
        versions: the versions of packages, libraries and drivers that were found, by name (`torch`,
            `nccl`, `cuda`, `driver`, `cuda_driver`, `numpy` ...); `cuda` is the version that torch
            was built with.
        limits: soft limits by name (`nofile`, `memlock`, `nproc`, `stack`), -1 (`UNLIMITED`) for
            none; in bytes where they limit memory.
        memory: the machine's memory in bytes.
        cgroup_memory: the smallest memory limit of the enclosing cgroups, in bytes; 0 for none.
        cpus: processor time that workers may use, in seconds per second; a cgroup's quota counts.
        spaces: the folders of the job.
        devices: the visible devices that their driver describes.
        imports_torch: whether the script is a Python script that imports torch.
        script: SHA-256 of the script's content, in hex; "" without a script. This and the rest
            are only compared: a node alone leaves them out.
        files: digest of the names and sizes of all `*.py` files below the working folder; "" if
            there are more than 2000 (`MOST_FILES`).
        file_count: the number of these files; 2001 for more than 2000.
        env: variables of the workers that affect libraries, without secrets.
        mtus: the MTU in bytes of each network interface, except loopback, that is up and has an
            address.
        modules: modules that the script imports, with their folders: the script's, or one of
            PYTHONPATH; installed modules are left out.
        absent: folders of PYTHONPATH that do not exist.
    """

    wall: float
    python: str
    python_path: str
    versions: dict[str, str]
    limits: dict[str, int]
    memory: Size
    cgroup_memory: Size
    cpus: float
    spaces: tuple[Space, ...] = ()
    devices: tuple[DeviceFacts, ...] = ()
    imports_torch: bool = False
    script: str = ""
    files: str = ""
    file_count: Size = 0
    env: dict[str, str] = {}  # noqa: RUF012
    mtus: dict[str, int] = {}  # noqa: RUF012
    modules: dict[str, str] = {}  # noqa: RUF012
    absent: tuple[str, ...] = ()


MOST_FILES = 2000
"""The largest number of Python files below the working folder that are compared."""

register(Space, DeviceFacts)
