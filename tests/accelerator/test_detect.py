"""Vendors found by their device files, and slots turned into the devices a worker sees."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dsrun.accelerator.detect import choose, detect, visible
from dsrun.accelerator.vendors import CALLED, NUMBER, VENDORS, Accelerator, mask

from ..support.checkout import IMPORTABLE

# What else may lie in /dev on a machine with NVIDIA's driver.
DRIVER_FILES = (
    "nvidiactl",
    "nvidia-uvm",
    "nvidia-uvm-tools",
    "nvidia-modeset",
    "nvidia0.old",
    "ttyUSB0",
)
FULL_UUIDS = (
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
    "MIG-c7384736-a75d-5afc-978f-d2f1294409fd",
)

CPU, CUDA = VENDORS["cpu"], VENDORS["cuda"]


def machine(root: Path, *gpus: int) -> str:
    dev = root / "dev"
    dev.mkdir()
    for name in (*DRIVER_FILES, *(f"nvidia{gpu}" for gpu in gpus)):
        (dev / name).touch()
    (dev / "nvidia-caps").mkdir()
    return str(root)


def test_gpus_are_found_by_their_device_files(tmp_path: Path) -> None:
    assert detect({}, machine(tmp_path, 0, 1)) == CUDA


def test_a_driver_without_gpus_is_no_gpu(tmp_path: Path) -> None:
    assert detect({}, machine(tmp_path)) == CPU


def test_no_dev_folder_means_cpu(tmp_path: Path) -> None:
    assert detect({}, str(tmp_path / "nowhere")) == CPU


@pytest.mark.parametrize("variable", ["DSRUN_ACCELERATOR", "DS_ACCELERATOR"])
def test_the_environment_overrides_what_is_there(tmp_path: Path, variable: str) -> None:
    root = machine(tmp_path, 0)
    assert detect({variable: "cpu"}, root) == CPU
    assert detect({variable: ""}, root) == CUDA


def test_our_own_variable_comes_before_deepspeeds(tmp_path: Path) -> None:
    environ = {"DSRUN_ACCELERATOR": "cuda", "DS_ACCELERATOR": "cpu"}
    assert detect(environ, str(tmp_path)) == CUDA


@pytest.mark.parametrize("variable", ["DSRUN_ACCELERATOR", "DS_ACCELERATOR"])
def test_an_unknown_vendor_is_refused_with_the_known_ones(variable: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the whole text is compared)
        detect({variable: "abacus"})
    assert str(caught.value) == f"{variable}: no accelerator 'abacus' (known: {', '.join(VENDORS)})"


@pytest.mark.parametrize("called", CALLED)
def test_what_people_call_a_vendor(called: str) -> None:
    with pytest.raises(ValueError, match=f"no accelerator '{called.upper()}'") as caught:
        detect({"DSRUN_ACCELERATOR": called.upper()})
    assert str(caught.value).endswith(f"; {CALLED[called]}")


@pytest.mark.parametrize("name", VENDORS)
def test_every_vendor_in_the_table_answers_to_its_name(name: str) -> None:
    vendor = detect({"DSRUN_ACCELERATOR": name})
    assert vendor.name == name
    assert vendor.comm_backend
    assert all(files.path.count(NUMBER) == 1 for files in vendor.device_files)


MASKS = {
    "0,1": ("0", "1"),
    "3,1": ("3", "1"),
    " 0 , 2 ": ("0", "2"),
    "": (),
    "-1": (),
    "NoDevFiles": (),
    "0,2,-1,1": ("0", "2"),
    "0,,1": ("0",),
    "GPU-8932f937,MIG-abc": ("GPU-8932f937", "MIG-abc"),
    ",".join(FULL_UUIDS): FULL_UUIDS,
}


@pytest.mark.parametrize(("text", "entries"), MASKS.items())
def test_a_mask_is_read_as_cuda_reads_it(
    tmp_path: Path, text: str, entries: tuple[str, ...]
) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": text}
    assert visible(CUDA, environ, machine(tmp_path, 0, 1, 2, 3)) == entries


def test_a_mask_counts_even_where_device_files_are_hidden(tmp_path: Path) -> None:
    assert visible(CUDA, {"CUDA_VISIBLE_DEVICES": "4,5"}, str(tmp_path)) == ("4", "5")


def test_without_a_mask_devices_are_counted_not_named(tmp_path: Path) -> None:
    # A container given only /dev/nvidia3 and /dev/nvidia10 calls them 0 and 1.
    assert visible(CUDA, {}, machine(tmp_path, 3, 10)) == ("0", "1")


def test_cpu_slots_are_no_devices(tmp_path: Path) -> None:
    assert visible(CPU, {"CUDA_VISIBLE_DEVICES": "0,1"}, machine(tmp_path, 0, 1)) == ()


FOUR = ("0", "1", "2", "3")
UUIDS = ("GPU-8932f937", "GPU-8971aaaa", "MIG-abc")
CHOICES: list[tuple[Sequence[int | str], Sequence[str], tuple[str, ...]]] = [
    ([0, 1], FOUR, ("0", "1")),
    ([3, 1], FOUR, ("3", "1")),
    (["2"], FOUR, ("2",)),
    ([], FOUR, ()),
    # Positions in the mask come first, as in CUDA_VISIBLE_DEVICES=1,0 ...
    ([0, 1], ("1", "0"), ("1", "0")),
    ([0, 1], ("4", "5"), ("4", "5")),
    # ... then names: Slurm gave devices 4 and 5, and the user wrote those.
    ([4, 5], ("4", "5"), ("4", "5")),
    ([0, 2], ("0", "2"), ("0", "2")),
    ([1], ("GPU-8932f937", "MIG-abc"), ("MIG-abc",)),
    (["MIG-abc"], UUIDS, ("MIG-abc",)),
    (["GPU-8971", "GPU-8932f937"], UUIDS, ("GPU-8971aaaa", "GPU-8932f937")),
    (["GPU-1"], ("GPU-1", "GPU-12"), ("GPU-1",)),
]


@pytest.mark.parametrize(("slots", "seen", "chosen"), CHOICES)
def test_slots_become_devices(
    slots: Sequence[int | str], seen: Sequence[str], chosen: tuple[str, ...]
) -> None:
    assert choose(slots, seen) == chosen


REFUSALS: list[tuple[Sequence[int | str], Sequence[str], str]] = [
    ([8], FOUR, "no slot 8 (visible: slots 0-3)"),
    ([0, 8, 9], FOUR, "no slot 8, 9 (visible: slots 0-3)"),
    ([-1], FOUR, "no slot -1 (visible: slots 0-3)"),
    ([1], ("0",), "no slot 1 (visible: slot 0)"),
    ([7], ("4", "5"), "no slot 7 (visible: slots 0-1 = 4, 5)"),
    # 0 to n-1 is a count, even if an entry has such a name.
    ([0, 1], ("1",), "no slot 1 (visible: slot 0 = 1)"),
    ([0], (), "no slot 0 (visible: none)"),
    (["GPU-1"], UUIDS, f"no slot GPU-1 (visible: slots 0-2 = {', '.join(UUIDS)})"),
    # The beginning of a number is not a shortened UUID.
    (["1"], ("10",), "no slot 1 (visible: slot 0 = 10)"),
    (["GPU-89"], UUIDS, "slot GPU-89 matches GPU-8932f937 and GPU-8971aaaa: give more of its UUID"),
    (
        [0, 5],
        ("4", "5"),
        "slots 0, 5: use either positions or device names, not both (visible: slots 0-1 = 4, 5)",
    ),
    ([1, 1], FOUR, "slots 1 and 1 are the same device, 1"),
    (
        ["GPU-893", "GPU-8932"],
        UUIDS,
        "slots GPU-893 and GPU-8932 are the same device, GPU-8932f937",
    ),
    ([0, 1], ("0", "0"), "slots 0 and 1 are the same device, 0"),
]


@pytest.mark.parametrize(("slots", "seen", "text"), REFUSALS)
def test_bad_slots_are_refused_with_what_is_visible(
    slots: Sequence[int | str], seen: Sequence[str], text: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the whole text is compared)
        choose(slots, seen)
    assert str(caught.value) == text


SHOWN: list[tuple[Accelerator, Sequence[str], Mapping[str, str]]] = [
    (CUDA, ("0", "1"), {"CUDA_VISIBLE_DEVICES": "0,1"}),
    (CUDA, FULL_UUIDS, {"CUDA_VISIBLE_DEVICES": ",".join(FULL_UUIDS)}),
    (CUDA, (), {"CUDA_VISIBLE_DEVICES": "-1"}),
    (CPU, (), {}),
]


@pytest.mark.parametrize(("vendor", "entries", "variables"), SHOWN)
def test_the_mask_of_a_worker(
    vendor: Accelerator, entries: Sequence[str], variables: Mapping[str, str]
) -> None:
    assert mask(vendor, entries) == variables


@pytest.mark.parametrize("entries", [("3", "1"), FULL_UUIDS, ()])
def test_a_mask_written_is_read_back_the_same(entries: tuple[str, ...]) -> None:
    assert visible(CUDA, mask(CUDA, entries)) == entries


def test_detection_loads_no_vendor_library() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from dsrun.accelerator.detect import detect, visible\n"
        "visible(detect({}), {})\n"
        "print(sorted(set(sys.modules) - before))"
    )
    environ = IMPORTABLE
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert "dsrun.accelerator.hardware.present" in done.stdout
    for name in ("torch", "pynvml", "pathlib", "glob", "dsrun.launcher"):
        assert f"'{name}'" not in done.stdout
