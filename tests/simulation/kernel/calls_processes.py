"""The system calls of processes, signals, clocks and threads."""

from __future__ import annotations

import errno
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from .descriptors import PidFd
from .process import error
from .scheduler import Gone
from .threads import Condition, Thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .kernel import Kernel
    from .process import Process

_PDEATHSIG, _SUBREAPER = 1, 36
_FORK_SWITCHES = 0.3
_UNMASKABLE = frozenset({signal.SIGKILL, signal.SIGSTOP})


class ProcessCalls:
    """Processes."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def fork(self, child: Callable[[], object]) -> int:
        """Fork; the new process calls `child`."""
        kernel, me = self._kernel, self._kernel.enter()
        new = me.host.add(me)
        new.copy_from(me)
        new.wakeup = -1
        kernel.start(new, child)
        if kernel.random.random() < _FORK_SWITCHES:
            kernel.pause()
        return new.pid

    def execvpe(self, file: Any, args: Sequence[Any], env: Mapping[Any, Any]) -> None:
        """Execute another program."""
        kernel, me = self._kernel, self._kernel.enter()
        argv = [os.fsencode(one) for one in args]
        environ = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        try:
            program = kernel.programs(me, argv, environ)
        except OSError as problem:
            raise error(problem.errno or errno.ENOENT, file) from None
        if kernel.leaving is not None:
            given = (b"%s=%s" % one for one in environ.items())
            kernel.leaving(me, "exec", b"\0".join((*argv, *given)))
        me.become(argv, environ)
        kernel.run_image(me, program)
        raise Gone

    def exit_now(self, status: int) -> None:
        """End this process."""
        self._kernel.end(self._kernel.enter(), (status & 0xFF) << 8)
        raise Gone

    def getcwd(self) -> str:
        """Return the working folder."""
        return self._kernel.enter().cwd

    def getpid(self) -> int:
        """Return the pid."""
        return self._kernel.enter().pid

    def getppid(self) -> int:
        """Return the parent's pid."""
        return self._kernel.enter().ppid

    def getuid(self) -> int:
        """Return the user."""
        return self._kernel.enter().uid

    geteuid = getgid = getuid

    def setsid(self) -> None:
        """Begin a session."""
        me = self._kernel.enter()
        if any(one.pgid == me.pid for one in me.host.processes.values()):
            raise error(errno.EPERM)
        me.sid = me.pgid = me.pid

    def kill(self, pid: int, number: int) -> None:
        """Send a signal to a process, or with a negative pid to a group."""
        me = self._kernel.enter()
        if pid <= 0:
            self._group(me, me.pgid if pid == 0 else -pid, number)
        else:
            self._send(me, [me.host.find(pid)], number)

    def killpg(self, pgid: int, number: int) -> None:
        """Send a signal to a group."""
        me = self._kernel.enter()
        self._group(me, pgid or me.pgid, number)

    def _group(self, me: Process, pgid: int, number: int) -> None:
        members = [one for one in me.host.processes.values() if one.pgid == pgid and one.pid != 1]
        if not members:
            raise error(errno.ESRCH)
        self._send(me, members, number)

    def _send(self, me: Process, targets: list[Process], number: int) -> None:
        signals, refusal, sent = self._kernel.signals, None, False
        for target in targets:
            try:
                signals.permit(me, target, number)
            except PermissionError as problem:
                refusal = problem
                continue
            sent = True
            signals.send(target, number, me.pid)
        self._kernel.settle()
        if refusal is not None and not sent:
            raise refusal

    def pidfd_open(self, pid: int, flags: int = 0) -> int:
        """Return a descriptor of a process."""
        me = self._kernel.enter()
        if pid <= 0:
            raise error(errno.EINVAL)
        one = PidFd(self._kernel.descriptors.inode(), me.host.find(pid))
        one.flags |= flags & os.O_NONBLOCK
        return me.install(one)

    def pidfd_send_signal(self, fd: int, number: int, info: None = None, flags: int = 0) -> None:
        """Send a signal to the process of a descriptor."""
        del info, flags
        me = self._kernel.enter()
        description = me.get(fd)
        if not isinstance(description, PidFd):
            raise error(errno.EBADF)
        if description.process.reaped:
            raise error(errno.ESRCH)
        self._send(me, [description.process], number)

    def waitpid(self, pid: int, options: int) -> tuple[int, int]:
        """Wait for a child."""
        kernel, me = self._kernel, self._kernel.enter()
        while True:
            ours = [one for one in me.children.values() if _matches(me, one, pid)]
            if not ours:
                raise error(errno.ECHILD)
            for child in ours:
                if child.status is not None:
                    kernel.reap(child)
                    return child.pid, child.status
            if options & os.WNOHANG:
                return 0, 0
            kernel.wait((me.waits,), where="do_wait")

    def prctl(self, option: int, value: int) -> None:
        """Change a property of this process."""
        me = self._kernel.enter()
        if option == _PDEATHSIG:
            if not 0 <= value < signal.NSIG:
                raise error(errno.EINVAL)
            me.death_signal = value
        elif option == _SUBREAPER:
            me.subreaper = bool(value)

    def sched_getaffinity(self, pid: int) -> set[int]:
        """Return the CPUs of a process."""
        return set(self._named(pid).cpus)

    def getrlimit(self, _resource: int) -> tuple[int, int]:
        """Return the soft and the hard limit of any resource."""
        return (65536, 65536)

    def sched_setaffinity(self, pid: int, cpus: Iterable[int]) -> None:
        """Change the CPUs of a process."""
        process = self._named(pid)
        wanted = frozenset(cpus) & frozenset(range(process.host.cpus))
        if not wanted:
            raise error(errno.EINVAL)
        process.cpus = wanted

    def sched_getscheduler(self, pid: int) -> int:
        """Return the policy of a process."""
        return self._named(pid).policy

    def sched_getparam(self, pid: int) -> os.sched_param:
        """Return the priority of a process."""
        return os.sched_param(self._named(pid).priority)

    def sched_setscheduler(self, pid: int, policy: int, param: os.sched_param) -> None:
        """Change the policy of a process; only root may have it run before all others."""
        process = self._named(pid)
        if self._kernel.process.uid != 0 and policy != os.SCHED_OTHER:
            raise error(errno.EPERM)
        process.policy, process.priority = policy, param.sched_priority

    def _named(self, pid: int) -> Process:
        me = self._kernel.enter()
        return me.host.find(pid) if pid else me

    def uname(self) -> os.uname_result:
        """Return the names of the machine."""
        name = self._kernel.enter().host.name
        return os.uname_result(("Linux", name, "6.1.0", "#1 SMP", "x86_64"))

    def getloadavg(self) -> tuple[float, float, float]:
        """Return the load."""
        load = self._kernel.enter().host.load
        return (load, load, load)

    def thread(self, run: Callable[[], object], name: str | None = None) -> Thread:
        """Start a thread."""
        return Thread(self._kernel, run, name)

    def condition(self) -> Condition:
        """Return a new condition."""
        return Condition(self._kernel)


