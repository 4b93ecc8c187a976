"""The standard streams of a world's runner: who feeds its input, and who reads its output."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dsrun.launcher.common import system

from .kernel.descriptors import PipeEnd, pipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from .kernel import Host, Kernel
    from .kernel.descriptors import Description
    from .scenario import StreamSpec

INPUT, OUTPUT, ERRORS = "/work/in", "/work/out", "/work/err"

FILES = (INPUT, OUTPUT, ERRORS)


class Streams:
    """Files, or pipes to other processes, in place of a terminal."""

    def __init__(self, kernel: Kernel, host: Host, spec: StreamSpec) -> None:
        """Make the files, and start the processes."""
        self._kernel, self._host, self._spec = kernel, host, spec
        self._output: PipeEnd | None = None
        self.lines = [f"input {n} ".ljust(spec.length, "i") for n in range(spec.lines)]
        text = "".join(f"{line}\n" for line in self.lines).encode()
        for path, data in ((INPUT, b"" if spec.fed else text), (OUTPUT, b""), (ERRORS, b"")):
            host.files.put(path, data, mode=0o666)

    def given(self) -> dict[int, Description]:
        """Return the descriptors that are no files."""
        found: dict[int, Description] = {}
        if self._spec.fed:
            found[0], end = self._pipe()
            self._spawn(self._feed, 1, end, "feeder")
        if self._spec.piped:
            self._output, found[1] = self._pipe()
            self._spawn(self._copy, 0, self._output, "reader")
        return found

    def open_others(self) -> None:
        """Open the files, as the runner."""
        wanted = ((0, INPUT, os.O_RDONLY), (1, OUTPUT, os.O_WRONLY), (2, ERRORS, os.O_WRONLY))
        if not self._spec.lines:
            wanted = ((0, os.devnull, os.O_RDONLY), *wanted[1:])
        piped = {fd for fd, given in ((0, self._spec.fed), (1, self._spec.piped)) if given}
        for fd, path, flags in wanted:
            if fd not in piped:
                opened = system.open_fd(path, flags | os.O_APPEND)
                if opened != fd:
                    system.dup2(opened, fd)
                    system.close(opened)

    def unread(self) -> bytes:
        """Return what the reader of the output has not read yet."""
        return bytes(self._output.buffer.data) if self._output is not None else b""

    def _pipe(self) -> tuple[PipeEnd, PipeEnd]:
        return pipe(self._kernel.descriptors.inode(), 0)

    def _spawn(self, run: Callable[[], int], fd: int, end: PipeEnd, role: str) -> None:
        self._kernel.spawn(self._host, run, [role.encode()], fds={fd: end}, role=role, name=role)

    def _feed(self) -> int:
        for line in self.lines:
            system.sleep(self._spec.pause)
            data = f"{line}\n".encode()
            while data:
                try:
                    data = data[system.write(1, data) :]
                except BrokenPipeError:
                    return 1
        return 0

    def _copy(self) -> int:
        """Read to the end; what was read is in the file at once, also if the world stops here."""
        file = self._host.files.get(OUTPUT)
        assert file is not None
        while data := system.read(0, 1 << 16):
            file.data += data
        return 0
