"""What a program has said last."""

from __future__ import annotations

from dsrun.launcher.features.diagnosis.runner_last_output import AFTER, bare, last_words

FRAME = '  File "/work/train.py", line 3, in step\n    go()\n'
TRACEBACK = f"Traceback (most recent call last):\n{FRAME}"


def names(text: str, code: int = 1) -> list[str]:
    return [one.name for one in last_words(text, code).raised]


def test_an_exception_has_a_name_a_message_and_a_place() -> None:
    (raised,) = last_words(f"step 1\n{TRACEBACK}a.b.Wrong: first\n\tsecond\n", 1).raised
    assert raised == ("Wrong", "a.b.Wrong: first\n\tsecond", "train.py:3", True)


def test_one_without_a_message() -> None:
    assert names(f"{TRACEBACK}KeyboardInterrupt\n") == ["KeyboardInterrupt"]


def test_a_traceback_whose_beginning_is_cut_off() -> None:
    assert names(f"{FRAME}ValueError: x\n") == ["ValueError"]


def test_exceptions_that_belong_together_the_last_first() -> None:
    link = "\nDuring handling of the above exception, another exception occurred:\n\n"
    text = f"{TRACEBACK}KeyError: 1\n{link}{TRACEBACK}ValueError: 2\n"
    assert names(text) == ["ValueError", "KeyError"]
    assert [one.certain for one in last_words(text, 1).raised] == [True, False]
    cause = text.replace(link, "\nThe above exception was the direct cause of this:\n\n")
    assert [one.certain for one in last_words(cause, 1).raised] == [True, True]
    assert names(text.replace(link, "\nanother try\n\n")) == ["ValueError"]


def test_faulthandlers_frames_are_no_traceback() -> None:
    assert names('Fatal Python error: Aborted\n\n  File "t.py", line 3 in step\nX: y\n', -6) == []


def test_what_follows_an_exception_shows_that_it_has_ended_nothing() -> None:
    raised = f"{TRACEBACK}ValueError: x\n"
    assert names(raised + "line\n" * AFTER)
    assert not names(raised + "line\n" * (AFTER + 1))
    assert not names(raised + "line\n" * 4, code=3)
    assert names(raised + "frame #0: f() in lib.so\n" * 40)


def test_an_exception_of_cpp_counts_only_if_it_has_ended_the_program() -> None:
    text = "terminate called after throwing an instance of 'c10::Error'\n  what():  no\n"
    (raised,) = last_words(text, -6).raised
    assert raised == ("Error", "no", "", True)
    assert names(text) == []


def test_controls_colours_and_overwritten_parts_are_gone() -> None:
    assert last_words("10%\r20%\x1b[31m!\x1b[0m\x07\n\n", 1).lines == ("20%!\\x07",)


def test_an_exception_without_its_traceback_is_the_last_line() -> None:
    prefix = "(EngineCore_0 pid=18) ERROR 02-03 11:03:37 [core.py:7] "
    found = bare(("step 1", f"{prefix}ValueError: too little"))
    assert found == ("ValueError", "ValueError: too little", "", True)
    assert bare(("ValueError: too little", "step 1")) is None
    assert bare(("retrying: ValueError: too little",)) is None
    assert bare(("Exception in thread Thread-3:", "ValueError: too little")) is None


def test_one_of_nccl_has_its_account_below() -> None:
    lines = ("a.DistBackendError: NCCL error", "ncclX: no", "Last error:", "Bootstrap : no")
    found = bare(lines)
    assert found is not None
    assert found.text == "\n".join(lines)
