"""The loop: real pipes, real signals, real threads; time only from the clock it is given."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from dsrun.launcher.common.loop import AT_ONCE, DueTimer, Loop, Turns

from ..support.clock import Clock
from ..support.limits import HANG


def and_stop(loop: Loop, call: Callable[[], None]) -> Callable[[], None]:
    """Return a call that makes this one and then stops the loop."""

    def both() -> None:
        call()
        loop.stop()

    return both


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """End a loop that waits for what never comes."""

    def give_up(_number: int, _frame: object) -> None:
        pytest.fail("the loop waits for ever")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, HANG)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    yield read_fd, write_fd
    for fd in (read_fd, write_fd):
        try:
            os.close(fd)
        except OSError:
            continue


# -- descriptors --------------------------------------------------------------------------------


def test_a_pipe_that_can_be_read(pipe: tuple[int, int]) -> None:
    loop, got = Loop(), []

    def read() -> None:
        got.append(os.read(pipe[0], 100))
        if got[-1] == b"":
            loop.stop()
        elif len(got) == 1:
            os.write(pipe[1], b"more")
        else:
            os.close(pipe[1])

    loop.add_reader(pipe[0], read)
    os.write(pipe[1], b"some")
    loop.run()
    assert got == [b"some", b"more", b""]


def test_a_pipe_that_can_be_written(pipe: tuple[int, int]) -> None:
    loop, sizes = Loop(), []
    while True:
        try:
            os.write(pipe[1], b"x" * 65536)
        except BlockingIOError:
            break

    def write() -> None:
        sizes.append(os.write(pipe[1], b"y"))
        loop.stop()

    def empty() -> None:
        os.read(pipe[0], 1 << 20)

    loop.add_writer(pipe[1], write)
    loop.call_later(0.0, empty)
    loop.run()
    assert sizes == [1]


def test_reading_and_writing_one_descriptor() -> None:
    loop, seen = Loop(), []
    near, far = socket.socketpair()
    with near, far:
        loop.add_reader(near.fileno(), lambda: seen.append("read"))
        loop.add_writer(near.fileno(), and_stop(loop, lambda: seen.append("write")))
        assert loop.has_reader(near.fileno())
        assert loop.has_writer(near.fileno())
        loop.run()
        assert seen == ["write"]
        loop.remove_writer(near.fileno())
        assert loop.has_reader(near.fileno())
        assert not loop.has_writer(near.fileno())
        loop.add_reader(near.fileno(), and_stop(loop, lambda: seen.append("again")))
        far.send(b"x")
        loop.run()
        assert seen == ["write", "again"]


def test_what_is_unwatched_is_not_called(pipe: tuple[int, int]) -> None:
    loop = Loop()
    os.write(pipe[1], b"x")
    loop.add_reader(pipe[0], lambda: pytest.fail("called"))
    loop.remove(pipe[0])
    loop.remove(pipe[0])
    loop.remove(999)
    assert not loop.has_reader(pipe[0])
    loop.call_later(0.0, loop.stop)
    loop.run()


def test_a_callback_may_unwatch_the_next_one() -> None:
    pipes = [os.pipe() for _ in range(2)]
    loop, called = Loop(), []

    def first(at: int) -> None:
        called.append(at)
        for read_fd, _ in pipes:
            loop.remove(read_fd)
        loop.call_later(0.0, loop.stop)

    for at, (read_fd, write_fd) in enumerate(pipes):
        os.write(write_fd, b"x")
        loop.add_reader(read_fd, lambda at=at: first(at))  # type: ignore[misc]
    loop.run()
    assert len(called) == 1
    for ends in pipes:
        for fd in ends:
            os.close(fd)


def test_nothing_is_called_after_stop_even_when_it_is_ready() -> None:
    pipes = [os.pipe() for _ in range(2)]
    loop, called = Loop(), []
    for read_fd, write_fd in pipes:
        os.write(write_fd, b"x")
        loop.add_reader(read_fd, and_stop(loop, lambda: called.append("read")))
    loop.run()
    assert called == ["read"]
    for ends in pipes:
        for fd in ends:
            os.close(fd)


def test_stop_ends_the_round_and_run_may_be_called_again(pipe: tuple[int, int]) -> None:
    loop, called = Loop(), []
    os.write(pipe[1], b"x")
    loop.add_reader(pipe[0], and_stop(loop, lambda: called.append("read")))
    loop.call_later(0.0, lambda: called.append("timer"))
    loop.run()
    assert called == ["read"]
    loop.remove(pipe[0])
    loop.call_later(0.0, loop.stop)
    loop.run()
    assert called == ["read", "timer"]


# -- timers -------------------------------------------------------------------------------------


def test_timers_in_the_order_in_which_they_are_due() -> None:
    clock, called = Clock(), []
    for seconds in (3.0, 1.0, 2.0):
        clock.loop.call_later(seconds, lambda s=seconds: called.append(s))  # type: ignore[misc]
    for name in "abc":
        clock.loop.call_later(2.0, lambda n=name: called.append(n))  # type: ignore[misc]
    clock.go(0.5)
    assert called == []
    clock.go(0.5)
    assert called == [1.0]
    clock.go(9.0)
    assert called == [1.0, 2.0, "a", "b", "c", 3.0]
    clock.go(9.0)
    assert len(called) == 6


def test_a_cancelled_timer_is_not_called() -> None:
    clock, called = Clock(), []
    timers = [clock.loop.call_later(at, lambda at=at: called.append(at)) for at in (1.0, 2.0, 3.0)]  # type: ignore[misc]
    timers[0].cancel()
    timers[2].cancel()
    timers[2].cancel()
    clock.go(5.0)
    assert called == [2.0]
    timers[1].cancel()


def test_a_timer_may_set_and_cancel_others() -> None:
    clock, called = Clock(), []
    victim = clock.loop.call_later(2.0, lambda: called.append("victim"))

    def first() -> None:
        called.append("first")
        victim.cancel()
        clock.loop.call_later(1.0, lambda: called.append("second"))

    clock.loop.call_later(1.0, first)
    clock.go(1.0)
    clock.go(1.0)
    assert called == ["first", "second"]


def test_without_anything_due_the_loop_waits_on_the_clock_alone(pipe: tuple[int, int]) -> None:
    """A far timer neither delays a pipe nor is called early."""
    loop, called = Loop(), []
    loop.add_reader(pipe[0], and_stop(loop, lambda: called.append("read")))
    loop.call_later(3600.0, lambda: called.append("timer"))
    threading.Timer(0.05, os.write, (pipe[1], b"x")).start()
    loop.run()
    assert called == ["read"]


def test_what_came_while_a_callback_stood_still_goes_before_late_timers(
    pipe: tuple[int, int],
) -> None:
    clock, called = Clock(), []
    near, far = socket.socketpair()
    with near, far:

        def stand_still() -> None:
            called.append("still")
            near.recv(1)
            clock.now += 10.0
            os.write(pipe[1], b"x")

        def read() -> None:
            called.append("read")
            os.read(pipe[0], 1)

        clock.loop.add_reader(near.fileno(), stand_still)
        clock.loop.add_reader(pipe[0], read)
        clock.loop.call_later(5.0, and_stop(clock.loop, lambda: called.append("timer")))
        far.send(b"x")
        clock.loop.run()
        clock.loop.remove(near.fileno())
    assert called == ["still", "read", "timer"]


# -- signals ------------------------------------------------------------------------------------


@pytest.fixture
def handlers() -> Iterator[None]:
    numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_signals_come_as_events_of_the_loop() -> None:
    loop, seen = Loop(), []

    def note(number: int) -> None:
        seen.append(number)
        if number == signal.SIGHUP:
            loop.stop()

    loop.on_signals([signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP], note)
    os.kill(os.getpid(), signal.SIGUSR2)
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert seen == []
    loop.call_later(0.0, lambda: os.kill(os.getpid(), signal.SIGHUP))
    loop.run()
    assert seen == [signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR1, signal.SIGHUP]


@pytest.mark.usefixtures("handlers")
def test_a_signal_wakes_a_loop_that_waits_for_nothing() -> None:
    loop, seen = Loop(), []
    loop.on_signals([signal.SIGUSR1], lambda number: and_stop(loop, lambda: seen.append(number))())
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGUSR1)).start()
    loop.run()
    assert seen == [signal.SIGUSR1]


# -- threads ------------------------------------------------------------------------------------


def test_posts_of_many_threads_are_called_by_the_loop_alone() -> None:
    loop = Loop()
    loop.open_to_threads()
    loop.open_to_threads()
    called: list[tuple[int, int]] = []
    callers = set()

    def call(thread: int, at: int) -> None:
        callers.add(threading.get_ident())
        called.append((thread, at))
        if len(called) == 8 * 500:
            loop.stop()

    def work(thread: int) -> None:
        for at in range(500):
            loop.call_soon_threadsafe(lambda at=at: call(thread, at))  # type: ignore[misc]

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    loop.run()
    for thread in threads:
        thread.join()
    assert callers == {threading.get_ident()}
    for number in range(8):
        assert [at for thread, at in called if thread == number] == list(range(500))


def test_more_posts_than_the_wake_up_pipe_holds() -> None:
    loop = Loop()
    loop.open_to_threads()
    called: list[int] = []
    for at in range(70_000):
        loop.call_soon_threadsafe(lambda at=at: called.append(at))  # type: ignore[misc]
    loop.call_soon_threadsafe(loop.stop)
    loop.run()
    assert called == list(range(70_000))


def test_a_posted_call_may_post() -> None:
    loop = Loop()
    loop.open_to_threads()
    called: list[str] = []

    def first() -> None:
        called.append("first")
        loop.call_soon_threadsafe(and_stop(loop, lambda: called.append("second")))

    loop.call_soon_threadsafe(first)
    loop.run()
    assert called == ["first", "second"]


def test_an_alarm_is_for_the_newest_time_alone() -> None:
    clock, calls = Clock(), list[float]()
    alarm = DueTimer(clock.timers, clock.timers.clock, lambda: calls.append(clock.now))
    alarm.set(60.0)
    alarm.set(60.0)
    assert len(clock.timers) == 1
    alarm.set(55.0)
    clock.go(5.0)
    clock.go(10.0)
    assert calls == [55.0]
    alarm.set(70.0)
    alarm.set(None)
    clock.go(10.0)
    assert (calls, len(clock.timers)) == ([55.0], 0)


@pytest.mark.usefixtures("handlers")
def test_of_signals_that_come_together_the_end_of_a_child_is_the_last() -> None:
    """What ends a child may have come to this process as well, and explains that end."""
    loop, seen = Loop(), list[int]()

    def note(number: int) -> None:
        seen.append(number)
        if len(seen) == 3:
            loop.stop()

    loop.on_signals([signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM], note)
    for number in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM):
        os.kill(os.getpid(), number)
    loop.run()
    assert seen == [signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD]


@pytest.mark.usefixtures("handlers")
def test_signals_that_have_come_while_nothing_ran_are_caught_up_with() -> None:
    loop, seen = Loop(), list[int]()
    loop.on_signals([signal.SIGUSR1], seen.append)
    loop.catch_up()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert seen == []
    loop.catch_up()
    assert seen == [signal.SIGUSR1]


def test_a_signal_is_heard_of_before_the_last_of_many_posts() -> None:
    loop, heard = Loop(), list[object]()
    loop.open_to_threads()
    loop.on_signals([signal.SIGUSR1], heard.append)

    def first() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    loop.call_soon_threadsafe(first)
    for at in range(10 * AT_ONCE):
        loop.call_soon_threadsafe(lambda at=at: heard.append(f"post {at}"))  # type: ignore[misc]
    loop.call_soon_threadsafe(loop.stop)
    loop.run()
    assert signal.SIGUSR1 in heard[: 2 * AT_ONCE]
    assert len(heard) == 10 * AT_ONCE + 1


# -- calls in turns -----------------------------------------------------------------------------


def test_the_first_of_many_calls_is_made_at_once_and_the_others_in_turns() -> None:
    clock, made = Clock(), list[int]()
    turns = Turns(clock.loop)
    turns.add(partial(made.append, one) for one in range(3))
    turns.add([partial(made.append, 3)])
    assert made == [0]
    for so_far in ([0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3]):
        clock.go(0.0)
        assert made == so_far
    assert not turns.waiting


def test_calls_wait_for_room_and_are_forgotten_at_the_end() -> None:
    clock, made = Clock(), list[int]()
    turns = Turns(clock.loop, lambda: len(made) < 2)
    turns.add(partial(made.append, one) for one in range(5))
    for _ in range(4):
        clock.go(0.0)
    assert (made, turns.waiting) == ([0, 1], True)
    made.clear()
    for _ in range(3):
        turns.resume()
    assert made == [], "not from within"
    clock.go(0.0)
    assert made == [2]
    turns.cancel()
    clock.go(0.0)
    assert (made, turns.waiting) == ([2], False)


def test_signals_are_heard_of_between_calls_in_turns() -> None:
    loop, made = Loop(), list[int]()
    loop.on_signals([signal.SIGUSR1], lambda _: loop.stop())
    turns = Turns(loop)
    os.kill(os.getpid(), signal.SIGUSR1)
    turns.add(partial(made.append, one) for one in range(1000))
    loop.run()
    assert len(made) < 3
