"""epoll and poll objects."""

from __future__ import annotations

import errno
import os
import select
from typing import TYPE_CHECKING

from .descriptors import ERR, HUP, IN, OUT, Description
from .process import error

if TYPE_CHECKING:
    from types import TracebackType

    from .kernel import Kernel


class Entry:
    """One descriptor in an epoll."""

    __slots__ = ("description", "fd", "instance", "mask")

    def __init__(
        self, instance: EpollInstance, fd: int, description: Description, mask: int
    ) -> None:
        self.instance = instance
        self.fd = fd
        self.description = description
        self.mask = mask

    def ready(self) -> int:
        """Return the events that are asked for and there."""
        return self.description.events() & (self.mask | ERR | HUP)

    def notify(self) -> None:
        """Note that it may be ready."""
        instance = self.instance
        if self not in instance.candidates and self.ready():
            instance.candidates[self] = None
            instance.changed()

    def remove(self) -> None:
        """Forget it."""
        del self.instance.all[self.fd, self.description]
        self.instance.candidates.pop(self, None)
        self.description.entries.pop(self, None)


class EpollInstance(Description):
    """What an epoll descriptor refers to."""

    kind = "anon_inode"
    mode = 0o600

    def __init__(self, inode: int) -> None:
        super().__init__(inode, os.O_RDWR)
        self.all: dict[tuple[int, Description], Entry] = {}
        self.candidates: dict[Entry, None] = {}

    def closed(self) -> None:
        """Forget all."""
        for entry in [*self.all.values()]:
            entry.remove()

    def events(self) -> int:
        """Return whether something is ready."""
        return IN if any(entry.ready() for entry in self.candidates) else 0

    def link(self) -> str:
        """Return its kind."""
        return "anon_inode:[eventpoll]"

    def take(self, most: int) -> list[tuple[int, int]]:
        """Return what is ready; those that were returned come last at the next call."""
        found: list[tuple[int, int]] = []
        for entry in tuple(self.candidates):
            if len(found) == most:
                break
            del self.candidates[entry]
            events = entry.ready()
            if events:
                found.append((entry.fd, events))
                self.candidates[entry] = None
        return found


class Epoll:
    """A select.epoll object."""

    def __init__(self, kernel: Kernel, sizehint: int = -1, flags: int = 0) -> None:
        del sizehint, flags
        self._kernel = kernel
        self._instance = EpollInstance(kernel.descriptors.inode())
        self._number = kernel.new_object()
        self._fd = kernel.enter().install(self._instance)

    @property
    def closed(self) -> bool:
        """Whether it is closed in this process."""
        return self._number not in self._kernel.process.objects

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._mine()

    def close(self) -> None:
        """Close the descriptor."""
        process = self._kernel.enter()
        if not self.closed:
            process.objects.discard(self._number)
            process.remove(self._fd)

    def __enter__(self) -> Epoll:
        """Return this."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def register(self, fd: object, eventmask: int = IN | OUT | select.EPOLLPRI) -> None:
        """Add a descriptor."""
        number, description = self._look(fd)
        if not description.pollable:
            raise error(errno.EPERM)
        if (number, description) in self._instance.all:
            raise error(errno.EEXIST)
        entry = Entry(self._instance, number, description, eventmask)
        self._instance.all[number, description] = entry
        description.entries[entry] = None
        entry.notify()

    def modify(self, fd: object, eventmask: int) -> None:
        """Change the events of a descriptor."""
        entry = self._entry(fd)
        entry.mask = eventmask
        entry.notify()

    def unregister(self, fd: object) -> None:
        """Remove a descriptor."""
        self._entry(fd).remove()

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        """Wait for events."""
        process = self._kernel.enter()
        self._mine()
        most = maxevents if maxevents > 0 else 1 << 30
        last = None if timeout is None or timeout < 0 else self._kernel.now + timeout
        stops = process.stops
        while not (found := self._instance.take(most)):
            if last is not None and self._kernel.now >= last:
                return []
            rest = None if last is None else last - self._kernel.now
            self._kernel.wait((self._instance.queue,), rest, "ep_poll")
            if process.stops != stops and last is not None and self._kernel.now >= last:
                return []  # a stop ends the wait of the kernel, before it looks
        return found

    def _look(self, fd: object) -> tuple[int, Description]:
        process = self._kernel.enter()
        self._mine()
        number = number_of(fd)
        return number, process.get(number)

    def _entry(self, fd: object) -> Entry:
        entry = self._instance.all.get(self._look(fd))
        if entry is None:
            raise error(errno.ENOENT)
        return entry

    def _mine(self) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed epoll object")
        self._kernel.process.get(self._fd)
        return self._fd


class Poll:
    """A select.poll object."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._masks: dict[int, int] = {}

    def register(self, fd: object, eventmask: int = IN | OUT | select.POLLPRI) -> None:
        """Add a descriptor, or change its events."""
        self._masks[number_of(fd)] = eventmask

    def modify(self, fd: object, eventmask: int) -> None:
        """Change the events of a descriptor."""
        if number_of(fd) not in self._masks:
            raise error(errno.ENOENT)
        self._masks[number_of(fd)] = eventmask

    def unregister(self, fd: object) -> None:
        """Remove a descriptor."""
        del self._masks[number_of(fd)]

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Wait for events, for so many milliseconds."""
        self._kernel.enter()
        last = None if timeout is None or timeout < 0 else self._kernel.now + timeout / 1000
        while not (found := self._ready()):
            if last is not None and self._kernel.now >= last:
                return []
            slots = self._kernel.process.slots
            queues = [slots[fd].description.queue for fd in self._masks if fd in slots]
            self._kernel.wait(
                queues, None if last is None else last - self._kernel.now, "poll_schedule_timeout"
            )
        return found

    def _ready(self) -> list[tuple[int, int]]:
        slots = self._kernel.process.slots
        found = []
        for fd, mask in self._masks.items():
            slot = slots.get(fd)
            events = (
                select.POLLNVAL if slot is None else slot.description.events() & (mask | ERR | HUP)
            )
            if events and fd >= 0:
                found.append((fd, events))
        return found


def number_of(fd: object) -> int:
    """Return the descriptor of an object, or a descriptor itself."""
    if isinstance(fd, int):
        return fd
    return int(fd.fileno())  # type: ignore[attr-defined]
