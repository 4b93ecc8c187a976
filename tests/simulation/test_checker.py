"""The checker accepts good histories, and refuses each of those that were made wrong by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from . import histories
from .checker import RULES, check, check_exceptions, hold
from .history import Event, as_text, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    History = list[Event]

GOOD: dict[str, tuple[Callable[[], History], dict[str, int]]] = {
    "well": (histories.well, {}),
    "failed": (histories.failed, {}),
    "cut": (histories.cut, {"a lost node may lose the end of its output": 1}),
    "elastic": (histories.elastic_without_a_host, {}),
    "launcher": (histories.launcher_killed, {"a killed node launcher gives no grace": 2}),
    "both": (histories.both_killed, {"guard and launcher killed may leave processes": 2}),
    "interrupted": (histories.interrupted, {}),
    "moment": (histories.two_at_once, {"of two faults within a moment either is named": 1}),
    "runner": (histories.runner_killed, {"a killed runner says nothing": 3}),
    "all": (
        histories.all_killed,
        {
            "a killed runner says nothing": 2,
            "guard and launcher killed may leave processes": 2,
        },
    ),
    "refused": (histories.refused, {}),
    "few": (histories.too_few, {}),
    "window": (histories.in_a_window, {}),
    "killed": (histories.worker_killed, {}),
    "guard": (histories.guard_killed, {"a killed node launcher gives no grace": 2}),
    "scheduler": (histories.signal_to_a_node, {}),
    "late": (histories.fault_after_the_end, {}),
    "twice": (histories.interrupted_twice, {"a second Ctrl-C gives no grace": 1}),
    "signal": (
        histories.signal_while_stopping,
        {"a signal ends a job that is stopping": 1, "another signal is passed on": 3},
    ),
    "signal after engine": (
        histories.signal_after_the_engine,
        {"a signal ends a job that is stopping": 1},
    ),
    "signal after two": (
        histories.signal_after_two_at_once,
        {"a signal ends a job that is stopping": 2},
    ),
    "unread": (histories.unread, {"nobody reads the output": 1}),
    "stuck": (histories.stuck, {"a process that cannot be ended is left": 2}),
    "start": (
        histories.not_started,
        {"workers beside one that cannot start have no grace": 1},
    ),
    "back": (histories.taken_back, {"a lost node's restart is taken back": 1}),
    "still": (
        histories.cut_while_elastic,
        {"a node without its runner gives less grace": 1},
    ),
    "stopped": (
        histories.both_stopped,
        {"guard and launcher stopped leave workers": 4},
    ),
    "unguarded": (
        histories.stopped_without_a_guard,
        {"guard and launcher stopped leave workers": 4},
    ),
    "missed": (histories.node_missed, {}),
    "stood still": (histories.runner_stopped, {}),
    "removed": (histories.removed, {}),
    "left out": (histories.left_out, {}),
    "suspended": (
        histories.cut_while_suspended,
        {"a node that is cut off while the runner is suspended does not miss it": 4},
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_is_accepted(name: str) -> None:
    """Nothing is wrong with it, and the exceptions that it needs are counted."""
    make, exceptions = GOOD[name]
    assert check(make()) == []
    assert check_exceptions(make()) == exceptions
    assert check(parse(as_text(make()))) == []


def test_a_process_that_has_ended_may_be_signalled() -> None:
    """It is a zombie until it is reaped; only a pid that was nobody's is wrong."""
    history = histories.failed()
    put(history, where(history, "ended", pid=121)[0], "n0", "signalled", pid=121, number=9, by=11)
    assert check(history) == []


# -- changes to a history -----------------------------------------------------------------------


def where(history: History, kind: str, **fields: Any) -> list[int]:
    """Return the indexes of the events of a kind with these fields; `host` is its host."""
    host = fields.pop("host", None)
    return [
        index
        for index, one in enumerate(history)
        if one.kind == kind and (host is None or one.host == host)
        if all(one.fields.get(name) == value for name, value in fields.items())
    ]


