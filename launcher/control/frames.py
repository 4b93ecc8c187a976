"""Frames, the units of a control line, and their decoder.

A frame is one byte of kind, four bytes of length (network order) and a body. Control messages are
JSON objects; output and input are raw bytes after a small fixed header. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import struct

from ..common import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC = b"\x00dsrun-line-1\x00"
"""The first bytes from a node launcher, which end the output of a login shell before them."""

SEND_PACKAGE = b"\x00dsrun-send-1\x00"
"""The bytes sent before MAGIC by the command of a session if dsrun is missing there."""

NOISE_LIMIT = 64 * 1024
"""Most bytes before MAGIC; after more, the other end is taken not to be a node launcher."""

FRAME_LIMIT = 64 * 1024 * 1024
"""Largest body in bytes; a job's whole environment and arguments travel in one frame."""

NODE_LIMIT = 4 * 1024 * 1024
"""Largest body that a node may send, in bytes; a worker's request has at most 1 MiB."""

AUTH_LIMIT = 4096
"""Largest body in bytes before the other end is authenticated."""

MOST = 1 << 62
"""Limit of every number in a message, such as seconds, bytes or ranks."""

DIGITS = text.DIGITS
"""Digits of the longest integer in a message: 64 bits and a sign."""

# runner -> node
JOB = 1  # prepare this program: folder, environment, limits
PROBE = 2  # report which of these addresses of node 0 can be reached
START = 3  # start the workers: ranks, devices, master
STOP = 4  # stop the workers with a signal, kill them after the grace, end the rest of the job
SIGNAL = 5  # pass this signal on to every worker
CREDIT = 6  # this many more bytes of output may be sent
INPUT = 7  # bytes for rank 0's standard input; an empty body is its end
SUSPEND = 8  # b"hold": expect no heartbeats, the runner is about to be suspended; b"count": again
END = 9  # the job is over: its exit code and its report
WELCOME = 10  # the runner's own proof of the shared secret (`--no_ssh`)
ROUND = 11  # an elastic job: this node's place in the next round
LEAVE_ROUND = 12  # an elastic job: stop the workers of this round, another one follows
CHANGE_SOON = 13  # an elastic job: a LEAVE_ROUND follows soon
SHARD_ANSWER = 14  # the answer of a shard queue to a worker; an empty one closes its connection
LANE = 15  # bytes for a further node launcher on this node; an empty body closes its line
EXEC = 16  # start this command, beside other work
EXEC_INPUT = 17  # bytes for a command's standard input; an empty body is its end
EXEC_STOP = 18  # signal a command, and kill its remaining processes soon after
QUESTION = 19  # answer a question about this machine, beside other work (`control/questions`)
EXEC_CREDIT = 21  # this many more bytes of a command's output may be sent
REACH = 23  # dial other nodes; variables for workers that are started from now on
PACKAGE = 24  # dsrun itself, for a node without it
PEERS = 25  # a job of several roles: the places of the workers of each role
PORTS_ASK = 26  # a role: report when its workers listen on these ports, and no other user does
LEASE = 27  # expect the runner's heartbeats from now on, even before a JOB, and send heartbeats
OPEN_LANE = 28  # start a further node launcher in a container
# node -> runner
AUTH = 32
HELLO = 33
PROBED = 34
OUTPUT = 35
EXIT = 36
NOTE = 37
INPUT_ACK = 38  # this many bytes of INPUT were written to rank 0
DONE = 39  # nothing of the job is left on this node
BINDINGS = 40  # the bindings of the running workers
READY = 41  # an elastic job: ready for the next round
RANKS = 42  # torch's rendezvous has formed a round: the ranks on this node
AGENT_FAILED = 43  # an elastic job: the agent on this node has failed, and why
SHARD_REQUEST = 44  # a worker's request to a shard queue; an empty one: its connection has ended
STARTED = 45  # the workers on this node are running: ranks and pids
FINISHED = 46  # an elastic job: all workers of a round on this node have ended with code 0
FROM_LANE = 47  # bytes from a further node launcher; an empty body: its line has ended
EXEC_OUTPUT = 48  # output of a command
EXEC_EXIT = 49  # a command has ended, and no process of the command is left
EXEC_TOOK = 50  # this many bytes of EXEC_INPUT were written to a command
REPLY = 51  # the answer to a QUESTION
LANE_ENDED = 53  # the process of a further node launcher has ended, and why
REACHED = 55  # the nodes of REACH that have answered
PACKAGE_ASK = 56  # asks for PACKAGE, before AUTH: its hash
ACTIVITY = 57  # activity of the workers since the start: CPU time, input and output
WAITS = 58  # the reason why the checks of a JOB wait, before HELLO
OPENED = 59  # the answer to START: dsrun no longer listens on the master port
PORTS = 60  # the answer to PORTS_ASK
LANE_SAID = 61  # the output of a further node launcher's container before that answers
# both ways (SUSPEND, too: a node answers b"hold" with b"hold")
BEAT = 64
# local control: a command on this machine <-> a runner or a hold
REQUEST = 70  # {"do": verb, ...}; may carry descriptors
ANSWER = 71  # {"ok": true, ...}, or {"ok": false, "error": text, "code": exit code}
EVENT = 72  # {"event": type, ...}
CHUNK = 73  # raw bytes, whose meaning depends on the verb

