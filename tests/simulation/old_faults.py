"""Old faults, put back into a copy of the checkout: how many of them do simulated worlds find?

Each fault of `tests/bugs.toml` that has `replant` stands here by its id: the module, its text of
today, and the faulty text. A module that has changed so that its text is not there any more, or is
there twice, is an error: then the fault has to be written anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Replacement(NamedTuple):
    """A text of a module, and the faulty one in its place."""

    module: str
    text: str
    faulty: str

    def spoil(self, source: str) -> str:
        """Return the source of the module with the fault.

        Raises:
            ValueError: the text is not there exactly once.
        """
        if source.count(self.text) != 1:
            raise ValueError(f"{self.module}: {source.count(self.text)} times: {self.text!r}")
        return source.replace(self.text, self.faulty)


def replant(bug: str, copy: Path) -> list[str]:
    """Put a fault back into a copy of the checkout; return the modules that were changed."""
    for one in OLD_FAULTS[bug]:
        module = copy / one.module
        module.write_text(one.spoil(module.read_text()))
    return [one.module for one in OLD_FAULTS[bug]]


GUARD = "launcher/node/guard.py"
SESSION = "launcher/node/session/session.py"
SESSION_STATE = "launcher/node/session/session_state.py"
DESCENDANTS = "launcher/node/machine/descendants.py"
NODE_ROUNDS = "launcher/features/elastic/node_rounds_state.py"
ROUNDS = "launcher/features/elastic/runner_rounds.py"
RUNNER_ROUNDS = "launcher/features/elastic/runner_policy.py"
RUN = "launcher/head/run/run_state.py"
HEARTBEATS = "launcher/head/fleet/heartbeats.py"
LABELS = "launcher/head/output/labels.py"

OLD_FAULTS: dict[str, tuple[Replacement, ...]] = {
    "guard-waits-for-a-stuck-launcher": (
        Replacement(
            GUARD,
            "processes.send(self._launcher, signal.SIGKILL)\n            self._loop.stop()\n",
            "processes.send(self._launcher, signal.SIGKILL)\n",
        ),
    ),
    "launcher-never-missed-before-its-first-sign": (
        Replacement(GUARD, "        self._count(seconds)\n", "        self._count(1e9)\n"),
    ),
    "launcher-that-stands-still-keeps-its-workers": (
        Replacement(GUARD, "if self._missed >= SIGNS:", "if self._missed >= 1000 * SIGNS:"),
    ),
    "fork-bomb-outlives-the-job": (
        Replacement(
            DESCENDANTS,
            "                _send(pid, signal.SIGSTOP, ours)\n",
            "                _send(pid, signal.SIGKILL, ours)\n",
        ),
        Replacement(
            DESCENDANTS,
            "            _stop_children(stopped, last)\n            new = ",
            "            new = ",
        ),
        Replacement(
            DESCENDANTS,
            "            seen.update(new)\n",
            "            seen.update(new)\n            break\n",
        ),
    ),
    "a-process-that-forks-and-leaves-is-not-found": (
        Replacement(DESCENDANTS, "            _stop_children(stopped, last)\n", ""),
    ),
    "a-round-that-was-not-joined-starts-workers": (
        Replacement(NODE_ROUNDS, "if self.phase is RoundsPhase.JOINED:", "if self.phase:"),
    ),
    "no-grace-where-a-round-ends": (
        Replacement(
            NODE_ROUNDS,
            "grace = 0.0 if number == signal.SIGKILL else self._grace",
            "grace = 0.0",
        ),
    ),
    "given-up-though-enough-nodes-were-ready": (
        Replacement(
            ROUNDS,
            "        if self.alive < self._limits.least:\n"
            "            self._then(self._do.stop_too_few)\n",
            "        if self.alive >= 0:\n            self._then(self._do.stop_too_few)\n",
        ),
    ),
    "the-last-failure-begins-another-round": (
        Replacement(ROUNDS, "or self._current.undecided or", "or"),
    ),
    "a-removed-member-is-left-behind": (
        Replacement(
            ROUNDS,
            "if node in self.members and self._current.phase is not RoundPhase.ENDING:",
            "if node in self.members:",
        ),
    ),
    "a-change-before-its-round": (
        Replacement(
            "launcher/common/event_queue.py",
            "        if self._busy:\n            return\n",
            "",
        ),
    ),
    "old-workers-of-a-node-that-is-given-up": (
        Replacement(
            RUNNER_ROUNDS,
            "        self.await_end(node, BEYOND * self._lease - silent)\n",
            "",
        ),
    ),
    "old-workers-of-a-silent-node": (
        Replacement(
            "launcher/head/run/fleet_events.py",
            "        run.restarts.await_end(node, seconds)\n        run.lose(node, event.lost)\n",
            "        run.lose(node, event.lost)\n",
        ),
    ),
    "the-end-of-a-lost-node-is-done": (
        Replacement(
            RUNNER_ROUNDS,
            "        if node.lost:\n            return\n        was_leaving",
            "        was_leaving",
        ),
    ),
    "a-busy-runner-loses-healthy-nodes": (
        Replacement(HEARTBEATS, "        self._forgive(now - self._due)\n", ""),
    ),
    "silence-of-the-start-counts": (
        Replacement(
            "launcher/head/fleet/fleet.py",
            "        node.beats = True\n        node.reset_silence(self.loop.clock())\n",
            "        node.beats = True\n",
        ),
    ),
    "a-silent-node-is-missed-late": (
        Replacement(
            HEARTBEATS,
            "        return min(self._lease / messages.BEATS, left) if left > 0 else "
            "self._lease / messages.BEATS\n",
            "        return self._lease / 4 if left else self._lease / messages.BEATS\n",
        ),
    ),
    "workers-meet-the-launchers-listener": (
        Replacement(
            "launcher/head/run/start_message.py",
            "        self._send(self.first, frame)\n",
            "        self._send(self.first, frame)\n        self.on_answer(self.first)\n",
        ),
    ),
    "no-grace-where-an-engine-ends": (
        Replacement(SESSION_STATE, "now.grace if now.by_engine else 0", "0"),
    ),
    "a-held-node-that-must-leave-stays": (
        Replacement(
            SESSION_STATE,
            "elif self.phase is SessionPhase.LEAVING and now.held:",
            "elif self.phase is SessionPhase.OVER and now.held:",
        ),
    ),
    "notes-before-hello-are-the-former-runs": (
        Replacement(
            SESSION,
            "        self._unsent = []  # notes before HELLO would be of the previous run\n",
            "",
        ),
        Replacement(
            SESSION,
            "        unsent, self._unsent = self._unsent, None\n",
            "        unsent: list[bytes] = []\n",
        ),
    ),
    "a-node-left-out-keeps-its-ports": (
        Replacement(
            "launcher/head/run/run_start.py",
            "    run.send(list(causes), messages.pack(frames.STOP, "
            "messages.Stop(signal.SIGTERM, 0.0)))\n",
            "",
        ),
    ),
    "one-frame-ends-the-job": (
        Replacement(
            "launcher/head/fleet/fleet.py",
            "        except (frames.BadFrame, DsrunError):\n            raise\n",
            "        except Exception:\n            raise\n",
        ),
    ),
    "what-may-be-left-is-not-told": (
        Replacement(RUN, "if node.begun and node.hello:", "if node.hello and not node.hello:"),
    ),
    "a-waiting-line-is-shown-twice": (
        Replacement(
            LABELS,
            '        text = self._take()\n        if not text:\n            return b""\n',
            '        text = self.unfinished\n        if not text:\n            return b""\n',
        ),
    ),
    "the-last-line-before-another-round-is-lost": (
        Replacement(
            "launcher/head/output/console.py",
            "                self._screen.finish(self._sinks[stream], before)\n",
            '                before.carry = b""\n',
        ),
    ),
    "a-signal-of-a-killed-engine-is-the-cause": (
        Replacement(
            "launcher/head/run/fleet_events.py",
            "stopped = ended.killed and run.record.discard_node_signal(run.now)",
            "stopped = False",
        ),
        Replacement(
            "launcher/head/run/record.py",
            "by_engine = engine.killed and self.discard_node_signal(at)",
            "by_engine = False",
        ),
    ),
    "a-lost-first-node-holds-back-start": (
        Replacement(
            RUN,
            "            self.staged.on_answer(node)\n            self.restarts",
            "            self.restarts",
        ),
    ),
    "a-node-silent-after-hello-is-waited-for": (
        Replacement(
            "launcher/head/run/startup.py",
            "        self._act.send(others, probe)\n        self._await_answers()\n",
            "        self._act.send(others, probe)\n",
        ),
    ),
    "an-elastic-job-without-nodes-ends-with-0": (
        Replacement(
            "launcher/head/run/node_frames.py",
            "if run.phase is RunPhase.RUNNING:\n        run.restarts.on_done(node)",
            "if run.phase is RunPhase.RUNNING and not node.lost:\n"
            "        run.restarts.on_done(node)",
        ),
    ),
    "a-closed-pipe-hides-why-a-node-leaves": (
        Replacement(
            "launcher/control/connection.py",
            "        self._broken = reason\n",
            "        self._broken = reason\n        self._lose(reason)\n        return\n",
        ),
    ),
    "output-of-a-lost-node-under-anothers-label": (
        Replacement(
            "launcher/head/run/output.py",
            "if place is None or place.host.name != node.name:",
            "if place is None:",
        ),
    ),
    "workers-of-a-round-miss-an-earlier-signal": (
        Replacement("launcher/node/run/run.py", "        self._starting()\n", ""),
    ),
    "workers-being-forked-miss-a-signal": (
        Replacement(
            "launcher/node/session/signal_deduplicator.py",
            "return len(self.ways) == 2 and not self._missed",
            "return len(self.ways) == 2",
        ),
    ),
    "a-heartbeat-opens-the-master-port": (
        Replacement(
            "launcher/head/run/node_frames.py",
            "        frames.BEAT: lambda _node, _body: None,\n",
            "        frames.BEAT: lambda node, _body: run.staged.on_answer(node),\n",
        ),
    ),
    "a-second-start-for-a-host-that-is-back": (
        Replacement(
            "launcher/head/run/start_message.py",
            "        self._held = [one for one in self._held if one[0] is not node]\n",
            "        del node\n",
        ),
    ),
}
"""The replacements of each fault, by its id in `tests/bugs.toml`."""

OUT_OF_REACH = frozenset(
    (
        "a-held-node-that-must-leave-stays",
        "notes-before-hello-are-the-former-runs",
    )
)
"""Faults that need more holds than there are."""
