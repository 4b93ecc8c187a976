"""Time for tests that do not wait."""

from dsrun.launcher.common.loop import Loop


class Clock:
    """A clock that goes when told, and a loop on it."""

    def __init__(self) -> None:
        self.now = 50.0
        self.loop = Loop(lambda: self.now)

    def go(self, seconds: float) -> None:
        """Let time pass, and what is due by then happen."""
        self.now += seconds
        self.loop.after(0.0, self.loop.stop)
        self.loop.run()
