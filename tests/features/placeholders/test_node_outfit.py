"""The values of placeholders on a node."""

from __future__ import annotations

from dsrun.launcher.features.placeholders.node_outfit import values_of
from dsrun.launcher.specs.plan import encode_world

ENV = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "NODE_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "DSRUN_WORLD_INFO": encode_world({"n2": (0,), "n1": (0,)}),
}


def test_values() -> None:
    assert values_of(ENV, "n1") == {
        "rank": "5",
        "local_rank": "1",
        "world_size": "8",
        "node_rank": "1",
        "nnodes": "2",
        "master_addr": "10.0.0.1",
        "master_port": "29500",
        "host": "n1",
        "hosts": "n2,n1",
        "devices": "0,1",
    }


def test_unknown_values_are_empty() -> None:
    found = values_of({"DSRUN_WORLD_INFO": "damaged"}, "n1")
    assert found["hosts"] == "n1"
    assert found["devices"] == found["rank"] == ""
