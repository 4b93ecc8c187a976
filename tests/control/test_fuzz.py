"""Whatever arrives on a control line: frames and messages, or one clean error."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import (
    auth,
    command_messages,
    frames,
    job_messages,
    messages,
    questions,
)
from dsrun.launcher.control.frames import BadFrame, Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 20_000

USAGE, END_JOB, ENDED_JOB = 200, 201, 202
"""Stand for frames with what is in a QUESTION or a REPLY."""

SHAPES: dict[int, Any] = {
    frames.START: messages.Start,
    frames.STOP: messages.Stop,
    frames.HELLO: messages.Hello,
    frames.EXIT: messages.WorkerExit,
    frames.NOTE: messages.Note,
    frames.DONE: messages.Done,
    frames.AUTH: auth.Credentials,
    frames.EXEC: command_messages.ExecCommand,
    frames.EXEC_EXIT: command_messages.CommandExit,
    frames.LANE_ENDED: command_messages.LaneEnd,
    frames.OPEN_LANE: command_messages.OpenLane,
    frames.QUESTION: questions.QuestionMessage,
    frames.REPLY: questions.ReplyMessage,
    USAGE: job_messages.Usage,
    END_JOB: job_messages.EndJob,
    ENDED_JOB: job_messages.EndedJob,
}

NUMBERED: dict[int, Any] = {
    frames.LANE: frames.unpack_numbered,
    frames.FROM_LANE: frames.unpack_numbered,
    frames.LANE_SAID: frames.unpack_numbered,
    frames.EXEC_INPUT: frames.unpack_numbered,
    frames.EXEC_STOP: frames.unpack_exec_stop,
    frames.EXEC_CREDIT: frames.unpack_exec_count,
    frames.EXEC_TOOK: frames.unpack_exec_count,
    frames.EXEC_OUTPUT: frames.unpack_exec_output,
}

SAMPLES = (
    messages.pack(frames.START, messages.Start(0, (0, "GPU-1"), 4, 1, 2, "n1", 29500, 1 << 20)),
    messages.pack(frames.STOP, messages.Stop(15, 30.0)),
    messages.pack(
        frames.HELLO,
        messages.Hello("0.1", "n1", "m", "3.11", "cuda", ("0",), 1, 4, ("10.0.0.1",), ("no",), 1.5),
    ),
    messages.pack(frames.EXIT, messages.WorkerExit(3, 17, -9, False, 1.25, "é ☃ \udcff")),
    messages.pack(frames.NOTE, messages.Note("left over", 9)),
    messages.pack(frames.DONE, messages.Done(("pid 7",), {"0": ["out", "err"]})),
    messages.pack(frames.AUTH, auth.Credentials("n1", "proof")),
    messages.pack(
        USAGE,
        job_messages.Usage(
            *(1.5, 8, 0.25, 1 << 34, 1 << 33),
            (job_messages.RankUsage(0, 4000, "R", 1.5, 1 << 30, 2),),
            (job_messages.DeviceUsage(0, "GPU-1", None, 1 << 30, 1 << 36),),
        ),
    ),
    messages.pack(END_JOB, job_messages.EndJob("20261122-101112-abcdef", 15, 30.0)),
    messages.pack(ENDED_JOB, job_messages.EndedJob(("pid 7 (python)",), ())),
    messages.pack(
        frames.EXEC,
        command_messages.ExecCommand(7, ("a", "é \udcff"), {"A": "1"}, "/w", True, 0.5, 1, 15.0),
    ),
    questions.pack_question(7, "stacks", job_messages.EndJob("j", 15, 0.5)),
    questions.pack_reply(7, "end_job", job_messages.EndedJob(("pid 7",), ())),
    questions.pack_more(7, "stacks", 2.5),
    messages.pack(frames.EXEC_EXIT, command_messages.CommandExit(7, -9, "it took too long")),
    messages.pack(frames.LANE_ENDED, command_messages.LaneEnd(3, 69, "killed")),
    messages.pack(frames.OPEN_LANE, command_messages.OpenLane(1, ("--program=container", "e30="))),
    frames.pack_numbered(frames.LANE, 1, b"bytes"),
    frames.pack_numbered(frames.FROM_LANE, 1),
    frames.pack_numbered(frames.EXEC_INPUT, 7, b"input"),
    frames.pack_numbered(frames.EXEC_STOP, 7, b"\x0f"),
    frames.pack_exec_count(frames.EXEC_CREDIT, 7, 1 << 16),
    frames.pack_exec_count(frames.EXEC_TOOK, 7, 1 << 16),
    frames.pack_numbered(frames.EXEC_OUTPUT, 7, b"\x01text"),
    frames.pack_output(7, 1, b"hello\n\xff\x00"),
    frames.pack(frames.BEAT, b"1.5"),
)

MESSAGES = [sample for sample in SAMPLES if sample[0] in SHAPES]

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1 << 70, 1e308, float("inf"), "", "x" * 5000, "\0", "\ud800"),
    *([], [[]], {}, {"a": []}, ["x", 1, None], [[1] * 50] * 50),
)


def mutations(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Ever new damage to these bytes."""
    while True:
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(damaged) + 1)
            damage = chance.randrange(4)
            if damage == 0:
                damaged[at:at] = chance.randbytes(chance.randint(1, 9))
            elif damage == 1:
                del damaged[at : at + chance.randint(1, 9)]
            elif damage == 2 and damaged:
                damaged[at % len(damaged)] ^= 1 << chance.randrange(8)
            else:
                damaged[at:at] = damaged[: chance.randint(0, len(damaged))]
        yield bytes(damaged)


