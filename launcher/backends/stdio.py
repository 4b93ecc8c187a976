"""A session's standard input and output as a control line, after any output of a login shell."""

from __future__ import annotations

from contextlib import suppress

from ..control import frames
from ..control.stream import FrameStream, StreamClosed


class SessionStream(FrameStream):
    """A line whose first bytes may be noise: everything up to MAGIC is skipped.

    If dsrun is missing at the other end, that end requests the package before MAGIC, and gets it.
    A host does, and then a container there.

    Attributes:
        noise: the bytes before MAGIC, which explain why a session failed.
        spoke: whether a node launcher has answered, or asked for dsrun.
        answered: whether MAGIC has arrived.
    """

    def __init__(self, read_fd: int, write_fd: int, *, held: bool = False) -> None:
        """Serve a session; `held` holds frames back until the node launcher has answered.

        Otherwise a program that starts it, in a container, could take them.
        """
        super().__init__(read_fd, write_fd)
        self.noise = b""
        self.answered = self.spoke = False
        self._questions = 1 + held
        self._held: list[bytes] | None = [] if held else None

    def decode(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the frames that `data` completes, once MAGIC has been seen.

        Raises:
            StreamClosed: there is too much noise, the bytes are not frames, or the other end asked
                for dsrun and is gone.
        """
        if self.answered:
            return super().decode(data)
        self.noise += data
        self._look_for_question()
        before, magic, after = self.noise.partition(frames.MAGIC)
        if not magic:
            if len(self.noise) > frames.NOISE_LIMIT:
                raise StreamClosed("no node launcher answered: only other output was received")
            return []
        self.answered, self.spoke, self.noise = True, True, before
        for frame in self._held or ():
            self.send(frame)
        return super().decode(after)

    def send(self, frame: bytes) -> None:
        """Queue one packed frame; see `FrameStream.send`.

        Raises:
            StreamClosed: the other end is gone.
        """
        if self._held is None or self.answered:
            super().send(frame)
        else:
            self._held.append(frame)

    def close(self) -> None:
        """Close both descriptors; first read the last output of a session that has not answered."""
        if not self.answered and self.read_fd >= 0:
            with suppress(OSError):
                self.noise += self._read()
                self.answered = frames.MAGIC in self.noise
        super().close()

    def _look_for_question(self) -> None:
        """Send dsrun if the other end requests it."""
        before, question, after = self.noise.partition(frames.SEND_PACKAGE)
        if question and self._questions:
            from .package.contents import packed

            self._questions -= 1
            self.spoke, self.noise = True, before + after
            super().send(packed())
