"""Gets dsrun from the runner: the second half of the bootstrap, for nodes without dsrun.

It imports only the standard library.
"""

from __future__ import annotations

import os
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


def received(digest: str, bases: list[str], intact: Callable[[str, str], str]) -> tuple[str, bytes]:
    """Get dsrun from the runner, and save it.

    Args:
        digest: the digest of the expected package.
        bases: the folders for copies, the preferred one first.
        intact: returns the folder of the copy below a base; "" if the copy cannot be used.

    Returns:
        its folder, and the frames that came before it.
    """
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
        fail("the runner's files have changed since it started; start the job again")
    files = json.loads(text)
    placing: dict[str, Callable[..., str]] = {}
    exec(files["launcher/backends/package/place.py"], placing)
    return placing["place"](bases, digest, files, intact), bytes(early)


def fail(why: str) -> NoReturn:
    """End this process."""
    sys.exit(f"dsrun: cannot get dsrun from the runner: {why}")


def exactly(read: Callable[[int], bytes], size: int) -> bytes:
    """Return this many bytes."""
    data = bytearray()
    while len(data) < size:
        piece = read(min(size - len(data), 1 << 20))
        if not piece:
            raise ConnectionError("it closed the connection")
        data += piece
    return bytes(data)


def frame(read: Callable[[int], bytes]) -> tuple[bytes, bytes]:
    """Return the head and the body of a frame."""
    head = exactly(read, 5)
    size = int.from_bytes(head[1:], "big")
    if size > (LIMIT if head[0] == PACKAGE else FRAME_LIMIT):
        raise ConnectionError("it sent something else")
    return head, exactly(read, size)


def from_session(early: bytearray) -> bytes:
    """Ask for dsrun at the other end of the standard streams."""
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
    """Ask for dsrun at the port of the runner, which drops callers while there are too many."""
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
    """The runner has accepted a connection, and closed the connection."""


def from_address(address: str, port: int, pin: str, digest: str) -> bytes:
    """Ask for dsrun at one of the runner's addresses."""
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