def drop(history: History, kind: str, **fields: Any) -> History:
    """Take out the first such event."""
    del history[where(history, kind, **fields)[0]]
    return history


def double(history: History, kind: str, **fields: Any) -> History:
    """Let the first such event happen twice."""
    at = where(history, kind, **fields)[0]
    history.insert(at, history[at])
    return history


def alter(history: History, kind: str, new: dict[str, Any], **fields: Any) -> History:
    """Change fields of the first such event."""
    at = where(history, kind, **fields)[0]
    history[at] = history[at]._replace(fields={**history[at].fields, **new})
    return history


def alter_report(history: History, **new: Any) -> History:
    """Change the report."""
    report = history[where(history, "report")[0]].fields["report"]
    return alter(history, "report", {"report": {**report, **new}})


def put(history: History, at: int, host: str, kind: str, **fields: Any) -> History:
    """Add an event behind another one, at its time."""
    history.insert(at + 1, Event(history[at].time, host, kind, fields))
    return history


def at_end(history: History, host: str, kind: str, **fields: Any) -> History:
    """Add an event just before the report."""
    return put(history, where(history, "report")[0] - 1, host, kind, **fields)


def swap(history: History, kind: str, one: dict[str, Any], other: dict[str, Any]) -> History:
    """Let the first two such events change their fields."""
    first, second = where(history, kind, **one)[0], where(history, kind, **other)[0]
    a, b = history[first], history[second]
    history[first], history[second] = a._replace(fields=b.fields), b._replace(fields=a.fields)
    return history


def later(history: History, kind: str, seconds: float, **fields: Any) -> History:
    """Let the first such event, and all behind it, happen later."""
    at = where(history, kind, **fields)[0]
    moved = [one._replace(time=one.time + seconds) for one in history[at:]]
    return [*history[:at], *moved]


def left(history: History, kind: str, text: str) -> History:
    """Let something be left."""
    return alter(history, "left", {kind: [text]})


def kill_early(history: History, seconds: float = 1.0) -> History:
    """Send SIGKILL to rank 3 so long before its grace is over."""
    at = where(history, "signalled", number=9)[0]
    history[at] = history[at]._replace(time=history[at].time - seconds)
    return history


def run_back(history: History) -> History:
    """Send it before what comes before it in the history."""
    return kill_early(history, 10.0)


def never_killed(history: History) -> History:
    """Leave rank 3 alone after its grace, for two seconds more."""
    at = where(history, "signalled", number=9)[0]
    history = later(history, "signalled", 2.0, number=9)
    del history[at]
    return history


def shown_before(history: History) -> History:
    """Show a line of rank 0 before it was printed."""
    at = where(history, "shown", rank=0)[0]
    line = history.pop(at)
    history.insert(where(history, "printed", rank=0)[0], line)
    return history


def second_worker(history: History, number: int) -> History:
    """Start another worker of rank 0 on n1, in some round, and let it end well."""
    at = where(history, "printed", rank=3)[0]
    put(history, at, "n1", "spawned", pid=77, parent=11, role="worker", name="worker")
    put(history, at + 1, "n1", "worker", pid=77, rank=0, world=4, round=number)
    return put(history, at + 2, "n1", "ended", pid=77, status=0)


def reuse(history: History) -> History:
    """Make a process the worker of another rank while it lives."""
    at = where(history, "worker", rank=0)[0]
    return put(history, at, "n0", "worker", pid=120, rank=1, world=4, round=1)


def beside(history: History) -> History:
    """Let rank 0 of the first round end only when the second one runs."""
    at = where(history, "ended", pid=120)[0]
    gone = history.pop(at)
    behind = where(history, "worker", round=2)[-1]
    history.insert(behind + 1, gone._replace(time=history[behind].time))
    return history