def _matches(me: Process, child: Process, pid: int) -> bool:
    """Return whether waitpid(2) of a pid means a child."""
    if pid == -1:
        return True
    if pid > 0:
        return child.pid == pid
    return child.pgid == (me.pgid if pid == 0 else -pid)


class SignalCalls:
    """Signals."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def getsignal(self, number: int) -> object:
        """Return the handler of a signal."""
        me = self._kernel.enter()
        default: object = signal.SIG_DFL
        if number == signal.SIGINT and number not in me.handlers:
            default = signal.default_int_handler
        return me.handlers.get(number, default)

    def set_handler(self, number: int, handler: object) -> object:
        """Change the handler of a signal; return what it was."""
        before = self.getsignal(number)
        self._kernel.signals.set_handler(self._kernel.process, number, handler)
        return before

    def set_wakeup_fd(self, fd: int, *, warn_on_full_buffer: bool = True) -> int:
        """Change where the numbers of signals are written; return where they were."""
        del warn_on_full_buffer
        me = self._kernel.enter()
        if fd >= 0 and not me.get(fd).nonblocking:
            raise ValueError(f"the fd {fd} must be in non-blocking mode")
        before, me.wakeup = me.wakeup, fd
        return before

    def pthread_sigmask(self, how: int, mask: Iterable[int]) -> set[int]:
        """Change which signals are blocked; return which were."""
        me, numbers = self._kernel.enter(), frozenset(mask) - _UNMASKABLE
        before = me.mask
        if how == signal.SIG_BLOCK:
            numbers = before | numbers
        elif how == signal.SIG_UNBLOCK:
            numbers = before - numbers
        me.mask = numbers
        self._kernel.signals.deliver_pending(me)
        self._kernel.settle()
        return set(before)

    def sigtimedwait(self, mask: Iterable[int], seconds: float) -> signal.struct_siginfo | None:
        """Wait for one of these signals."""
        kernel, me = self._kernel, self._kernel.enter()
        wanted, last = frozenset(mask), self._kernel.now + seconds
        task = kernel.running()
        task.awaited = wanted
        try:
            while not (found := [number for number in sorted(me.pending) if number in wanted]):
                if kernel.now >= last:
                    return None
                kernel.wait((me.signals,), last - kernel.now, "do_sigtimedwait")
        finally:
            task.awaited = frozenset()
        code, pid, uid = me.pending.pop(found[0])
        return signal.struct_siginfo((found[0], code, 0, pid, uid, 0, 0))


class ClockCalls:
    """Clocks and chance."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def clock_gettime(self, clock: int) -> float:
        """Return what the clock of the time since the boot shows."""
        assert clock == time.CLOCK_BOOTTIME
        return self.monotonic()

    def monotonic(self) -> float:
        """Return what the monotonic clock shows."""
        return self._kernel.enter().host.monotonic()

    def time(self) -> float:
        """Return the time of day."""
        return self._kernel.enter().host.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        kernel = self._kernel
        kernel.enter()
        last = kernel.now + seconds
        while kernel.now < last:
            kernel.wait((), last - kernel.now, "hrtimer_nanosleep")

    def process_time(self) -> float:
        """Return the CPU time of this process."""
        return self._kernel.enter().cpu

    thread_time = process_time

    def urandom(self, size: int) -> bytes:
        """Return random bytes."""
        self._kernel.enter()
        return self._kernel.random.randbytes(size)
