"""Whose process is at the other end of a connection."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import pytest

from dsrun.launcher.features.debug.runner_debug_port import owner, uid_of

from ...support.local_control import NOBODY, needs_root

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  inode"
OURS, THEIRS = ("127.0.0.1", 5000), ("127.0.0.1", 40000)


def row(local: str, remote: str, state: str = "01", uid: int = 7, inode: int = 99) -> str:
    return (
        f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {uid} 0 {inode} 1"
    )


PORTS = "0100007F:9C40", "0100007F:1388"
WIDE = "0000000000000000FFFF00000100007F"


@pytest.mark.parametrize(
    ("rows", "uid"),
    [
        ([], None),
        ([row(*PORTS)], 7),
        ([row(PORTS[1], PORTS[0]), row(*PORTS, uid=8)], 8),
        ([row(f"{WIDE}:9C40", f"{WIDE}:1388")], 7),
        ([row(*PORTS, inode=0, uid=0)], None),
        ([row(*PORTS, state="05", uid=0)], None),
        (["", "0: x", row("0100007F:9C41", PORTS[1])], None),
    ],
    ids=["none", "other end", "own end first", "IPv6", "closed", "half closed", "others"],
)
def test_the_user_of_the_other_end_is_in_its_row(rows: list[str], uid: int | None) -> None:
    assert uid_of([HEAD, *rows], THEIRS, OURS) == uid


class Line:
    """Two ends of a connection over loopback; the caller may be another user, or use IPv6."""

    def __init__(self, uid: int = -1, family: int = socket.AF_INET) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()
            if uid >= 0:
                os.seteuid(uid)
            try:
                self.theirs = socket.socket(family, socket.SOCK_STREAM)
                wide = ("::ffff:127.0.0.1", address[1])
                self.theirs.connect(wide if family == socket.AF_INET6 else address)
            finally:
                if uid >= 0:
                    os.seteuid(0)
            self.ours, _ = server.accept()

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_this_user_is_known_for_as_long_as_it_is_there(family: int) -> None:
    with closing(Line(family=family)) as line:
        assert owner(line.ours) == os.getuid()
        line.theirs.close()
        assert owner(line.ours) is None, "the row then says root, whoever it was"


@needs_root
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_another_user_is_known_likewise(family: int) -> None:
    with closing(Line(NOBODY, family)) as line:
        assert owner(line.ours) == NOBODY
        line.theirs.close()
        assert owner(line.ours) is None


def test_what_is_not_connected_is_nobodys() -> None:
    with socket.socket() as line:
        assert owner(line) is None