def early_fault(history: History) -> History:
    """Let rank 0 crash two seconds before rank 1, which the report names."""
    at = where(history, "fault")[0] - 1
    at = where(history, "shown", rank=3)[-1]
    put(history, at, "n0", "fault", fault="crash", target=0)
    history = [one for one in history if not _of(one, 120)]
    where_fault = where(history, "fault")[0]
    return put(history, where_fault, "n0", "ended", pid=120, status=256)


def _of(one: Event, pid: int) -> bool:
    """Return whether it is the end of a process, or a signal to it."""
    return one.kind in {"ended", "signalled"} and one.fields["pid"] == pid


def engine_later(history: History, seconds: float) -> History:
    """Kill the engine so long after the crash of rank 0, which no report has."""
    engine = history.pop(where(history, "fault", target="engine")[0])
    crash, told = where(history, "ended", pid=120)[0], where(history, "signalled", pid=120)[0]
    history.insert(told, engine._replace(time=history[crash].time))
    return later(history, "fault", seconds, target="engine")


def unnoticed(history: History) -> History:
    """Kill the launcher of n1 in a job that ends with 0 all the same."""
    at = where(history, "shown", rank=3)[-1]
    return put(history, at, "n1", "fault", fault="kill", target="launcher")


def both_without_words(history: History) -> History:
    """Say nothing of what is left."""
    return alter_report(history, unseen=[])


def told_and_failed(history: History) -> History:
    """Stop rank 1 before its crash, which then is none."""
    at = where(history, "fault")[0]
    return put(history, at, "n0", "signalled", pid=121, number=15, by=11)


def middle(history: History) -> History:
    """Lose a line of rank 2 on the host that is cut off, but show one behind it."""
    return drop(history, "shown", rank=2, line="hello 2")


def rename(history: History, **new: Any) -> History:
    """Change the failure in the report."""
    report = history[where(history, "report")[0]].fields["report"]
    failure = {**report["first_failure"], **new}
    return alter_report(history, first_failure=failure, failures=[failure])


def without(history: History, host: str, pid: int) -> History:
    """Take out a worker, and what it prints."""
    rank = pid - 120
    return [
        one
        for one in history
        if not (one.host == host and one.fields.get("pid") == pid)
        if one.kind not in {"printed", "shown"} or one.fields["rank"] != rank
    ]


def behind(history: History, kind: str) -> History:
    """Add an event behind the report."""
    fields: dict[str, dict[str, Any]] = {
        "round": {"number": 9, "ranks": {"n0": [0, 1], "n1": [2, 3]}},
        "restart": {"reason": ""},
        "shown": {"rank": 0, "line": "hello 0"},
    }
    return put(history, where(history, "report")[0], "head", kind, **fields[kind])


def at_end_of_stop(history: History, **fields: Any) -> History:
    """Let the node launcher of n1 send one signal more."""
    at = where(history, "signalled", host="n1")[-1]
    return put(history, at, "n1", "signalled", by=11, **fields)


def works_on(history: History) -> History:
    """Ask the workers of the removed node for nothing; they end much later."""
    history = [
        one
        for one in history
        if not (one.host == "n1" and one.kind == "signalled" and one.fields["pid"] in {122, 123})
    ]
    return later(history, "ended", 20.0, pid=122)


def never_told(history: History) -> History:
    """Ask rank 0 for nothing after the failure of another, and let it run on."""
    drop(history, "signalled", pid=120, number=15)
    return later(history, "ended", 4.0, pid=120)


def lost_at_end(history: History, reason: str = "closed") -> History:
    """Lose n1 just before the report, and go on without it."""
    return at_end(history, "head", "lost", node="n1", reason=reason, survived=True)


def lose_sight(history: History) -> History:
    """Tell nothing of a lost node but that its connection has ended."""
    (lost,) = history[where(history, "report")[0]].fields["report"]["lost"]
    return alter_report(history, lost=[{**lost, "reason": "its connection has ended"}])


def fault_last(history: History) -> History:
    """Let the fault happen after the report."""
    fault = history.pop(where(history, "fault")[0])
    at = where(history, "report")[0]
    return put(history, at, fault.host, "fault", **fault.fields)


