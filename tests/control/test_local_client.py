"""The client's end of local control, with servers that answer, fail, vanish or are strangers'."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import DsrunError, LostError, NodeError, UsageError
from dsrun.launcher.control import frames, local, local_client
from dsrun.launcher.control.local_client import LocalClient, connect, listening, running

from ..support.clock import Pauses
from ..support.leaks import open_files
from ..support.limits import HANG
from ..support.local_control import NOBODY, needs_root, new_name, serving
from ..support.own_names import own_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.features.jobs.runner_server import LocalCaller

__all__ = ["own_names"]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """The time that a client spends between its attempts to connect, which takes none here."""
    made = Pauses()
    monkeypatch.setattr(local_client, "time", made)
    return made


def echo(_: LocalCaller, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    texts = [os.read(fd, 99).decode() for fd in fds]
    for fd in fds:
        os.close(fd)
    return {"text": message["text"], "texts": texts}


def talk(caller: LocalCaller, message: dict[str, Any], _: list[int]) -> None:
    caller.event({"event": "first"})
    caller.chunk(b"\0bytes")
    caller.answer({"said": 2}, message)


def refuse(_: LocalCaller, message: dict[str, Any], __: list[int]) -> None:
    kinds = {2: UsageError, 69: NodeError, 75: LostError, 70: DsrunError}
    raise kinds[message["code"]]("because")


def leave(caller: LocalCaller, _: dict[str, Any], __: list[int]) -> None:
    caller.close()


def silent(_: LocalCaller, __: dict[str, Any], ___: list[int]) -> None:
    """Never answer."""


VERBS = {"echo": echo, "talk": talk, "refuse": refuse, "leave": leave, "silent": silent}


@pytest.fixture
def client() -> Iterator[LocalClient]:
    with serving(VERBS) as served:
        made = connect(served.kind, served.name)
        assert made is not None
        with made:
            yield made


@contextmanager
def one_that_sends(data: bytes) -> Iterator[LocalClient]:
    """A client whose server sends these bytes whatever it is asked, and leaves."""
    near, far = socket.socketpair()
    with LocalClient(near) as client:
        far.sendall(data)
        far.shutdown(socket.SHUT_WR)
        with far:
            yield client


def test_a_request_and_its_answer(client: LocalClient) -> None:
    answer = client.ask({"do": "echo", "text": "é \udcff"})
    assert (answer["ok"], answer["text"]) == (True, "é \udcff")


def test_a_request_with_descriptors(client: LocalClient) -> None:
    read_fd, write_fd = os.pipe()
    os.write(write_fd, b"piped")
    assert client.ask({"do": "echo", "text": ""}, [read_fd])["texts"] == ["piped"]
    os.close(read_fd)
    os.close(write_fd)


def test_a_large_request(client: LocalClient) -> None:
    text = "x" * (8 << 20)
    assert client.ask({"do": "echo", "text": text})["text"] == text


def test_a_server_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_client, "UNREAD", 0.05)
    near, far = socket.socketpair()
    with far, LocalClient(near) as client:
        client.send({"do": "echo"})
        with pytest.raises(LostError, match=r"^no answer: the request was not read$"):
            client.send({"do": "echo", "text": "x" * (8 << 20)})


def test_what_comes_before_the_answer_is_kept(client: LocalClient) -> None:
    assert not client.ready(0.01)
    assert client.ask({"do": "talk"})["said"] == 2
    assert client.ready(0)
    number = client.send({"do": "echo", "text": "next"})
    kept = []
    for one in client.frames(HANG):
        kept.append(one)
        if one.kind == frames.ANSWER:
            break
    assert kept[0] == (frames.EVENT, {"event": "first"}, b"")
    assert kept[1] == (frames.CHUNK, {}, b"\0bytes")
    assert (kept[2].message["id"], kept[2].message["text"]) == (number, "next")


@pytest.mark.parametrize(
    ("code", "kind"), [(2, UsageError), (69, NodeError), (75, LostError), (70, DsrunError)]
)
def test_an_error_is_raised_as_it_was(
    client: LocalClient, code: int, kind: type[DsrunError]
) -> None:
    with pytest.raises(kind, match=r"^because$") as caught:
        client.ask({"do": "refuse", "code": code})
    assert (type(caught.value), caught.value.exit_code) == (kind, code)


@pytest.mark.parametrize("code", [None, "2", [], 0, 256, -1, True])
def test_an_error_with_an_impossible_code(code: object) -> None:
    with pytest.raises(DsrunError, match=r"^why$") as caught:
        local_client.checked({"ok": False, "error": "why", "code": code})
    assert caught.value.exit_code == 70


def test_a_server_that_leaves(client: LocalClient) -> None:
    with pytest.raises(LostError, match=r"^no answer: the connection was closed$"):
        client.ask({"do": "leave"})
    with pytest.raises(LostError, match="the connection was closed"):
        client.ask({"do": "echo", "text": ""})
    assert client.receive() is None


def test_a_server_that_does_not_answer(client: LocalClient) -> None:
    with pytest.raises(LostError, match=r"^no answer within 0.05 s$"):
        client.ask({"do": "silent"}, seconds=0.05)
    assert client.ask({"do": "echo", "text": "still there"})["text"] == "still there"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff" * 64,
        frames.pack(frames.ANSWER, b"{"),
        frames.pack(frames.ANSWER, b"[]"),
        frames.pack(frames.ANSWER, b"[" * 100_000),
        frames.pack(frames.HELLO, b"{}"),
        frames.pack_json(frames.ANSWER, {"id": [], "ok": True}),
    ],
)
def test_garbage_from_a_server_is_one_error(data: bytes) -> None:
    with one_that_sends(data) as client, pytest.raises(LostError):
        client.ask({"do": "echo"}, seconds=HANG)


def test_frames_that_are_complete_when_the_server_leaves() -> None:
    sent = frames.pack(frames.CHUNK, b"last") + frames.pack(frames.CHUNK, b"cut")[:6]
    with one_that_sends(sent) as client:
        assert [one.data for one in client.frames(HANG)] == [b"last"]


def test_nobody_is_there() -> None:
    before = open_files()
    assert connect(local.JOB, new_name()) is None
    assert connect(local.JOB, "no such\nname") is None
    assert open_files() == before


def test_those_that_run_are_listed_once_while_they_do() -> None:
    with ExitStack() as stack:
        one = stack.enter_context(serving(VERBS, local.HOLD))
        other = stack.enter_context(serving(VERBS, local.HOLD))
        for _ in range(3):
            client = connect(local.HOLD, one.name)
            assert client is not None
            stack.enter_context(client)
        mine = [name for name in running(local.HOLD) if name in {one.name, other.name}]
        assert mine == sorted([one.name, other.name])
        assert one.name not in running(local.JOB)
    assert not {one.name, other.name} & {*running(local.HOLD)}


@pytest.mark.usefixtures("own_names")
def test_a_full_backlog_is_waited_for(pauses: Pauses) -> None:
    name = new_name()
    with ExitStack() as stack:
        listener = socket.socket(socket.AF_UNIX)
        stack.enter_context(listener)
        listener.bind(f"\0{local.address(local.JOB, name)}")
        listener.listen(0)
        first = connect(local.JOB, name)
        assert first is not None
        stack.enter_context(first)
        assert connect(local.JOB, name, seconds=0.05) is None

        def accept() -> None:
            listener.accept()[0].close()

        pauses.on_sleep = accept
        second = connect(local.JOB, name)
        assert second is not None
        second.close()


@pytest.mark.usefixtures("own_names", "pauses")
def test_one_that_is_busy_does_not_hide_others() -> None:
    with ExitStack() as stack:
        served = stack.enter_context(serving(VERBS, local.HOLD))
        busy = socket.socket(socket.AF_UNIX)
        stack.enter_context(busy)
        busy.bind(f"\0{local.address(local.HOLD, f'a{served.name}')}")
        busy.listen(0)
        stack.enter_context(socket.socket(socket.AF_UNIX)).connect(busy.getsockname())
        found = running(local.HOLD)
        assert (served.name in found, f"a{served.name}" in found) == (True, False)


SQUATTER = """
import os, socket, sys
os.setgid({nobody})
os.setuid({nobody})
made = []
for address in sys.argv[1:]:
    line = socket.socket(socket.AF_UNIX)
    line.bind("\\0" + address)
    line.listen(0)
    made.append(line)
    if address != sys.argv[1]:
        made.append(socket.socket(socket.AF_UNIX))
        made[-1].connect("\\0" + address)
