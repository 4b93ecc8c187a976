"""Policies as the options ask for them."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.planning.policies import output_policy, supervision_policy
from dsrun.launcher.specs.policies import OutputPolicy, SupervisionPolicy


def test_without_options_policies_are_those_of_a_program() -> None:
    assert supervision_policy(Options(), {}) == SupervisionPolicy()
    assert output_policy(Options()) == OutputPolicy()


def test_how_a_job_is_watched() -> None:
    options = Options(grace=2.0, heartbeat_timeout=3.0, connect_timeout=4.0, start_timeout=5.0)
    assert supervision_policy(options, {}) == SupervisionPolicy(
        4.0, 5.0, 3.0, 2.0, sign_timeout=5.0
    )
    options = Options(signals_to_handle="SIGTERM, sigusr1", graceful_term_ok=True)
    policy = supervision_policy(options, {})
    assert (policy.end_signals, policy.graceful_term_ok) == (("SIGTERM", " sigusr1"), True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            Options(redirects="4", log_dir="l"),
            "--redirects '4': expected 0, 1, 2 or 3, or such numbers by local rank: 0:1,1:3",
        ),
        (
            Options(tee="x:1", log_dir="l"),
            "--tee 'x:1': expected 0, 1, 2 or 3, or such numbers by local rank: 0:1,1:3",
        ),
        (
            Options(prefix="{hots}"),
            "--prefix '{hots}': expected text with any of"
            " {host} {rank} {local_rank} {node_rank} {job} {role}",
        ),
        *(
            (
                Options(prefix=form),
                f"--prefix {form!r}: expected text with any of"
                " {host} {rank} {local_rank} {node_rank} {job} {role}",
            )
            for form in ("{", "{}", "{0}", "{rank!x}", "{rank.x}", "{rank[0]}", "{host:d}")
        ),
        *(
            (
                Options(fold=True, prefix=form),
                "--fold: expected {rank} in --prefix, without a format for numbers,"
                f" not {form!r}",
            )
            for form in ("", "{host}| ", "{rank:02d}| ", "{rank.real}| ")
        ),
        (
            Options(fold=True, no_fold=True),
            "conflicting options: --fold and --no_fold; give one of them",
        ),
    ],
)
def test_output_options_that_are_not_understood(options: Options, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        output_policy(options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("options", "fold"),
    [
        (Options(), "auto"),
        (Options(prefix=""), "auto"),
        (Options(fold=True, prefix="[{rank}] "), "always"),
        (Options(no_fold=True), "never"),
    ],
)
def test_when_lines_are_folded(options: Options, fold: str) -> None:
    assert output_policy(options).fold == fold


@pytest.mark.parametrize("text", ["x", "3-1", "0,0", "-1", "0,,1", "GPU-1"])
def test_ranks_that_are_no_numbers(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--console_ranks .*: expected ranks such as 0,8-15"):
        output_policy(Options(console_ranks=text))
    with pytest.raises(UsageError, match=r"^--local_ranks_filter .*: expected ranks such as"):
        output_policy(Options(local_ranks_filter=text))
