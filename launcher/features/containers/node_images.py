"""Images and running containers on a host: the runtime's client, its image's id, and pulls."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import contextmanager, suppress

from ...common import executable
from ...common.errors import NodeError, reason
from ...common.private_folder import cache_root, private_folder
from ...common.records import NamedTuple
from ...common.text import read_json
from . import runtimes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...specs.container import ContainerSpec

CLIENT_TIMEOUT = 60.0
"""Seconds for a client to answer a question; a daemon that hangs must not hang the start."""


class Resolved(NamedTuple):
    """An image, or a running container, on this host.

    Attributes:
        image: its id, or its file.
        identity: text that is equal on all nodes with equal images.
    """

    image: str
    identity: str


class ClientAnswer(NamedTuple):
    """A client's answer.

    Attributes:
        output: its standard output, None if it failed.
        why: the reason for the failure, from its last line.
    """

    output: str | None
    why: str = ""


def own_folder() -> str:
    """Return the folder of locks and records, which hosts may share.

    Raises:
        OSError: see `private_folder`.
    """
    return private_folder(cache_root(os.environ), "dsrun", "containers")


def tool(spec: ContainerSpec) -> str:
    """Return the path of the runtime's client; for a running container, of the runtime that has it.

    Raises:
        NodeError: it is not installed here, or no runtime has a container of that name.
    """
    names = runtimes.RUNTIMES[spec.runtime].tools
    if not names:
        return ""
    found = [path for path in map(executable.find, names) if path]
    if not found:
        raise NodeError(f"--container {spec.shown}: no {' or '.join(names)} on PATH of this host")
    if spec.runtime != "exec":
        return found[0]
    having = [path for path in found if _inspected(path, "container", spec.image) is not None]
    if len(having) == 1:
        return having[0]
    if having:
        why = f"both {' and '.join(map(os.path.basename, having))} have one; name it by its id"
    else:
        if len(found) > 1:
            why = f"neither {' nor '.join(map(os.path.basename, found))} has one on this host"
        else:
            why = f"{os.path.basename(found[0])} has none on this host"
        problems = {path: problem for path in found if (problem := _problem(path))}
        why += "".join(f"; {os.path.basename(path)}: {problems[path]}" for path in problems)
    raise NodeError(f"--container {spec.shown}: {why}")


def resolved(spec: ContainerSpec, path: str) -> Resolved:
    """Return the image of a container, pulled if necessary, or the running container.

    Raises:
        NodeError: it is missing, or cannot be used.
    """
    if spec.runtime == "exec":
        return _running(spec, path)
    if spec.runtime == "prefix":
        return Resolved("", spec.image)
    if not runtimes.RUNTIMES[spec.runtime].has_images or runtimes.is_rootfs(spec):
        return _file(spec)
    known = _inspected(path, "image", spec.image)
    if known is None:
        if problem := _problem(path):
            raise NodeError(f"--container {spec.shown}: {problem}")
        with _one_at_a_time(spec):
            known = _inspected(path, "image", spec.image) or _pulled(spec, path)
    return Resolved(str(known["Id"]), str(known["Id"]).removeprefix("sha256:"))


def _file(spec: ContainerSpec) -> Resolved:
    """Return an image that is a file, or a folder with a root file system."""
    path = spec.image.removesuffix(":O") if runtimes.is_rootfs(spec) else spec.image
    if "://" in path:
        return Resolved(spec.image, spec.image)
    try:
        size = os.stat(path).st_size
        if not os.access(path, os.R_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise NodeError(f"--container {spec.shown}: {reason(error)} on this host") from None
    return Resolved(spec.image, path if os.path.isdir(path) else f"{path} of {size} bytes")


def _pulled(spec: ContainerSpec, path: str) -> dict[str, object]:
    """Pull an image, after a line for the user; return the runtime's description."""
    sys.stderr.write(f"pulling {spec.image} with {spec.runtime}\n")
    sys.stderr.flush()
    done = subprocess.run(
        [path, "pull", "--quiet", spec.image],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    known = None if done.returncode else _inspected(path, "image", spec.image)
    if known is None:
        why = _last_line(done.stderr)
        problem = f"the image cannot be pulled{why and f': {why}'}"
        raise NodeError(f"--container {spec.shown}: {problem}")
    return known


@contextmanager
def _one_at_a_time(spec: ContainerSpec) -> Iterator[None]:
    """Return a context that one process of this user on this host is in at a time."""
    try:
        file = os.open(f"{own_folder()}/pull.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NodeError(f"--container {spec.shown}: {error.filename}: {reason(error)}") from None
    try:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _running(spec: ContainerSpec, path: str) -> Resolved:
    """Return a running container, which must be this user's and reachable.

    Raises:
        NodeError: it cannot be used.
    """
    known = _inspected(path, "container", spec.image) or {}
    state, host = _part(known, "State"), _part(known, "HostConfig")
    name = f"--container {spec.shown}"
    if state.get("Running") is not True:
        status = str(state.get("Status") or "not running")[:40]
        raise NodeError(f"{name}: the container is {status} on this host; start it first")
    network = str(host.get("NetworkMode", ""))
    if spec.several and network != "host":
        raise NodeError(
            f"{name}: its network is {network[:40]}, where other nodes cannot reach it; start it"
            " with --network=host"
        )
    pid = state.get("Pid")
    with suppress(OSError):
        owner = os.stat(f"/proc/{pid}").st_uid if isinstance(pid, int) else 0
        if owner not in {0, os.geteuid()} and os.path.basename(path) == "docker":
            raise NodeError(f"{name}: it runs as another user (uid {owner}) on this host")
    image = str(known.get("Image", "")).removeprefix("sha256:")
    return Resolved(str(known.get("Id", spec.image)), image)


def _part(known: dict[str, object], name: str) -> dict[str, object]:
    part = known.get(name)
    return part if isinstance(part, dict) else {}


def _inspected(path: str, kind: str, name: str) -> dict[str, object] | None:
    """Return the runtime's description of an image or a container, or None."""
    try:
        found = read_json(answer([path, kind, "inspect", name]).output or "[]")
    except ValueError:
        found = []
    first = found[0] if isinstance(found, list) and found else None
    return first if isinstance(first, dict) else None


def _problem(path: str) -> str:
    """Return why a client cannot answer, such as a daemon that does not run, or ""."""
    listed = answer([path, "ps", "--quiet"])
    return "" if listed.output is not None else listed.why or "its list of containers failed"


def answer(argv: Sequence[str], more: float = 0.0) -> ClientAnswer:
    """Return the answer of a client.

    Args:
        argv: its command.
        more: additional seconds for this client.

    Raises:
        NodeError: it does not answer.
    """
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CLIENT_TIMEOUT + more,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NodeError(f"{argv[0]} did not answer within {CLIENT_TIMEOUT:g} s") from None
    except OSError as error:
        raise NodeError(f"{argv[0]}: {reason(error)}") from None
    if done.returncode:
        return ClientAnswer(None, _last_line(done.stderr))
    return ClientAnswer(done.stdout.decode("utf-8", "replace"))


def _last_line(errors: bytes) -> str:
    lines = [one.strip() for one in errors.decode(errors="replace").splitlines() if one.strip()]
    return lines[-1][:300] if lines else ""
