"""Variables that decide how libraries behave."""

from __future__ import annotations

from dsrun.launcher.features.quick_check import node_variables as variables


def test_only_those_that_matter_are_told() -> None:
    environ = {
        "NCCL_SOCKET_IFNAME": "eth0",
        "LD_LIBRARY_PATH": "/a:/b",
        "OMP_NUM_THREADS": "4",
        "HOME": "/root",
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "0",
        "DS_API_TOKEN": "secret",
        "TORCH_PASSWORD": "secret",
        "CUDA_LONG": "x" * 5000,
        "OMPI_MCA_PREFIXES": "mca",
    }
    found = variables.that_matter(environ)
    assert list(found) == ["CUDA_LONG", "LD_LIBRARY_PATH", "NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS"]
    assert len(found["CUDA_LONG"]) == variables.LONGEST
    assert found["LD_LIBRARY_PATH"] == "/a:/b"
