"""Frames, messages and proofs: what travels on a control line, byte for byte."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

import pytest

from dsrun.launcher.control import auth, frames, messages
from dsrun.launcher.specs.program import Program

# -- frames -------------------------------------------------------------------------------------


def test_frames_cut_anywhere_come_out_the_same() -> None:
    chance = random.Random(5)
    sent = [(chance.randrange(256), chance.randbytes(chance.choice([0, 1, 9]))) for _ in range(60)]
    stream = b"".join(frames.pack(kind, body) for kind, body in sent)
    for _ in range(200):
        decoder = frames.Decoder()
        got = []
        at = 0
        while at < len(stream):
            step = chance.randrange(1, 40)
            got += decoder.feed(stream[at : at + step])
            at += step
        assert got == sent


def test_a_frame_is_kind_length_body() -> None:
    assert frames.pack(7, b"ab") == b"\x07\x00\x00\x00\x02ab"
    assert frames.pack_json(1, {"a": [1, None], "b": "é"}) == (
        b'\x01\x00\x00\x00\x1f{"a":[1,null],"b":"\\u00e9"}'[:1]
        + len(b'{"a":[1,null],"b":"\\u00e9"}').to_bytes(4, "big")
        + b'{"a":[1,null],"b":"\\u00e9"}'
    )


def test_a_frame_above_the_limit_is_refused_before_it_has_come() -> None:
    decoder = frames.Decoder(limit=8)
    assert decoder.feed(frames.pack(1, b"12345678")) == [(1, b"12345678")]
    with pytest.raises(frames.BadFrame, match=r"^a frame of 9 bytes \(at most 8\)$"):
        decoder.feed(frames.pack(1, b"123456789")[:5])
    with pytest.raises(frames.BadFrame, match="a frame of 4294967295 bytes"):
        frames.Decoder().feed(b"\x01\xff\xff\xff\xff")


def test_output_frames() -> None:
    for rank, stream, data in [(0, 1, b""), (2**32 - 1, 2, b"\x00\n\xff")]:
        ((kind, body),) = frames.Decoder().feed(frames.pack_output(rank, stream, data))
        assert kind == frames.OUTPUT
        assert frames.unpack_output(body) == (rank, stream, data)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "short output frame"),
        (b"\0\0\0\0", "short output frame"),
        (b"\0\0\0\0\0", "no such stream: 0"),
        (b"\0\0\0\0\3x", "no such stream: 3"),
    ],
)
def test_bad_output_frames(body: bytes, message: str) -> None:
    with pytest.raises(frames.BadFrame, match=f"^{message}$"):
        frames.unpack_output(body)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"x"', b"null", b"\xff\xfe\xff", b"[" * 200_000, b"\x80\x04K\x01."]
)
def test_what_is_no_json_object(body: bytes) -> None:
    with pytest.raises(frames.BadFrame, match=r"^not (a )?JSON"):
        frames.unpack_json(body)


@pytest.mark.parametrize("body", [b"", b"soon", b"nan", b"inf", b"\xff", b"1 2"])
def test_a_beat_that_carries_no_clock(body: bytes) -> None:
    with pytest.raises(frames.BadFrame, match=r"^not a clock$"):
        frames.unpack_beat(body)


def test_a_beat_carries_the_very_clock() -> None:
    assert frames.Decoder().feed(frames.pack_beat(0.1 + 0.2)) == [
        (frames.BEAT, b"0.30000000000000004")
    ]
    assert frames.unpack_beat(b"0.30000000000000004") == 0.1 + 0.2


def test_kinds_are_all_different() -> None:
    kinds = [
        value
        for name, value in vars(frames).items()
        if name.isupper() and isinstance(value, int) and value < 256 and name != "VERSION"
    ]
    assert len(kinds) == len(set(kinds)) >= 19


# -- messages -----------------------------------------------------------------------------------

ODD = "a\udcff\udc80 é€😀\n\0'\"\\"

TASK = messages.Task(
    dsrun="1",
    job_id="j",
    host=ODD,
    program=Program(ODD, (ODD, "", "--x"), module=True, python=None),
    workdir=ODD,
    env={ODD: ODD, "A": ""},
    slots=(0, "GPU-a"),
    port=0,
    log_dir=ODD,
    lease=0.25,
)


@pytest.mark.parametrize(
    "message",
    [
        messages.Hello(
            dsrun="1",
            hostname="h",
            machine="m",
            python="/py",
            accelerator="cuda",
            devices=("0", "GPU-x"),
            slots=2,
            port=None,
            addresses=("10.0.0.1", "fd00::1"),
            problems=(ODD,),
            clock=12345.678901234,
            log_dir="/l",
        ),
        messages.Start(4, (0, "MIG-x"), 8, 1, 2, "10.0.0.1", 29500, 1 << 40),
        messages.Stop(15, 30.0),
        messages.Exit(3, 77, -9, True, 0.1 + 0.2, ODD),
        messages.Note(ODD),
        messages.Note("", 9),
        messages.Done(("pid 3",), {"0": [ODD, ""]}, "why", {"0": [ODD, ""]}, {"0": ODD}),
        messages.Done((), {}),
        auth.Claim("w0", "proof", "digest"),
    ],
)
def test_messages_come_back_as_they_were(message: NamedTuple) -> None:
    ((kind, body),) = frames.Decoder().feed(messages.pack(200, message))
    assert kind == 200
    shape: Any = type(message)
    back = messages.unpack(shape, body)
    assert back == message
    assert type(back) is type(message)


def test_a_task_comes_back_with_its_program() -> None:
    ((_, body),) = frames.Decoder().feed(messages.pack(frames.JOB, TASK))
    back = messages.unpack(messages.Task, body)
    program = Program(*back.program)
    assert program._replace(args=tuple(program.args)) == TASK.program
    assert back._replace(program=TASK.program) == TASK
    assert (
        messages.unpack(messages.Task, messages.pack(1, TASK._replace(slots=None))[5:]).slots
        is None
    )


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b'{"number":15}', "grace"),
        (b'{"number":15,"grace":1,"more":2}', "more"),
        (b"{}", "number"),
        (b"[]", "not a JSON object"),
    ],
)
def test_messages_with_other_fields_are_refused(body: bytes, match: str) -> None:
    with pytest.raises(frames.BadFrame, match=match):
        messages.unpack(messages.Stop, body)


KINDS = [
    (messages.Stop(15, 1.0), {"number": "15"}, "number: expected Signal"),
    (messages.Stop(15, 1.0), {"grace": None}, "grace: expected float"),
    (messages.Exit(0, 1, 0, False, 0.0), {"signalled": 1}, "signalled: expected bool"),
    (messages.Exit(0, 1, 0, False, 0.0), {"rank": 1.5}, "rank: expected Rank"),
    (messages.Note("x"), {"text": ["x"]}, "text: expected str"),
    (messages.Start(0, (0,), 1, 0, 1, "m", 1, 1), {"slots": [0.5]}, "slots: expected tuple"),
    (messages.Start(0, (0,), 1, 0, 1, "m", 1, 1), {"slots": 3}, "slots: expected tuple"),
    (messages.Done((), {}), {"left": [3]}, "left: expected tuple"),
    (messages.Done((), {}), {"tails": {"0": "x"}}, "tails: expected dict"),
    (messages.Done((), {}), {"tails": []}, "tails: expected dict"),
    (messages.Done((), {}), {"recorded": {"0": ["x"]}}, "recorded: expected dict"),
    (messages.Done((), {}), {"logs": {"0": 1}}, "logs: expected dict"),
    (TASK, {"env": {"A": 1}}, "env: expected dict"),
    (TASK, {"port": "1"}, "port: expected Port"),
    (TASK, {"program": ["x"]}, "program: expected Program"),
    (auth.Claim("a", "b"), {"proof": 3}, "proof: expected Name"),
]


@pytest.mark.parametrize(("message", "wrong", "fault"), KINDS)
def test_values_of_another_kind_are_refused(
    message: NamedTuple, wrong: dict[str, object], fault: str
) -> None:
    shape: Any = type(message)
    body = json.dumps({**message._asdict(), **wrong}).encode()
    with pytest.raises(frames.BadFrame, match=f"^{fault}"):
        messages.unpack(shape, body)


# -- proofs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (auth.announce("w0", "tok"), ("w0", "tok")),
        (f"w0: {auth.announce('w0', 'tok')}\r", ("w0", "tok")),
        (f"[1] {auth.announce('fe80::1', 'a-b_c')}", ("fe80::1", "a-b_c")),
        ("DSRUN-TOKEN w0", None),
        ("DSRUN-TOKEN w0 tok more", None),
        ("DSRUN w0 tok", None),
        ("", None),
    ],
)
def test_announcements(line: str, found: tuple[str, str] | None) -> None:
    assert auth.announced(line) == found


def test_tokens_are_long_different_and_fit_for_a_line() -> None:
    tokens = {auth.new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) >= 43 and token.split() == [token] for token in tokens)


def test_a_proof_is_of_secret_certificate_and_role() -> None:
    proof = auth.prove("s", "f", "node 1")
    # HMAC-SHA-256 (RFC 2104) of "dsrun node 1 f" under "s", by openssl.
    assert proof == "0336e1479f3eca482f829182ee509d807e8f2968894c991b16398d183e89f66b"
    others = [
        ("t", "f", "node 1"),
        ("s", "g", "node 1"),
        ("s", "f", "runner 1"),
        ("", "f", "node 1"),
    ]
    assert proof not in {auth.prove(*other) for other in others}
    assert auth.same(proof, auth.prove("s", "f", "node 1"))
    assert not auth.same(proof, proof[:-1])
    assert not auth.same(proof, "é")


@pytest.mark.parametrize("body", [b"", b"\0" * 7, b"\0" * 9])
def test_what_is_no_count(body: bytes) -> None:
    with pytest.raises(frames.BadFrame, match=r"^not a count$"):
        frames.unpack_count(body)
    assert frames.unpack_count(frames.pack_count(frames.TOOK, 1 << 40)[5:]) == 1 << 40


@pytest.mark.parametrize("body", [b"", b"\x0f\x0f"])
def test_what_is_no_signal(body: bytes) -> None:
    with pytest.raises(frames.BadFrame, match=r"^not a signal$"):
        frames.unpack_signal(body)
    assert frames.unpack_signal(b"\x0f") == 15


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"candidates": ["n1"]},
        {"candidates": "n1", "port": 1},
        {"candidates": ["n1"], "port": None},
        {"candidates": ["a\0b"], "port": 1},
        {"candidates": ["n1"], "port": 1 << 16},
    ],
)
def test_a_probe_of_nothing_that_can_be_reached(wrong: dict[str, object]) -> None:
    with pytest.raises(frames.BadFrame):
        messages.unpack(messages.Probe, json.dumps(wrong).encode())
