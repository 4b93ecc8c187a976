"""Frames: what travels on a control line, cut out of a byte stream.

A frame is one byte of kind, four bytes of length (network order) and the body. Control messages are
JSON objects; output and input are raw bytes behind a small fixed header. Nothing is ever unpickled.
"""

import json
import struct

MAGIC = b"\x00dsrun-line-1\x00"
"""A node launcher writes this first, so that what a login shell prints before it can be skipped."""

NOISE_LIMIT = 64 * 1024
"""Bytes that may come before MAGIC before the line is given up as not being a node launcher."""

FRAME_LIMIT = 64 * 1024 * 1024
"""Largest body in bytes; a job's whole environment and arguments travel in one frame."""

NODE_LIMIT = 4 * 1024 * 1024
"""Largest body that a node may send, in bytes: a worker's question has 1 MiB at most."""

AUTH_LIMIT = 4096
"""Largest body in bytes before the other end has shown who it is."""

MOST = 1 << 62
"""What no number in a message reaches, be it seconds, bytes or ranks."""

DIGITS = 20
"""Longest whole number in a message: 64 bits and a sign."""

# runner -> node
JOB = 1  # what will run, from where, with which environment
PROBE = 2  # which of these addresses of node 0 can you reach?
START = 3  # ranks, devices, master: go
STOP = 4  # signal the workers, give them a grace, kill, sweep
SIGNAL = 5  # pass one signal to every worker
CREDIT = 6  # so many more bytes of output may be sent
INPUT = 7  # bytes for rank 0's standard input; an empty body is its end
LEASE = 8  # b"hold": the runner is about to be suspended, its silence is not to be counted
END = 9  # the job is over: its exit code and its story
WELCOME = 10  # the runner in turn shows who it is (`--no_ssh`)
ROUND = 11  # an elastic job: your place in the next round
CHANGE = 12  # an elastic job: leave this round, there will be another
NOTICE = 13  # an elastic job: that will come soon
ANSWER = 14  # to a worker that has asked a shard queue; an empty one ends its line
# node -> runner
AUTH = 32
HELLO = 33
PROBED = 34
OUTPUT = 35
EXIT = 36
NOTE = 37
TOOK = 38  # so many bytes of INPUT were written
DONE = 39
JOIN = 41  # an elastic job: ready for the next round
BOUND = 40  # what the workers are bound to, now that they run
RANKS = 42  # torch's rendezvous has formed a round: which ranks of it are here
AGENT_FAILED = 43  # an elastic job: the agent on this node has failed, and why
ASK = 44  # a worker asks a shard queue; an empty one is the end of its line
STARTED = 45  # the workers here run: which process is which rank
FINISHED = 46  # an elastic job: all workers of a round on this node have ended with code 0
# both ways (LEASE as well: a node answers b"hold" with the same)
BEAT = 64

_HEAD = struct.Struct("!BI")
_OUTPUT = struct.Struct("!IB")
_ASK = struct.Struct("!III")
_ANSWER = struct.Struct("!I")
_COUNT = struct.Struct("!Q")


class BadFrame(Exception):
    """The stream is not a control line, or its other end has gone wrong."""


def pack(kind: int, body: bytes = b"") -> bytes:
    """Return one frame ready to be written."""
    return _HEAD.pack(kind, len(body)) + body


def pack_json(kind: int, message: dict[str, object]) -> bytes:
    """Return a frame that carries a JSON object; lone surrogates (undecodable bytes) survive."""
    return pack(kind, json.dumps(message, separators=(",", ":")).encode())


def unpack_json(body: bytes) -> dict[str, object]:
    """Return the JSON object in a frame's body.

    Raises:
        BadFrame: the body is not a JSON object.
    """
    try:
        message = _JSON.decode(body.decode())
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise BadFrame("not a JSON object")
    return message


def _whole(digits: str) -> int:
    if len(digits) > DIGITS:
        raise BadFrame(f"a number of {len(digits)} digits")
    return int(digits)


def _no_number(name: str) -> float:
    raise BadFrame(f"{name} is no number")


