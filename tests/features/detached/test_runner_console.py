"""The console of a detached job: messages go to the terminal until it is left, and are kept."""

from __future__ import annotations

from typing import Any, cast

from dsrun.launcher.features.detached.runner_console import DetachedConsole


class FakeScreen:
    """Keeps how it is called; `finish` and `flush` are done at once."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.on_broken_pipe: Any = None

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> None:
            if name in {"finish", "flush"}:
                self.calls.append((name,))
                args[0]()
            else:
                self.calls.append((name, *args))

        return call


def console_on(screen: FakeScreen) -> tuple[DetachedConsole, list[str]]:
    kept: list[str] = []
    return DetachedConsole(cast("Any", screen), "info", kept.append), kept


def test_messages_are_shown_and_kept_until_the_terminal_is_left_and_then_kept() -> None:
    screen, left = FakeScreen(), []
    console, kept = console_on(screen)
    console.log("connecting")
    console.log("details", "debug")
    console.status("2 of 4 ready")
    console.close_screen(lambda: left.append(True))
    console.log("lost n1 \x1b[2J", "warning")
    console.status("")
    console.print_report("it has ended")
    console.close_screen(lambda: left.append(True))
    assert screen.calls == [("log", "connecting", "info"), ("status", "2 of 4 ready"), ("finish",)]
    assert kept == ["connecting", "lost n1 \\x1b[2J"]
    assert left == [True, True]


def test_a_report_before_that_is_shown() -> None:
    screen, done = FakeScreen(), []
    console, _ = console_on(screen)
    console.print_report("no route")
    console.flush(lambda: done.append("flushed"))
    console.finish(lambda: done.append("finished"))
    console.flush(lambda: done.append("flushed"))
    console.close()
    assert screen.calls == [("print_report", "no route"), ("flush",), ("finish",)]
    assert done == ["flushed", "finished", "flushed"]


def test_output_is_taken_at_once_and_never_shown() -> None:
    screen, written = FakeScreen(), []
    console, kept = console_on(screen)
    console.label(0, "n0:0| ", [1, 2])
    console.fold(4, str)
    console.feed(0, 1, b"hello\n", lambda: written.append(True))
    assert (screen.calls, kept, written) == ([], [], [True])
    assert not console.still_shows(["hello"])
    assert (console.folds, console.has_lost_output) == (False, False)


def test_the_reader_of_the_terminal_may_go() -> None:
    screen, broken = FakeScreen(), []
    console, _ = console_on(screen)
    console.on_broken_pipe = lambda: broken.append(True)
    console.on_broken_pipe()
    assert broken == [True]
    console.close()
    console.on_broken_pipe = lambda: broken.append(True)
    console.on_broken_pipe()
    assert broken == [True], "there is no reader any more"
    assert screen.calls == [("close",)]
