"""One frame of a stack, and its owner: the user, Python or a library. Pure."""

from __future__ import annotations

import re

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PYTHON = re.compile(r"(\S+) \((.*):([0-9]+)\)", re.DOTALL)
_NATIVE = re.compile(r"(.*) \((.*?)(?::([0-9]+))?\)", re.DOTALL)
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hpp", ".rs", ".S")
_PACKAGES = re.compile(
    r".*/(?:site-packages|dist-packages|lib(?:64)?/python3[0-9.]*)/"
    r"|.*/(?=torch/(?:_[a-z]+|autograd|cuda|distributed|nn|optim|utils)[/.])"
)
_OTHERS = re.compile(r"<frozen |<string>|.*(?:^|/)launcher/node/")

LONGEST = 600
"""Maximum characters of a frame; C++ functions can have thousands in their names."""


class Frame(NamedTuple):
    """A frame.

    Attributes:
        function: the name, qualified if the reader of the stack knows that.
        file: the path of the file; for native code, the name of the library.
        line: the line; 0 for native code without a known source.
    """

    function: str
    file: str
    line: int

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.function.rpartition(".")[2]

    @property
    def native(self) -> bool:
        """True for a frame of C or C++ code."""
        return not self.line or self.file.endswith(_SOURCES)

    @property
    def user(self) -> bool:
        """True for a frame of the user's own code, judging by its path."""
        return not (self.native or _PACKAGES.match(self.file) or _OTHERS.match(self.file))

    @property
    def path(self) -> str:
        """The path of the file, of a library only from its package on."""
        return _PACKAGES.sub("", self.file)

    @property
    def place(self) -> str:
        """The name of the file and the line, such as `train.py:41`."""
        *folders, name = self.file.split("/")
        short = f"{folders[-1]}/{name}" if folders and name.startswith("__") else name
        return f"{short}:{self.line}" if self.line else short


def parsed(written: str) -> Frame:
    """Return a frame that is written as in `ThreadStack.frames`, of a very long one both ends."""
    if len(written) > LONGEST:
        written = f"{written[: LONGEST // 2]}...{written[-LONGEST // 2 :]}"
    match = _PYTHON.fullmatch(written) or _NATIVE.fullmatch(written)
    if match is None:
        return Frame(written, "", 0)
    return Frame(match[1], match[2], int(match[3] or 0))


def innermost(frames: Sequence[Frame]) -> tuple[Sequence[Frame], Frame | None]:
    """Return the frames inside the user's innermost one, and that frame, or None."""
    for at, frame in enumerate(frames):
        if frame.user:
            return frames[:at], frame
    return frames, None


def since_fork(frames: Iterable[Frame]) -> list[Frame]:
    """Return a stack without the frames outside the start of its thread, or of its fork."""
    own: list[Frame] = []
    for frame in frames:
        if frame.name == "_bootstrap" and frame.path in {
            "threading.py",
            "multiprocessing/process.py",
        }:
            break
        own.append(frame)
    return own