_JSON = json.JSONDecoder(parse_int=_whole, parse_constant=_no_number)
"""Takes neither Infinity and NaN, which are no JSON, nor numbers that take minutes to read."""


def pack_output(rank: int, stream: int, data: bytes) -> bytes:
    """Return an OUTPUT frame: bytes that `rank` wrote to its stream 1 (stdout) or 2 (stderr)."""
    return _HEAD.pack(OUTPUT, _OUTPUT.size + len(data)) + _OUTPUT.pack(rank, stream) + data


def unpack_output(body: bytes) -> tuple[int, int, bytes]:
    """Return (rank, stream, data) of an OUTPUT frame's body.

    Raises:
        BadFrame: the body is too short or names no such stream.
    """
    if len(body) < _OUTPUT.size:
        raise BadFrame("short output frame")
    rank, stream = _OUTPUT.unpack_from(body)
    if stream not in {1, 2}:
        raise BadFrame(f"no such stream: {stream}")
    return rank, stream, body[_OUTPUT.size :]


def pack_ask(rank: int, generation: int, line: int, text: bytes) -> bytes:
    """Return an ASK frame: a request by `rank` of a round on one of its node's lines."""
    return pack(ASK, _ASK.pack(rank, generation, line) + text)


def unpack_ask(body: bytes) -> tuple[int, int, int, bytes]:
    """Return (rank, generation, line, request) of an ASK frame's body.

    Raises:
        BadFrame: the body is too short.
    """
    if len(body) < _ASK.size:
        raise BadFrame("short question")
    rank, generation, line = _ASK.unpack_from(body)
    return rank, generation, line, body[_ASK.size :]


def pack_answer(line: int, text: bytes) -> bytes:
    """Return an ANSWER frame for one of a node's lines."""
    return pack(ANSWER, _ANSWER.pack(line) + text)


def unpack_answer(body: bytes) -> tuple[int, bytes]:
    """Return (line, answer) of an ANSWER frame's body.

    Raises:
        BadFrame: the body is too short.
    """
    if len(body) < _ANSWER.size:
        raise BadFrame("short answer")
    return _ANSWER.unpack_from(body)[0], body[_ANSWER.size :]


def pack_count(kind: int, count: int) -> bytes:
    """Return a CREDIT or TOOK frame: so many bytes."""
    return pack(kind, _COUNT.pack(count))


def unpack_count(body: bytes) -> int:
    """Return the number of bytes in a CREDIT or TOOK frame's body.

    Raises:
        BadFrame: the body has another length.
    """
    if len(body) != _COUNT.size:
        raise BadFrame("not a count")
    count: int = _COUNT.unpack(body)[0]
    return count


def unpack_signal(body: bytes) -> int:
    """Return the number in a SIGNAL frame's body.

    Raises:
        BadFrame: the body is not one byte.
    """
    if len(body) != 1:
        raise BadFrame("not a signal")
    return body[0]


def pack_beat(clock: float) -> bytes:
    """Return a node's BEAT, which carries its monotonic clock in seconds."""
    return pack(BEAT, repr(clock).encode())


def unpack_beat(body: bytes) -> float:
    """Return the clock of a node's BEAT.

    Raises:
        BadFrame: the body is no such number.
    """
    try:
        clock = float(body)
    except ValueError:
        raise BadFrame("not a clock") from None
    if not abs(clock) < MOST:
        raise BadFrame("not a clock")
    return clock


class Decoder:
    """Cuts frames out of bytes as they arrive.

    Attributes:
        limit: largest body accepted, in bytes.
    """

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self.limit = limit
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Take bytes in; return the (kind, body) pairs that are now complete.

        Raises:
            BadFrame: a frame is larger than the limit.
        """
        self._data += data
        frames = []
        at = 0
        while len(self._data) - at >= _HEAD.size:
            kind, size = _HEAD.unpack_from(self._data, at)
            if size > self.limit:
                raise BadFrame(f"a frame of {size} bytes (at most {self.limit})")
            end = at + _HEAD.size + size
            if len(self._data) < end:
                break
            frames.append((kind, bytes(self._data[at + _HEAD.size : end])))
            at = end
        if at:
            del self._data[:at]
        return frames