WRONG: list[tuple[str, str, Callable[[], History], Callable[[History], History]]] = [
    ("two jobs", "sound_history", histories.well, lambda h: double(h, "job")),
    ("no job", "sound_history", histories.well, lambda h: drop(h, "job")),
    ("time runs back", "sound_history", histories.failed, run_back),
    ("an end of nobody", "sound_history", histories.well, lambda h: double(h, "ended", pid=120)),
    ("a pid twice", "sound_history", histories.well, lambda h: double(h, "spawned", pid=120)),
    (
        "a signal to nobody",
        "sound_history",
        histories.failed,
        lambda h: at_end_of_stop(h, pid=777, number=15),
    ),
    ("no report", "one_report", histories.well, lambda h: drop(h, "report")),
    ("two reports", "one_report", histories.failed, lambda h: double(h, "report")),
    ("no exit", "one_exit", histories.well, lambda h: drop(h, "exit")),
    ("two exits", "one_exit", histories.cut, lambda h: double(h, "exit")),
    ("a field is missing", "report_shape", histories.well, lambda h: alter_report(h, stopped=None)),
    (
        "an internal error",
        "report_shape",
        histories.well,
        lambda h: alter(
            h,
            "report",
            {
                "report": {
                    "job_id": "a",
                    "exit_code": 70,
                    "cause": "internal error",
                    "error": "KeyError",
                }
            },
        ),
    ),
    ("another exit code", "codes_agree", histories.well, lambda h: alter(h, "exit", {"code": 1})),
    ("0 after a failure", "codes_agree", histories.failed, lambda h: alter(h, "exit", {"code": 0})),
    ("lost with 1", "codes_agree", histories.cut, lambda h: alter_report(h, exit_code=1)),
    ("130 for TERM", "codes_agree", histories.interrupted, lambda h: alter_report(h, signal=15)),
    ("another worker", "failures_true", histories.failed, lambda h: rename(h, pid=120)),
    ("another rank", "failures_true", histories.failed, lambda h: rename(h, rank=3)),
    ("another host", "failures_true", histories.failed, lambda h: rename(h, host="n1")),
    ("another code", "failures_true", histories.failed, lambda h: rename(h, code=3, exit_code=3)),
    ("stopped, not failed", "failures_true", histories.failed, told_and_failed),
    (
        "0 with a failed rank",
        "success_true",
        histories.well,
        lambda h: alter(h, "ended", {"status": 256}, pid=121),
    ),
    ("0 without a rank", "success_true", histories.well, lambda h: without(h, "n1", 123)),
    ("too late", "within_bound", histories.well, lambda h: later(h, "exit", 300.0)),
    ("a round at the end", "report_is_last", histories.well, lambda h: behind(h, "round")),
    ("a restart at the end", "report_is_last", histories.well, lambda h: behind(h, "restart")),
    ("a line at the end", "report_is_last", histories.well, lambda h: behind(h, "shown")),
    ("a process left", "nothing_left", histories.well, lambda h: left(h, "processes", "n0: pid 4")),
    ("a port left", "nothing_left", histories.failed, lambda h: left(h, "ports", "n0: 29500")),
    ("a file left", "nothing_left", histories.cut, lambda h: left(h, "files", "n1: /tmp/x")),
    ("nobody looked", "nothing_left", histories.well, lambda h: drop(h, "left")),
    ("a worker left", "nothing_left", histories.well, lambda h: drop(h, "ended", pid=122)),
    ("a guard left", "nothing_left", histories.failed, lambda h: drop(h, "ended", pid=10)),
    ("left in silence", "nothing_left", histories.both_killed, both_without_words),
    (
        "a stranger killed",
        "strangers_alive",
        histories.well,
        lambda h: left(h, "strangers_killed", "n0: pid 9"),
    ),
    (
        "a stranger signalled",
        "strangers_alive",
        histories.failed,
        lambda h: at_end_of_stop(h, pid=9, number=15),
    ),
    (
        "a descriptor more",
        "resources_level",
        histories.well,
        lambda h: alter(h, "resources", {"descriptors": 8}, when="after"),
    ),
    (
        "a timer more",
        "resources_level",
        histories.well,
        lambda h: alter(h, "resources", {"timers": 2}, when="after"),
    ),
    (
        "not counted again",
        "resources_level",
        histories.well,
        lambda h: drop(h, "resources", when="after"),
    ),
    ("a line twice", "lines_once", histories.well, lambda h: double(h, "shown", rank=1)),
    (
        "a line twice, later",
        "lines_once",
        histories.failed,
        lambda h: at_end(h, "head", "shown", rank=0, line="hello 0"),
    ),
    (
        "lines in another order",
        "lines_in_order",
        histories.well,
        lambda h: swap(h, "shown", {"line": "hello 2"}, {"line": "step of 2"}),
    ),
    (
        "a torn line",
        "lines_whole",
        histories.well,
        lambda h: alter(h, "shown", {"line": "hel"}, line="hello 0"),
    ),
    (
        "two lines in one",
        "lines_whole",
        histories.well,
        lambda h: alter(h, "shown", {"line": "hello 0step of 0"}, line="hello 0"),
    ),
    (
        "another rank's line",
        "lines_printed",
        histories.well,
        lambda h: alter(h, "shown", {"line": "hello 3"}, line="hello 0"),
    ),
    ("shown before it is printed", "lines_printed", histories.well, shown_before),
    (
        "a line lost in the middle",
        "no_middle_lost",
        histories.well,
        lambda h: drop(h, "shown", line="hello 1"),
    ),
    ("a lost node's middle", "no_middle_lost", histories.cut, middle),
    (
        "the last line lost",
        "end_shown",
        histories.failed,
        lambda h: drop(h, "shown", line="step of 3"),
    ),
    (
        "all of a rank lost",
        "end_shown",
        histories.well,
        lambda h: drop(drop(h, "shown", rank=2), "shown", rank=2),
    ),
    (
        "a healthy node's end lost",
        "end_shown",
        histories.cut,
        lambda h: drop(h, "shown", line="step of 0"),
    ),
    ("two of a rank", "one_worker_per_rank", histories.well, lambda h: second_worker(h, 1)),
    ("the old one still lives", "one_worker_per_rank", histories.elastic_without_a_host, beside),
    ("two rounds", "one_round_at_a_time", histories.well, lambda h: second_worker(h, 2)),
    ("the old round lives", "one_round_at_a_time", histories.elastic_without_a_host, beside),
    ("a rank started again", "rank_once_a_round", histories.well, lambda h: second_worker(h, 1)),
    ("a fork taken twice", "spare_used_once", histories.well, reuse),
    (
        "a gap in the ranks",
        "dense_ranks",
        histories.elastic_without_a_host,
        lambda h: alter(h, "round", {"ranks": {"n0": [0, 1], "n2": [4, 5]}}, number=2),
    ),
    (
        "a rank on two hosts",
        "dense_ranks",
        histories.elastic_without_a_host,
        lambda h: alter(h, "round", {"ranks": {"n0": [0, 1], "n2": [1, 2]}}, number=3),
    ),
    (
        "hosts in another order",
        "host_order",
        histories.elastic_without_a_host,
        lambda h: alter(h, "round", {"ranks": {"n2": [0, 1], "n0": [2, 3]}}, number=2),
    ),
    (
        "a worker too few",
        "host_order",
        histories.elastic_without_a_host,
        lambda h: alter(h, "round", {"ranks": {"n0": [0, 1], "n2": [2]}}, number=2),
    ),
    (
        "a round again",
        "rounds_grow",
        histories.elastic_without_a_host,
        lambda h: alter(h, "round", {"number": 2}, number=3),
    ),
    (
        "another world",
        "worlds_equal",
        histories.well,
        lambda h: alter(h, "worker", {"world": 3}, rank=3),
    ),
    (
        "the old world",
        "worlds_equal",
        histories.elastic_without_a_host,
        lambda h: alter(h, "worker", {"world": 6}, rank=0, round=2),
    ),
    (
        "on another host",
        "ranks_in_place",
        histories.well,
        lambda h: alter(alter(h, "worker", {"rank": 3}, rank=0), "worker", {"rank": 0}, pid=123),
    ),
    (
        "a restart too many",
        "restarts_in_budget",
        histories.failed,
        lambda h: at_end(h, "head", "restart", reason="rank 1"),
    ),
    (
        "a restart too many in a window",
        "restarts_in_budget",
        histories.in_a_window,
        lambda h: alter(h, "job", {"window": 30.0}),
    ),
    (
        "a shard twice",
        "shards_once",
        histories.well,
        lambda h: alter(h, "shard", {"shard": 0}, shard=1),
    ),
    (
        "a shard of a healthy rank",
        "shards_once",
        histories.elastic_without_a_host,
        lambda h: put(h, where(h, "shard")[0], "head", "shard", shard=0, rank=1),
    ),
    (
        "a line of the input is lost",
        "input_in_order",
        histories.well,
        lambda h: put(h, 0, "head", "fed", line="asked"),
    ),
    (
        "another line is read",
        "input_in_order",
        histories.well,
        lambda h: put(put(h, 0, "head", "took", rank=0, line="b"), 0, "head", "fed", line="a"),
    ),
    (
        "a child that lives on",
        "children_end_soon",
        histories.well,
        lambda h: put(h, 2, "n0", "spawned", pid=99, parent=120, role="child", name="child"),
    ),
    (
        "a look without an answer",
        "looks_answered",
        histories.well,
        lambda h: put(h, 0, "head", "look", number=0, asks="status", what="asked"),
    ),
    ("SIGTERM twice", "one_stop_signal", histories.failed, lambda h: double(h, "signalled")),
    (
        "TERM, then INT",
        "one_stop_signal",
        histories.failed,
        lambda h: alter(double(h, "signalled"), "signalled", {"number": 2}),
    ),
    (
        "SIGKILL at once",
        "stop_before_kill",
        histories.failed,
        lambda h: drop(h, "signalled", pid=123, number=15),
    ),
    ("SIGKILL too early", "grace_from_below", histories.failed, kill_early),
    (
        "a longer grace was asked for",
        "grace_from_below",
        histories.failed,
        lambda h: alter(h, "job", {"grace": 30.0}),
    ),
    ("no SIGKILL", "grace_from_above", histories.failed, never_killed),
    (
        "SIGKILL too late",
        "grace_from_above",
        histories.failed,
        lambda h: later(h, "signalled", 3.0, number=9),
    ),
    (
        "an unknown fault",
        "known_faults",
        histories.failed,
        lambda h: alter(h, "fault", {"fault": "x"}),
    ),
    ("no fault", "faultless_ends_well", histories.failed, lambda h: drop(h, "fault")),
    (
        "another rank crashed",
        "cause_is_a_fault",
        histories.failed,
        lambda h: alter(h, "fault", {"target": 2}),
    ),
    (
        "another host was cut",
        "cause_is_a_fault",
        histories.cut,
        lambda h: alter(h, "fault", {"target": "n0"}),
    ),
    (
        "another signal came",
        "cause_is_a_fault",
        histories.interrupted,
        lambda h: alter(h, "fault", {"number": 15}),
    ),
    (
        "cut for a moment only",
        "cause_is_a_fault",
        histories.cut,
        lambda h: put(h, where(h, "fault")[0], "head", "healed", fault="cut", target="n1"),
    ),
    ("a fault after the end", "cause_is_a_fault", histories.failed, fault_last),
    ("a fault passed over", "cause_is_named", histories.well, unnoticed),
    ("a kill not told", "kill_is_told", histories.launcher_killed, lose_sight),
    ("the second failure", "first_cause", histories.failed, early_fault),
    (
        "a failure before the engine's end",
        "first_cause",
        histories.signal_after_the_engine,
        lambda h: engine_later(h, 1.0),
    ),
    (
        "nothing was stopped for",
        "first_cause",
        histories.signal_after_the_engine,
        lambda h: alter_report(h, lost=[]),
    ),
    ("lost for nothing", "loss_is_a_fault", histories.well, lost_at_end),
    (
        "silent while the runner was",
        "silence_is_real",
        histories.runner_stopped,
        lambda h: lost_at_end(h, "no heartbeat for 10 s"),
    ),
    ("never missed", "silence_is_noticed", histories.node_missed, lambda h: drop(h, "lost")),
    (
        "missed late",
        "silence_is_noticed",
        histories.node_missed,
        lambda h: later(h, "lost", 2.0),
    ),
    (
        "too few though all are there",
        "given_up_rightly",
        histories.too_few,
        lambda h: drop(drop(h, "fault"), "ended", host="n1", pid=11),
    ),
    (
        "a removed host works",
        "removed_stay_out",
        histories.removed,
        lambda h: alter(h, "round", {"ranks": {"n0": [0, 1], "n1": [2, 3]}}, number=2),
    ),
    (
        "a removed host is not let go",
        "removal_is_told",
        histories.removed,
        lambda h: drop(h, "shown", line="dsrun: removing n1 from the job"),
    ),
    ("a removed host works on", "removed_in_time", histories.removed, works_on),
    (
        "a host left out holds a port",
        "left_out_hold_nothing",
        histories.left_out,
        lambda h: alter(h, "held", {"ports": {"n0": [], "n1": [29500]}}),
    ),
    (
        "a round of nobody",
        "rounds_are_told",
        histories.node_missed,
        lambda h: alter(
            h,
            "shown",
            {"line": "dsrun: next round: 0 workers on n0"},
            line="dsrun: next round: 2 workers on n0",
        ),
    ),
    (
        "what may still run is not told",
        "lost_workers_are_told",
        histories.node_missed,
        lambda h: drop(h, "shown", line="dsrun: may still be running on n1: pids 122-123"),
    ),
    ("never told to end", "stopped_soon", histories.failed, never_told),
]