TO_ROUNDS = ROUND, LEAVE_ROUND, CHANGE_SOON
TO_RUN = (PROBE, REACH, CREDIT, INPUT, SHARD_ANSWER, PORTS_ASK, *TO_ROUNDS)
"""Frames that a node's run handles itself; the first name has those for its rounds."""

TO_SIDE_SERVICES = OPEN_LANE, LANE, EXEC, EXEC_INPUT, EXEC_STOP, EXEC_CREDIT
"""Frames for services that run beside a node's runs."""

_HEAD = struct.Struct("!BI")
_OUTPUT = struct.Struct("!IB")
_SHARD_REQUEST = struct.Struct("!III")
_ANSWER = struct.Struct("!I")
_COUNT = struct.Struct("!Q")
_ID = struct.Struct("!I")


class BadFrame(Exception):
    """The bytes are not a frame, or a frame is invalid here."""


def pack(kind: int, body: bytes = b"") -> bytes:
    """Return one frame ready to be written."""
    return _HEAD.pack(kind, len(body)) + body


def pack_json(kind: int, message: dict[str, object]) -> bytes:
    """Return a frame that carries a JSON object; lone surrogates (undecodable bytes) survive."""
    return pack(kind, json_line(message))


def json_line(message: dict[str, object]) -> bytes:
    """Return a JSON object as one line; a set becomes a list."""
    return json.dumps(message, separators=(",", ":"), default=_sorted).encode()


def _sorted(value: object) -> list[object]:
    if not isinstance(value, frozenset):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return sorted(value)


def unpack_json(body: bytes) -> dict[str, object]:
    """Return the JSON object in a frame's body.

    Raises:
        BadFrame: the body is not a JSON object.
    """
    try:
        message = text.read_json(body)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadFrame(f"not JSON: {error}") from None
    except ValueError as error:
        raise BadFrame(f"{error}") from None
    if not isinstance(message, dict):
        raise BadFrame("not a JSON object")
    return message


def pack_output(rank: int, stream: int, data: bytes) -> bytes:
    """Return an OUTPUT frame: bytes that `rank` wrote to its stream 1 (stdout), 2 (stderr) or 3.

    Stream 3 has the report of a worker that calls a function; only the user's program unpickles it.
    """
    return _HEAD.pack(OUTPUT, _OUTPUT.size + len(data)) + _OUTPUT.pack(rank, stream) + data


def output_body(place: int, stream: int, data: bytes) -> bytes:
    """Return the body of an OUTPUT frame, a chunk of local control; `unpack_output` reads it."""
    return _OUTPUT.pack(place, stream) + data


def unpack_output(body: bytes) -> tuple[int, int, bytes]:
    """Return (rank, stream, data) of an OUTPUT frame's body.

    Raises:
        BadFrame: the body is too short, or the stream is unknown.
    """
    if len(body) < _OUTPUT.size:
        raise BadFrame("OUTPUT is too short")
    rank, stream = _OUTPUT.unpack_from(body)
    if stream not in {1, 2, 3}:
        raise BadFrame(f"unknown stream {stream}")
    return rank, stream, body[_OUTPUT.size :]


def pack_shard_request(rank: int, generation: int, line: int, text: bytes) -> bytes:
    """Return a SHARD_REQUEST frame, sent by `rank` of a round on a connection of its node."""
    return pack(SHARD_REQUEST, _SHARD_REQUEST.pack(rank, generation, line) + text)


def unpack_shard_request(body: bytes) -> tuple[int, int, int, bytes]:
    """Return (rank, generation, line, request) of a SHARD_REQUEST frame's body.

    Raises:
        BadFrame: the body is too short.
    """
    if len(body) < _SHARD_REQUEST.size:
        raise BadFrame("SHARD_REQUEST is too short")
    rank, generation, line = _SHARD_REQUEST.unpack_from(body)
    return rank, generation, line, body[_SHARD_REQUEST.size :]


