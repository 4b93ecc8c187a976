"""Beginnings of options: those that torchrun or deepspeed accept, and no others."""

from __future__ import annotations

import argparse

import pytest

from dsrun.launcher.cli.abbreviations import DEEPSPEED, TORCHRUN, whole
from dsrun.launcher.cli.options import table


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("--nproc_per", "nproc_per_node"),
        ("--nproc-per", "nproc_per_node"),
        ("--nproc", "nproc_per_node"),
        ("--nproc-per_n", ""),
        ("--num-g", ""),
        ("--v", ""),
        ("--num_g", "num_gpus"),
        ("--num", "numa_binding"),
        ("--num_", ""),
        ("--rdzv", ""),
        ("--rdzv_e", "rdzv_endpoint"),
        ("--log", "log_level"),
        ("--max", ""),
        ("--max_r", "max_restarts"),
        ("--max_e", "max_elastic_nodes"),
        ("--master_p", "master_port"),
        ("--ssh", "ssh_port"),
        ("--expor", ""),
        ("--repor", ""),
        ("--", ""),
        ("-nproc", ""),
        ("-s", ""),
    ],
)
def test_what_a_beginning_means(word: str, meant: str) -> None:
    assert whole(word) == meant


def argparses(parser: argparse.ArgumentParser, word: str) -> set[str]:
    """Return the options that argparse finds for a word."""
    return {one[0].dest for one in parser._get_option_tuples(word)}


def deepspeeds() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    for name in DEEPSPEED:
        if name != "help":
            parser.add_argument(f"--{name}")
    return parser


def test_they_are_those_that_argparse_finds() -> None:
    run = pytest.importorskip("torch.distributed.run")
    parsers = [run.get_args_parser(), deepspeeds()]
    assert {one.dest for one in parsers[0]._actions if one.option_strings} == {*TORCHRUN}
    dashed = [name.replace("_", "-") for name in (*TORCHRUN, *DEEPSPEED)]
    for name in {*TORCHRUN, *DEEPSPEED, *dashed, *(name for name in table() if name[0] != "-")}:
        for length in range(1, len(name) + 1):
            word = f"--{name[:length]}"
            if any(word in parser._option_string_actions for parser in parsers):
                continue  # a whole option
            found = [argparses(parser, word) for parser in parsers]
            meant = {next(iter(one)) for one in found if len(one) == 1}
            assert whole(word) == (next(iter(meant)) if len(meant) == 1 else ""), word