@pytest.mark.parametrize(("name", "rule", "make", "spoil"), WRONG, ids=[one[0] for one in WRONG])
def test_a_wrong_history_is_refused(
    name: str, rule: str, make: Callable[[], History], spoil: Callable[[History], History]
) -> None:
    """The rule that it breaks is named."""
    assert rule in {one.rule for one in check(spoil(make()))}, name


def test_every_rule_is_broken_once() -> None:
    """No rule is without a history that breaks it."""
    assert {rule for _, rule, _, _ in WRONG} == set(RULES)


def test_a_problem_says_where_it_is() -> None:
    """It has the time and the index of the event that shows it."""
    history = double(histories.well(), "shown", rank=1)
    (problem,) = check(history)
    event = history[problem.at]
    assert (event.kind, event.fields["rank"], event.time) == ("shown", 1, problem.time)
    assert (problem.rule, problem.rank, "hello 1" in problem.text) == ("lines_once", 1, True)


def test_what_a_job_on_held_nodes_leaves_is_not_of_another_job() -> None:
    left = {"processes": ["n0: child (pid 6, S)", "n0: guard (pid 4, S)"]}
    history = [
        *(Event(0.0, "login", "job", {"of": number, "nodes": {"n0": 1}}) for number in (0, 1)),
        Event(1.0, "n0", "spawned", {"pid": 5, "parent": 4}),
        Event(1.0, "n0", "worker", {"pid": 5, "of": 0}),
        Event(2.0, "n0", "spawned", {"pid": 6, "parent": 5}),
        Event(3.0, "login", "left", left),
    ]
    owner, other = hold.jobs(history)
    assert owner[-1] == history[-1]
    assert other[-1].fields["processes"] == left["processes"][1:]
    assert [event.fields["pid"] for event in other if event.kind == "spawned"] == [5]
