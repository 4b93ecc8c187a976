"""What Slurm tells of the network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.resources.slurm_topology import blocks

from ..support.properties import same_examples

BLOCKS = """\
BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2
BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2
BlockName=b3 BlockIndex=2 BlockSize=2
AggregatedBlock=b[1-2] BlockIndex=3 Nodes=n[1-4] BlockSize=4
"""

TREE = """\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-1]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[2-3]
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[4-5]
SwitchName=s3 Level=0 LinkSpeed=1 Nodes=n[6-7]
SwitchName=s4 Level=1 LinkSpeed=1 Nodes=n[0-1,4-5] Switches=s0,s2
SwitchName=s5 Level=1 LinkSpeed=1 Nodes=n[2-3,6-7] Switches=s[1,3]
SwitchName=s6 Level=2 LinkSpeed=1 Nodes=n[0-7] Switches=s[4-5]
"""


def test_blocks_in_their_order() -> None:
    assert blocks(BLOCKS) == {"n1": "b1", "n2": "b1", "n3": "b2", "n4": "b2"}


def test_leaf_switches_that_are_near_each_other_are_in_a_row() -> None:
    found = blocks(TREE)
    assert list(dict.fromkeys(found.values())) == ["s0", "s2", "s1", "s3"]
    assert (found["n4"], found["n7"], len(found)) == ("s2", "s3", 8)


def test_switches_that_stand_beside_each_other() -> None:
    text = "SwitchName=s0 Level=0 Nodes=a\nSwitchName=s1 Level=0 Nodes=b\n"
    assert blocks(text) == {"a": "s0", "b": "s1"}


def test_switches_in_a_circle_end() -> None:
    text = "SwitchName=a Level=1 Switches=b\nSwitchName=b Level=1 Switches=a,c\n"
    with pytest.raises(UsageError, match="shows no blocks or switches"):
        blocks(text)


@pytest.mark.parametrize("text", ["", "scontrol: nothing\n", "SwitchName\n"])
def test_nothing_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="scontrol show topology: shows no blocks"):
        blocks(text)


@given(st.text() | st.lists(st.sampled_from(TREE.split())).map(" ".join))
@same_examples
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = blocks(text)
    except UsageError:
        return
    assert all(isinstance(name, str) for name in found)
