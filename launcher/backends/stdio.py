"""A session's standard input and output as a control line, after any output of a login shell."""

from __future__ import annotations

from contextlib import suppress

from ..control import frames
from ..control.stream import FrameStream, StreamClosed


class SessionStream(FrameStream):
    """A line whose first bytes may be noise: everything up to MAGIC is skipped.

    If dsrun is missing at the other end, that end requests the package before MAGIC, and gets it.

    Attributes:
        noise: the bytes before MAGIC, which explain why a session failed.
        spoke: whether a node launcher has answered, or asked for dsrun.
        answered: whether MAGIC has arrived.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        super().__init__(read_fd, write_fd)
        self.noise = b""
        self.answered = self._asked = self.spoke = False

    def decode(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the frames that `data` completes, once MAGIC has been seen.

        Raises:
            StreamClosed: there is too much noise, the bytes are not frames, or the other end asked
                for dsrun and is gone.
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
        return super().decode(after)

    def close(self) -> None:
        """Close both descriptors; first read the last output of a session that has not answered."""
        if not self.answered and self.read_fd >= 0:
            with suppress(OSError):
                self.noise += self._read()
                self.answered = frames.MAGIC in self.noise
        super().close()

    def _look_for_question(self) -> None:
        """Send dsrun, once, if the other end requests it."""
        before, question, after = self.noise.partition(frames.SEND_PACKAGE)
        if question and not self._asked:
            from .package.contents import packed

            self._asked, self.spoke, self.noise = True, True, before + after
            self.send(packed())
