"""Where it runs, from little."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import surroundings

if TYPE_CHECKING:
    from pathlib import Path

NOTHING: dict[str, Any] = {
    **dict.fromkeys(("torch", "nvml", "proc")),
    "packages": {"rich": "", "pynvml": "13.0"},
    "errors": {"torch": "no driver"},
}


def test_devices_are_counted_by_their_files(tmp_path: Path) -> None:
    assert surroundings.devices(str(tmp_path)) == []
    (tmp_path / "dev").mkdir()
    for name in ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / "dev" / name).touch()
    assert surroundings.devices(str(tmp_path)) == ["nvidia2", "nvidia10"]


def test_a_sandboxed_kernel_is_named() -> None:
    own = "Linux version 6.1.0 (gcc) #1 SMP\n"
    assert surroundings.kernel(own) == own.strip()
    assert surroundings.kernel("Linux version 4.4.0 gVisor #1\n").endswith("(gVisor)")


def test_what_is_not_known_is_said() -> None:
    told = surroundings.of_machine({"CUDA_VISIBLE_DEVICES": "3", "HOME": "/"}, NOTHING)
    assert told["gpu"] == "none usable by torch"
    assert (told["driver"], told["problems"]) == ("unknown", "torch: no driver")
    assert (told["packages"], told["not installed"]) == ("pynvml=13.0", "rich")
    assert told["variables"] == "CUDA_VISIBLE_DEVICES=3"
