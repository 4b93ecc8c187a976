"""The file by which nodes see that a folder is shared."""

from __future__ import annotations

from pathlib import Path

from dsrun.launcher.features.sync.runner_shared import PROBE, SharedProbe


def test_it_is_there_as_long_as_a_node_looks_for_it(tmp_path: Path) -> None:
    probe = SharedProbe(str(tmp_path))
    name = probe.start()
    assert name.startswith(PROBE)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert probe.start() == name
    probe.close()
    assert (tmp_path / name).exists()
    probe.close()
    assert not any(tmp_path.iterdir())
    assert probe.start() != name
    probe.close()
    assert not any(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_to_has_none() -> None:
    probe = SharedProbe("/proc")
    assert probe.start() == ""
    probe.close()
    assert not [path for path in Path("/proc").iterdir() if path.name.startswith(PROBE)]
