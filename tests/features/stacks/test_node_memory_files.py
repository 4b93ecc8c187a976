"""Files in memory that another process has made."""

from __future__ import annotations

import os

import pytest

from dsrun.launcher.features.stacks import node_memory_files as memory_files

from ...support.leaks import open_files


def test_a_file_is_found_by_the_beginning_of_its_name() -> None:
    fd = os.memfd_create("dsrun-test-77")
    before = open_files()
    try:
        assert memory_files.find(os.getpid(), "dsrun-test-") == (fd, "77")
        assert memory_files.find(os.getpid(), "dsrun-other") == (-1, "")
        assert memory_files.find(1 << 30, "dsrun-test-") == (-1, "")
        os.write(fd, b"before")
        file = memory_files.MemoryFile(os.getpid(), fd)
        assert file.size == 0
        os.pwrite(fd, b"after", 0)
        assert (file.size, file.read(3)) == (5, b"aft")
        file.close()
        assert os.fstat(fd).st_size == 0
        assert open_files() == before
    finally:
        os.close(fd)
    with pytest.raises(OSError, match="No such file"):
        memory_files.MemoryFile(os.getpid(), fd)