print("up", flush=True)
sys.stdin.read()
"""


@needs_root
@pytest.mark.usefixtures("own_names")
def test_another_user_who_has_the_name_is_nobody(pauses: Pauses) -> None:
    """Its socket is not asked, whether it accepts or its backlog is full; listing is not slow."""
    names = [new_name() for _ in range(20)]
    argv = [local.address(local.HOLD, name) for name in names]
    source = SQUATTER.format(nobody=NOBODY)
    with subprocess.Popen(
        [sys.executable, "-c", source, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdin
        assert process.stdout.readline() == b"up\n"
        assert connect(local.HOLD, names[0]) is None
        assert connect(local.HOLD, names[1], seconds=0.1) is None
        began = pauses.now
        assert not {*names} & {*running(local.HOLD)}
        assert pauses.now - began < 1.1 * local_client.LOOK
        with pytest.raises(OSError, match=re.escape("Address already in use")):
            local.listener(local.HOLD, names[0])
        process.stdin.close()
    assert process.returncode == 0
    with closing(local.listener(local.HOLD, names[0])):
        assert names[0] in running(local.HOLD)


@pytest.mark.usefixtures("own_names")
def test_names_that_make_lines_of_their_own_hide_nothing() -> None:
    """Any user can give a socket such a name: the kernel writes it into the table as it is."""
    made_up = f" @{local.address(local.HOLD, 'fake')}"
    whole = f"0: 00000002 00000000 00010000 0001 01 7{made_up}"
    with ExitStack() as stack:
        served = stack.enter_context(serving(VERBS, local.HOLD))
        for place, line in enumerate(
            (made_up, f"x{made_up}", f"0 0 0 zzz 0 0 0{made_up}", whole, f"{'9' * 50}{made_up}")
        ):
            for end in ("\n", "\r", "\x0b", "\x85"):
                stranger = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
                stranger.bind(f"\0{os.getpid()}.{place}{end}{line}"[:100])
                stranger.listen()
        assert running(local.HOLD) == [served.name]


def test_lines_of_the_table_are_ours_or_not() -> None:
    """Whatever is in them: what ours is made of, in any order, cut anywhere."""
    chance = random.Random(1)
    name = new_name()
    ours = f"ffff8881: 00000002 00000000 00010000 0001 01 7 @{local.address(local.JOB, name)}"
    words = [*ours.split(" "), "", " ", "\t", "00000000", "9" * 5000, "é", "-1", "@"]
    lines = [ours[: chance.randrange(len(ours))] for _ in range(300)]
    lines += [" ".join(chance.choices(words, k=chance.randrange(10))) for _ in range(5000)]
    assert all(name.startswith(one) for one in listening(lines, local.JOB))
    assert name in listening([*lines, ours], local.JOB)
    assert listening([ours.replace("00010000", "00000000")], local.JOB) == set()


FLOOD = """
import os, socket, sys
os.setgid({nobody})
os.setuid({nobody})
print("up", flush=True)
kept = []
while True:
    line = socket.socket(socket.AF_UNIX)
    line.setblocking(False)
    try:
        line.connect(chr(0) + sys.argv[1])
    except OSError:
        kept.clear()
    else:
        kept.append(line)
"""


@needs_root
def test_another_user_who_connects_all_the_time_does_not_keep_others_out() -> None:
    with serving(VERBS) as served:
        argv = [sys.executable, "-c", FLOOD.format(nobody=NOBODY)]
        argv.append(local.address(served.kind, served.name))
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stdout.readline() == b"up\n"
            try:
                for number in range(10):
                    client = connect(served.kind, served.name, HANG)
                    assert client is not None, number
                    with client:
                        assert client.ask({"do": "echo", "text": "x"}, seconds=HANG)["text"] == "x"
            finally:
                process.kill()