def understand(decoder: Decoder, data: bytes) -> int:
    """Take bytes in as a line's reader does; how many frames were understood."""
    understood = 0
    for kind, body in decoder.feed(data):
        if kind == frames.OUTPUT:
            rank, stream, _ = frames.unpack_output(body)
            assert (rank >= 0, stream in {1, 2, 3}) == (True, True)
        elif kind in SHAPES:
            message = messages.unpack(SHAPES[kind], body)
            assert isinstance(message, SHAPES[kind])
        elif kind in NUMBERED:
            assert NUMBERED[kind](body)[0] >= 0
        understood += 1
    return understood


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: str(sample[0]))
def test_a_sample_is_understood_whole_and_in_pieces(sample: bytes) -> None:
    assert understand(Decoder(), sample * 3) == 3
    decoder = Decoder()
    assert sum(understand(decoder, sample[i : i + 1]) for i in range(len(sample))) == 1


@pytest.mark.parametrize("seed", range(5))
def test_damaged_frames_are_understood_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    streams = [mutations(sample, chance) for sample in SAMPLES]
    outcomes = {"understood": 0, "refused": 0}
    for _ in range(ROUNDS):
        try:
            understand(Decoder(4096), next(chance.choice(streams)))
            outcomes["understood"] += 1
        except BadFrame:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > ROUNDS // 50, outcomes


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_understood_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    refused = 0
    for _ in range(ROUNDS // 5):
        try:
            understand(Decoder(4096), chance.randbytes(chance.randint(0, 300)))
        except BadFrame:
            refused += 1
    assert refused > ROUNDS // 10


def changed(value: Any, other: Any) -> Iterator[Any]:
    """The JSON value with something else put in each of its places in turn."""
    yield other
    if isinstance(value, dict):
        for name, one in value.items():
            yield from ({**value, name: new} for new in changed(one, other))
    if isinstance(value, list):
        for at, one in enumerate(value):
            yield from ([*value[:at], new, *value[at + 1 :]] for new in changed(one, other))


@pytest.mark.parametrize("sample", MESSAGES, ids=lambda sample: str(sample[0]))
def test_fields_of_a_wrong_kind_are_refused(sample: bytes) -> None:
    ((kind, body),) = Decoder().feed(sample)
    whole = json.loads(body)
    shape = SHAPES[kind]
    wrong: tuple[Any, ...] = (None, [[]], {"a": 1})
    pairs = [(n, o) for n, one in whole.items() for o in wrong if type(o) is not type(one)]
    pairs = [pair for pair in pairs if pair != ("port", None)]  # a node that reserved none
    for name, other in pairs:
        with pytest.raises(BadFrame):
            messages.unpack(shape, json.dumps({**whole, name: other}).encode())
    assert len(pairs) >= 2 * len(whole)


@pytest.mark.parametrize("sample", MESSAGES, ids=lambda sample: str(sample[0]))
def test_odd_values_anywhere_are_understood_or_refused(sample: bytes) -> None:
    ((kind, body),) = Decoder().feed(sample)
    whole = json.loads(body)
    refused = 0
    for value in (value for odd in ODD for value in changed(whole, odd)):
        try:
            messages.unpack(SHAPES[kind], json.dumps(value).encode())
        except BadFrame:
            refused += 1
    assert refused > len(ODD) // 2


@pytest.mark.parametrize("sample", MESSAGES, ids=lambda sample: str(sample[0]))
def test_fields_that_are_missing_or_unknown_are_refused(sample: bytes) -> None:
    ((kind, body),) = Decoder().feed(sample)
    whole = json.loads(body)
    shape = SHAPES[kind]
    for name in shape.__annotations__.keys() - shape._field_defaults.keys():
        without = {field: value for field, value in whole.items() if field != name}
        with pytest.raises(BadFrame):
            messages.unpack(shape, json.dumps(without).encode())
    with pytest.raises(BadFrame):
        messages.unpack(shape, json.dumps({**whole, "unknown": 1}).encode())


@pytest.mark.parametrize("size", [4097, 1 << 20, (1 << 32) - 1])
def test_a_frame_above_the_limit_is_refused_by_its_head(size: int) -> None:
    head = bytes([frames.AUTH]) + size.to_bytes(4, "big")
    with pytest.raises(BadFrame):
        Decoder(4096).feed(head)


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"1", b"null", b"\xff", b""])
def test_bodies_that_are_no_objects(body: bytes) -> None:
    with pytest.raises(BadFrame):
        frames.unpack_json(body)


@pytest.mark.parametrize("body", [b"", b"\0\0\0\0", b"\0\0\0\0\0", b"\0\0\0\0\4x"])
def test_output_of_no_stream(body: bytes) -> None:
    with pytest.raises(BadFrame):
        frames.unpack_output(body)


@pytest.mark.parametrize("digits", [b"9" * 5000, b"-" + b"9" * 5000])
def test_a_number_too_long_to_read(digits: bytes) -> None:
    with pytest.raises(BadFrame):
        messages.unpack(messages.Stop, b'{"number": ' + digits + b', "grace": 1}')