def pack_shard_answer(line: int, text: bytes) -> bytes:
    """Return a SHARD_ANSWER frame for one of a node's connections."""
    return pack(SHARD_ANSWER, _ANSWER.pack(line) + text)


def unpack_shard_answer(body: bytes) -> tuple[int, bytes]:
    """Return (line, answer) of a SHARD_ANSWER frame's body.

    Raises:
        BadFrame: the body is too short.
    """
    if len(body) < _ANSWER.size:
        raise BadFrame("SHARD_ANSWER is too short")
    return _ANSWER.unpack_from(body)[0], body[_ANSWER.size :]


def pack_credit(kind: int, count: int) -> bytes:
    """Return a CREDIT or INPUT_ACK frame for this many bytes."""
    return pack(kind, _COUNT.pack(count))


def unpack_credit(body: bytes) -> int:
    """Return the number of bytes in a CREDIT or INPUT_ACK frame's body.

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


def pack_numbered(kind: int, number: int, data: bytes = b"") -> bytes:
    """Return a frame with bytes of the lane, or of the command, that has this number."""
    return _HEAD.pack(kind, _ID.size + len(data)) + _ID.pack(number) + data


def unpack_numbered(body: bytes) -> tuple[int, bytes]:
    """Return (number, bytes) of the body of a frame from `pack_numbered`.

    Raises:
        BadFrame: the body is too short.
    """
    if len(body) < _ID.size:
        raise BadFrame("the number is missing")
    return _ID.unpack_from(body)[0], body[_ID.size :]


def unpack_exec_output(body: bytes) -> tuple[int, int, bytes]:
    """Return (command, stream, data) of an EXEC_OUTPUT frame's body.

    Raises:
        BadFrame: the body has no data, or the stream is unknown.
    """
    number, rest = unpack_numbered(body)
    if len(rest) < 2 or rest[0] not in {1, 2}:
        raise BadFrame("not a command's output")
    return number, rest[0], rest[1:]


def pack_exec_count(kind: int, number: int, count: int) -> bytes:
    """Return an EXEC_CREDIT or EXEC_TOOK frame: this many bytes of a command's streams."""
    return pack_numbered(kind, number, _COUNT.pack(count))


def unpack_exec_count(body: bytes) -> tuple[int, int]:
    """Return (command, count) of an EXEC_CREDIT or EXEC_TOOK frame's body.

    Raises:
        BadFrame: the body has another length.
    """
    number, rest = unpack_numbered(body)
    return number, unpack_credit(rest)


def unpack_exec_stop(body: bytes) -> tuple[int, int]:
    """Return (command, signal) of an EXEC_STOP frame's body.

    Raises:
        BadFrame: the body has another length.
    """
    number, rest = unpack_numbered(body)
    return number, unpack_signal(rest)


def pack_beat(clock: float) -> bytes:
    """Return a node's BEAT, which carries its monotonic clock in seconds."""
    return pack(BEAT, repr(clock).encode())


def unpack_beat(body: bytes) -> float:
    """Return the clock of a node's BEAT.

    Raises:
        BadFrame: the body is not a valid number.
    """
    try:
        clock = float(body)
    except ValueError:
        raise BadFrame("not a clock reading") from None
    if not abs(clock) < MOST:
        raise BadFrame("not a clock reading")
    return clock


def read_one(read: Callable[[int], bytes]) -> tuple[int, bytes]:
    """Return the (kind, body) of one frame, without reading beyond its end.

    Args:
        read: returns the requested number of bytes, or fewer at the end.

    Raises:
        BadFrame: the frame is incomplete, or larger than the limit.
    """
    head = read(_HEAD.size)
    if len(head) < _HEAD.size or (size := int(_HEAD.unpack(head)[1])) > FRAME_LIMIT:
        raise BadFrame("not the beginning of a frame")
    body = read(size)
    if len(body) < size:
        raise BadFrame("not a whole frame")
    return head[0], body


class Decoder:
    """Splits a stream of bytes into frames.

    Attributes:
        limit: largest body accepted, in bytes.
    """

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self.limit = limit
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Add bytes; return the (kind, body) pairs that are now complete.

        Raises:
            BadFrame: a frame is larger than the limit.
        """
        self._data += data
        frames = []
        at = 0
        while len(self._data) - at >= _HEAD.size:
            kind, size = _HEAD.unpack_from(self._data, at)
            if size > self.limit:
                raise BadFrame(f"a frame of {size} bytes (limit {self.limit})")
            end = at + _HEAD.size + size
            if len(self._data) < end:
                break
            frames.append((kind, bytes(self._data[at + _HEAD.size : end])))
            at = end
        if at:
            del self._data[:at]
        return frames
