"""Finds dsrun on a node, or gets it from the runner: a part of the node launcher's command.

It runs before there is a dsrun, so it imports only the standard library, and little of that.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

ASK = b"\x00dsrun-send-1\x00"
"""Written to a session to ask for PACKAGE."""

PACKAGE, PACKAGE_ASK = 24, 56
"""Kinds of frames, as in `control/frames`."""

LIMIT = 8 << 20
"""Largest package in bytes, compressed or not."""

FRAME_LIMIT = 64 << 20
"""Largest body of any other frame in bytes."""

TIMEOUT, PATIENCE = 30.0, 300.0
"""Seconds for one step of a connection, and to try again at a runner that is busy."""

DAY = 86400.0


def find(version: str, digest: str) -> tuple[str, bytes]:
    """Return the folder with this dsrun, and what else the runner has sent meanwhile."""
    folder = installed(version)
    for base in caches():
        folder = folder or intact(base, digest)
    return (folder, b"") if folder else received(digest)


def installed(version: str) -> str:
    """Return the folder of an installed dsrun of this version, or ""."""
    path, finders = sys.path[:], sys.meta_path[:]
    try:
        import site

        site.main()
        from importlib.util import find_spec

        spec = find_spec("dsrun.launcher")
        origin = spec.origin if spec is not None else None
        with open(origin or os.devnull, encoding="utf-8") as file:
            same = version in file.read().split('"')
        return os.path.dirname(os.path.dirname(origin)) if same and origin else ""
    except Exception:  # site files may raise anything
        return ""
    finally:
        sys.path[:], sys.meta_path[:] = path, finders
        sys.modules.pop("dsrun", None)


def caches() -> list[str]:
    """Return the folders for copies, the preferred one first."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    temporary = os.environ.get("TMPDIR") or "/tmp"
    bases = [f"{home}/dsrun", f"{temporary}/dsrun-{os.geteuid()}"]
    return [base for base in bases if os.path.isabs(base) and not is_open(os.path.dirname(base))]


def is_open(folder: str) -> bool:
    """Return whether others could replace what is in a folder."""
    try:
        return os.stat(folder).st_mode & (stat.S_ISVTX | stat.S_IWOTH) == stat.S_IWOTH
    except OSError:
        return False


def is_private(folder: str) -> bool:
    """Return whether this is a folder, not a link, of this user alone."""
    try:
        seen = os.lstat(folder)
    except OSError:
        return False
    own = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid()
    return own and seen.st_mode & 0o777 == 0o700


def intact(base: str, digest: str) -> str:
    """Return the folder of the copy below `base`, "" if it is not private, or not whole."""
    from time import time

    folder = f"{base}/package/{digest}"
    if not (all(map(is_private, (base, os.path.dirname(folder), folder))) and is_whole(folder)):
        return ""
    try:
        if time() - os.stat(folder).st_mtime > DAY:
            os.utime(folder)  # it is in use, so it is kept
    except OSError:
        pass  # the disk can only be read
    return folder


def is_whole(folder: str) -> bool:
    """Return whether the files of a copy have their sizes and times."""
    import json

    try:
        with open(f"{folder}/manifest", encoding="utf-8") as file:
            manifest = json.load(file)
        for name, facts in manifest.items():
            seen = os.lstat(f"{folder}/{name}")
            if not stat.S_ISREG(seen.st_mode) or [seen.st_size, seen.st_mtime_ns] != facts:
                return False
    except (OSError, ValueError, AttributeError):
        return False
    return True


def received(digest: str) -> tuple[str, bytes]:
    """Get dsrun from the runner; return its folder here, and the frames that came before it."""
    import hashlib
    import json
    import zlib

    early = bytearray()
    if "--stdio" in sys.argv:
        packed = from_session(early)
    else:
        options = dict(word.partition("=")[::2] for word in sys.argv)
        packed = from_port(options["--dial"], options["--pin"], digest)
    text = zlib.decompressobj().decompress(packed, LIMIT)
    if hashlib.sha256(text).hexdigest() != digest:
        fail("the runner's files are not those it has started with; start the job again")
    files = json.loads(text)
    placing: dict[str, Callable[..., str]] = {}
    exec(files["launcher/backends/package/place.py"], placing)
    return placing["place"](caches(), digest, files, intact), bytes(early)


def fail(why: str) -> NoReturn:
    """End this process."""
    sys.exit(f"dsrun: cannot get dsrun from the runner: {why}")


def exactly(read: Callable[[int], bytes], size: int) -> bytes:
    """Return this many bytes."""
    data = bytearray()
    while len(data) < size:
        piece = read(min(size - len(data), 1 << 20))
        if not piece:
            raise ConnectionError("it has closed the connection")
        data += piece
    return bytes(data)


def frame(read: Callable[[int], bytes]) -> tuple[bytes, bytes]:
    """Return the head and the body of a frame."""
    head = exactly(read, 5)
    size = int.from_bytes(head[1:], "big")
    if size > (LIMIT if head[0] == PACKAGE else FRAME_LIMIT):
        raise ConnectionError("it sends something else")
    return head, exactly(read, size)


def from_session(early: bytearray) -> bytes:
    """Ask at the other end of the standard streams."""
    os.write(1, ASK)
    try:
        while True:
            head, body = frame(lambda size: os.read(0, size))
            if head[0] == PACKAGE:
                return body
            early += head + body
    except OSError as error:
        fail(str(error))


def from_port(target: str, pin: str, digest: str) -> bytes:
    """Ask at the port of the runner, which drops callers while there are too many."""
    import random
    from time import monotonic, sleep

    addresses, _, port = target.rpartition(":")
    end = monotonic() + PATIENCE
    while True:
        reasons, again = [], False
        for address in addresses.split(","):
            try:
                return from_address(address, int(port), pin, digest)
            except (OSError, UnicodeError) as error:
                reasons.append(f"{address}:{port}: {error}")
                again = again or isinstance(error, Busy)
        if not again or monotonic() > end:
            fail("; ".join(reasons))
        sleep(random.uniform(0.2, 1.0))


class Busy(OSError):
    """The runner has accepted a connection, and closed it."""


def from_address(address: str, port: int, pin: str, digest: str) -> bytes:
    """Ask at one of its addresses."""
    import hashlib
    import socket
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the fingerprint is compared instead
    ask = bytes([PACKAGE_ASK]) + len(digest).to_bytes(4, "big") + digest.encode()
    with socket.create_connection((address, port), TIMEOUT) as plain:
        try:
            with context.wrap_socket(plain) as line:
                seen = line.getpeercert(True) or b""
                if hashlib.sha256(seen).hexdigest() != pin:
                    raise PermissionError("another program answers there")
                line.sendall(ask)
                return frame(line.recv)[1]
        except (ConnectionError, TimeoutError, ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise Busy(str(error)) from None
