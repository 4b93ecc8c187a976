"""`--stop_without_progress`: ends a job whose rounds fail one after another without progress.

Progress is a line that matches `--expect`, or a new file of `--checkpoints`. A thread looks for the
files, because a file system that does not answer must not stop the loop.
"""

from __future__ import annotations

import glob
from contextlib import suppress
from functools import partial

from ...common import system
from ...common.text import plain
from ...common.wording import counted
from ...head.run.events import Alarm, Exit, Lost, Round
from ...specs.policies import EXPECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop
    from ...head.run.events import RunEvent
    from ...specs.policies import WatchPolicy
    from .runner_alert_action import AlertAction


class Progress:
    """Counts the rounds that failed since the last progress."""

    def __init__(
        self, policy: WatchPolicy, loop: Loop, action: AlertAction, moved: Callable[[], bool]
    ) -> None:
        """Watch a run before its start; `moved` returns whether an expected line was printed."""
        self._policy, self._loop, self._action = policy, loop, action
        self._moved = moved
        self._hosts: tuple[str, ...] = ()
        self._newest = 0
        self._fruitless = 0
        self._ended = False
        loop.open_to_threads()
        self._find(self._on_first)

    def on_event(self, event: RunEvent) -> None:
        """Note the beginning and the end of a round."""
        match event:
            case Round():
                self._hosts, self._ended = event.hosts, False
            case Exit() if event.code and not event.stopped:
                self._finish()
            case Lost() if event.host in self._hosts:
                self._finish()
            case Alarm(_, "restart", _):
                self._finish()

    def _finish(self) -> None:
        """Judge a round that has failed, once."""
        if not self._ended:
            self._ended = True
            self._find(partial(self._judge, self._moved()))

    def _find(self, then: Callable[[int], None]) -> None:
        """Call `then` with the time of the newest checkpoint, not before this event is handled."""
        if not self._policy.checkpoints:
            self._loop.call_later(0.0, partial(then, 0))
            return
        tell = self._loop.call_soon_threadsafe

        def sample() -> None:
            tell(partial(then, newest(self._policy.checkpoints)))

        system.thread(sample)

    def _on_first(self, found: int) -> None:
        self._newest = max(self._newest, found)

    def _judge(self, moved: bool, found: int) -> None:
        moved = moved or found > self._newest
        self._newest = max(self._newest, found)
        self._fruitless = 0 if moved else self._fruitless + 1
        if self._fruitless >= self._policy.fruitless_rounds:
            self._action.perform("rule", "stop", self._sentence())

    def _sentence(self) -> str:
        lines = [rule.expect for rule in self._policy.rules if rule.name == EXPECT]
        files = self._policy.checkpoints
        missing = [f"no line has matched '{plain(one)}'" for one in lines]
        missing += [f"no new file {plain(files)}"] if files else []
        how_often = counted(self._fruitless, "round")
        return f"{how_often} in a row without progress: {' and '.join(missing)}"


def newest(pattern: str) -> int:
    """Return the newest change of a file that matches, in nanoseconds; 0 without one."""
    times = [0]
    for path in glob.iglob(pattern, recursive=True):
        with suppress(OSError):
            times.append(system.stat(path).st_mtime_ns)
    return max(times)
