"""The output of all roles, for one caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.head.roles.roles_log import RolesLogReader

if TYPE_CHECKING:
    from collections.abc import Callable


class Heard:
    """A caller that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.on_close: list[Callable[[], None]] = []
        self.pending = 0

    def event(self, fields: dict[str, object]) -> None:
        self.sent.append({name: what for name, what in fields.items() if name != "event"})

    def chunk(self, data: bytes) -> None:
        self.sent.append(data[5:])


def test_the_role_is_named_before_its_output() -> None:
    one: Any = Heard()
    reader = RolesLogReader(one, {0})
    reader.feed("server", 0, "n0", 1, b"a")
    reader.feed("server", 0, "n0", 1, b"b")
    reader.feed("trainer", 1, "n1", 1, b"of a rank that is not wanted")
    reader.feed("trainer", 0, "n1", 1, b"c")
    reader.feed("server", 0, "n0", 2, b"d")
    first, second = {"rank": 0, "host": "n0"}, {"rank": 0, "host": "n1"}
    server, trainer = {"role": "server"}, {"role": "trainer"}
    assert one.sent == [server, first, b"a", b"b", trainer, second, b"c", server, b"d"]
