"""A made-up machine for each vendor: which devices it has, what masks show, where devices are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from dsrun.accelerator.detect import detect, locate, masks, visible
from dsrun.accelerator.vendors import VENDORS, Accelerator, mask
from dsrun.launcher.specs.environment import NEVER_FORWARDED, travel

from ..support.checkout import IMPORTABLE
from ..support.vendor_machines import (
    ACCELERATOR,
    ADDRESSES,
    BUILDERS,
    DISPLAY,
    ENTRIES,
    NETWORK,
    Machine,
    built,
    machine,
)

__all__ = ["machine"]

DEVICED = [name for name in VENDORS if name not in {"mps", "cpu"}]


def vendor(name: str) -> Accelerator:
    return detect({"DSRUN_ACCELERATOR": name})


# -- which devices a machine has ----------------------------------------------------------------


@pytest.mark.parametrize("name", BUILDERS)
def test_a_vendors_machine_is_known_by_its_files(machine: Machine, name: str) -> None:
    root = built(machine, name)
    found = detect({}, root)
    assert found.name == name
    assert visible(found, {}, root) == ENTRIES[name]
    assert locate(found, ENTRIES[name], {}, root) == ADDRESSES.get(name, {})


def test_every_vendor_has_its_machine_here() -> None:
    assert set(BUILDERS) == set(VENDORS) - {"mps"}


def test_the_first_of_the_table_wins(machine: Machine) -> None:
    assert detect({}, built(machine, "tpu", "mlu", "rocm")).name == "rocm"


@pytest.mark.parametrize(
    ("address", "owner", "kind"),
    [
        ("0000:00:02.0", 0x8086, DISPLAY),  # a processor's own
        ("0000:03:00.0", 0x1A03, DISPLAY),  # a server's management controller
        ("0000:03:00.0", 0x8086, NETWORK),
    ],
)
def test_a_screens_graphics_are_no_accelerator(
    machine: Machine, address: str, owner: int, kind: int
) -> None:
    machine.drm(128, machine.pci(address, owner, kind))
    assert detect({}, str(machine.root)).name == "cpu"


@pytest.mark.parametrize(
    "names",
    [
        ("nvidiactl", "nvidia-uvm"),
        ("kfd",),
        ("davinci_manager",),
        ("accel/accel0",),  # of which /sys tells nothing
        ("vfio/vfio",),
        ("vfio/7",),
        ("cambricon_ctl",),
        ("mtgpu.ctl",),
        ("dri/card0",),
    ],
)
def test_a_driver_without_devices_is_no_accelerator(
    machine: Machine, names: tuple[str, ...]
) -> None:
    machine.dev(*names)
    assert detect({}, str(machine.root)).name == "cpu"


def test_a_gpu_that_the_device_cgroup_hides_does_not_count(machine: Machine) -> None:
    root = built(machine, "rocm")
    # Reading such a node's gpu_id fails; a folder in its place has the same effect.
    hidden = machine.root / "sys/class/kfd/kfd/topology/nodes/2/gpu_id"
    hidden.unlink()
    hidden.mkdir()
    assert visible(vendor("rocm"), {}, root) == ("0",)
    assert locate(vendor("rocm"), ["0"], {}, root) == {"0": "0000:23:00.0"}


def test_a_container_counts_only_the_gaudis_it_was_given(machine: Machine) -> None:
    root = built(machine, "hpu")
    (machine.root / "dev/accel/accel0").unlink()
    assert visible(detect({}, root), {}, root) == ("4",)


def test_older_habana_drivers_have_other_files(machine: Machine) -> None:
    machine.dev("hl0", "hl_controlD0")
    machine.link(
        "sys/class/habanalabs/hl0/device", machine.pci("0000:19:00.0", 0x1DA3, ACCELERATOR)
    )
    root = str(machine.root)
    assert detect({}, root).name == "hpu"
    # Without module ids files are counted.
    assert visible(vendor("hpu"), {}, root) == ("0",)


TILES = {
    "xe": ("tile0", "tile1"),
    "i915": ("drm/card1/gt/gt0", "drm/card1/gt/gt1"),
}


@pytest.mark.parametrize("driver", TILES)
def test_intels_tiles_are_devices_unless_told_otherwise(machine: Machine, driver: str) -> None:
    root = built(machine, "xpu")
    for tile in TILES[driver]:
        machine.write(f"sys/bus/pci/devices/0000:3a:00.0/{tile}/id")
    assert visible(vendor("xpu"), {}, root) == ("0", "1", "2")
    assert locate(vendor("xpu"), ["1", "2"], {}, root) == {"1": "0000:3a:00.0", "2": "0000:9a:00.0"}
    whole = {"ZE_FLAT_DEVICE_HIERARCHY": "composite"}
    assert visible(vendor("xpu"), whole, root) == ("0", "1")
    assert locate(vendor("xpu"), ["0.1", "1.0"], whole, root) == {
        "0.1": "0000:3a:00.0",
        "1.0": "0000:9a:00.0",
    }


def test_neuron_cores_may_be_joined_in_pairs(machine: Machine) -> None:
    environ = {"NEURON_LOGICAL_NC_CONFIG": "2"}
    assert visible(vendor("neuron"), environ, built(machine, "neuron")) == ("0",)


def test_deepspeed_calls_amds_gpus_cuda(machine: Machine, tmp_path: Path) -> None:
    root = built(machine, "rocm")
    assert detect({"DS_ACCELERATOR": "cuda"}, root).name == "rocm"
    assert detect({"DSRUN_ACCELERATOR": "cuda"}, root).name == "cuda"
    assert detect({"DS_ACCELERATOR": "cuda"}, str(tmp_path / "none")).name == "cuda"


@pytest.mark.parametrize("name", ["cuda", "cpu", "xpu", "npu", "hpu", "mlu", "mps", "sdaa"])
def test_deepspeeds_names_are_known(name: str, tmp_path: Path) -> None:
    assert detect({"DS_ACCELERATOR": name}, str(tmp_path)).name == name


def test_apples_gpu_is_one_and_only_by_name(tmp_path: Path) -> None:
    assert visible(vendor("mps"), {}, str(tmp_path)) == ("0",)


LISTINGS = """
import sys
from dsrun.accelerator.detect import detect
seen = []
sys.addaudithook(lambda event, args: seen.append(str(args[0])) if event == "os.listdir" else None)
name = detect({}, sys.argv[1]).name
print(name, [folder for folder in seen if folder.startswith(sys.argv[1])])
"""


def test_a_machine_without_devices_has_one_folder_listed(machine: Machine) -> None:
    root = built(machine, "cpu")
    ran = [sys.executable, "-c", LISTINGS, root]
    environ = IMPORTABLE
    done = subprocess.run(ran, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cpu", f"['{root}/dev']"]


# -- masks ---------------------------------------------------------------------------------------

MASKED: list[tuple[str, Mapping[str, str], Sequence[str]]] = [
    ("rocm", {"HIP_VISIBLE_DEVICES": "1,0"}, ("1", "0")),
    ("rocm", {"CUDA_VISIBLE_DEVICES": "1"}, ("1",)),
    ("rocm", {"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}, ("1",)),
    ("rocm", {"HIP_VISIBLE_DEVICES": "0,-1,1"}, ("0",)),
    ("rocm", {"HIP_VISIBLE_DEVICES": ""}, ()),
    # ROCr limits and renumbers first: the rest counts from 0.
    ("rocm", {"ROCR_VISIBLE_DEVICES": "4,6,7"}, ("0", "1", "2")),
    ("rocm", {"ROCR_VISIBLE_DEVICES": "GPU-0000000000000abc"}, ("0",)),
    ("rocm", {"ROCR_VISIBLE_DEVICES": ""}, ()),
    ("rocm", {"ROCR_VISIBLE_DEVICES": "4,6,7", "HIP_VISIBLE_DEVICES": "2,0"}, ("2", "0")),
    ("rocm", {"ROCR_VISIBLE_DEVICES": "4,6", "HIP_VISIBLE_DEVICES": "1,2,0"}, ("1",)),
    # Slurm's own choice, written to both.
    ("rocm", {"ROCR_VISIBLE_DEVICES": "4,6", "CUDA_VISIBLE_DEVICES": "4,6"}, ("0", "1")),
    ("rocm", {"GPU_DEVICE_ORDINAL": "1"}, ("0", "1")),
    ("xpu", {"ZE_AFFINITY_MASK": "0.1,1.0"}, ("0.1", "1.0")),
    ("npu", {"ASCEND_RT_VISIBLE_DEVICES": "6,7"}, ("6", "7")),
    ("hpu", {"HABANA_VISIBLE_MODULES": "4"}, ("4",)),
    ("hpu", {"HABANA_VISIBLE_DEVICES": "all"}, ("4", "5")),
    ("mlu", {"MLU_VISIBLE_DEVICES": "1"}, ("1",)),
    ("musa", {"MUSA_VISIBLE_DEVICES": "1,0"}, ("1", "0")),
    ("sdaa", {"SDAA_VISIBLE_DEVICES": "NoDevFiles"}, ()),
    ("neuron", {"NEURON_RT_VISIBLE_CORES": "0-3,8"}, ("0", "1", "2", "3", "8")),
    ("neuron", {"NEURON_RT_VISIBLE_CORES": "-1"}, ()),
    ("tpu", {"TPU_VISIBLE_CHIPS": "2", "TPU_VISIBLE_DEVICES": "0"}, ("2",)),
    ("tpu", {"TPU_VISIBLE_DEVICES": "3"}, ("3",)),
    # Only some vendors allow ranges.
    ("cuda", {"CUDA_VISIBLE_DEVICES": "0-3"}, ("0-3",)),
    # Another vendor's mask has no effect.
    ("npu", {"CUDA_VISIBLE_DEVICES": "0"}, ("0", "1")),
]


@pytest.mark.parametrize(("name", "environ", "entries"), MASKED)
def test_a_mask_is_read_as_the_vendor_reads_it(
    machine: Machine, name: str, environ: Mapping[str, str], entries: Sequence[str]
) -> None:
    assert visible(vendor(name), environ, built(machine, name)) == tuple(entries)


@pytest.mark.parametrize("name", DEVICED)
def test_a_mask_is_written_to_every_name_and_read_back(name: str) -> None:
    one = vendor(name)
    written = mask(one, ["3", "1"])
    assert set(written) == set(one.visible_env) != set()
    assert visible(one, written) == ("3", "1")
    assert not set(written) & set(one.outer_env)


def test_a_mask_through_a_mask_keeps_to_the_outer_one(machine: Machine) -> None:
    root = built(machine, "rocm")
    environ = {"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "1,0"}
    shown = {**environ, **mask(vendor("rocm"), ["1"])}
    assert visible(vendor("rocm"), shown, root) == ("1",)
    assert locate(vendor("rocm"), ["1"], shown, root) == {"1": "0000:c1:00.0"}


def test_masks_in_force_are_named_in_order() -> None:
    environ = {"ROCR_VISIBLE_DEVICES": "4", "CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"}
    assert list(masks(vendor("rocm"), environ)) == ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"]


@pytest.mark.parametrize("name", DEVICED)
def test_a_mask_stays_on_its_machine_and_settings_travel(name: str) -> None:
    one = vendor(name)
    setting = f"{one.env_prefixes[0]}SETTING"
    variables = {setting: "1", **dict.fromkeys((*one.visible_env, *one.outer_env), "0")}
    sent = travel(variables, {}, one.env_prefixes).values
    assert sent == {setting: "1"}
    assert all(
        any(fnmatchcase(mask, stays) for stays in NEVER_FORWARDED) for mask in one.visible_env
    )


# -- where devices are ---------------------------------------------------------------------------

UUIDS = {"GPU-17aa": "0000:17:00.0", "GPU-1": "0000:17:00.0", "GPU-65": "0000:65:00.0"}


@pytest.mark.parametrize(("entry", "address"), UUIDS.items())
def test_nvidias_uuids_may_be_shortened(machine: Machine, entry: str, address: str) -> None:
    assert locate(vendor("cuda"), [entry], {}, built(machine, "cuda")) == {entry: address}


@pytest.mark.parametrize("entry", ["GPU-", "GPU-99", "MIG-c7384736", "MIG-GPU-17aa/1/0", "2", ""])
def test_what_is_not_known_is_left_out(machine: Machine, entry: str) -> None:
    assert locate(vendor("cuda"), [entry], {}, built(machine, "cuda")) == {}


def test_in_a_container_device_files_decide_which_gpu_is_the_first(machine: Machine) -> None:
    root = built(machine, "cuda")
    (machine.root / "dev/nvidia0").unlink()
    assert locate(vendor("cuda"), ["0", "1", "GPU-65bb"], {}, root) == {
        "0": "0000:65:00.0",
        "GPU-65bb": "0000:65:00.0",
    }


def test_minors_need_not_follow_addresses(machine: Machine) -> None:
    machine.dev("nvidia0", "nvidia1")
    machine.nvidia(("0000:65:00.0", "GPU-a", 0), ("0000:17:00.0", "GPU-b", 1))
    assert locate(vendor("cuda"), ["0"], {}, str(machine.root)) == {"0": "0000:17:00.0"}


def test_unlike_gpus_are_numbered_by_speed_unless_told_otherwise(machine: Machine) -> None:
    machine.dev("nvidia0", "nvidia1")
    machine.nvidia(("0000:17:00.0", "GPU-a", 0), model="NVIDIA T4")
    machine.nvidia(("0000:65:00.0", "GPU-b", 1), model="NVIDIA H100")
    root = str(machine.root)
    assert locate(vendor("cuda"), ["0", "GPU-b"], {}, root) == {"GPU-b": "0000:65:00.0"}
    ordered = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert locate(vendor("cuda"), ["0"], ordered, root) == {"0": "0000:17:00.0"}


def test_a_gpu_without_the_drivers_word_leaves_numbers_unknown(machine: Machine) -> None:
    machine.dev("nvidia0", "nvidia1")
    machine.nvidia(("0000:17:00.0", "GPU-a", 0))
    root = str(machine.root)
    assert locate(vendor("cuda"), ["0", "GPU-a"], {}, root) == {"GPU-a": "0000:17:00.0"}


def test_an_excluded_gpu_has_no_number(machine: Machine) -> None:
    root = built(machine, "cuda")
    told = machine.root / "proc/driver/nvidia/gpus/0000:17:00.0/information"
    told.write_text(told.read_text().replace("Excluded:\t No", "Excluded:\t Yes"))
    assert locate(vendor("cuda"), ["0", "1"], {}, root) == {"0": "0000:65:00.0"}


OUTER: list[tuple[str, Mapping[str, str]]] = [
    ("1", {"0": "0000:23:00.0"}),
    ("1,0", {"0": "0000:23:00.0", "1": "0000:c1:00.0"}),
    ("GPU-0000000000000abd", {"0": "0000:23:00.0"}),
    ("GPU-0000000000000fff", {}),
]


@pytest.mark.parametrize(("outer", "addresses"), OUTER)
def test_amds_numbers_count_within_the_outer_mask(
    machine: Machine, outer: str, addresses: Mapping[str, str]
) -> None:
    environ = {"ROCR_VISIBLE_DEVICES": outer}
    assert locate(vendor("rocm"), ["0", "1"], environ, built(machine, "rocm")) == addresses


def test_a_partition_of_a_gpu_is_where_the_gpu_is(machine: Machine) -> None:
    machine.kfd((0, 0, 0), (11, 0x2300, 1), (12, 0x10002300, 2))
    machine.pci("0000:23:00.0", 0x1002, ACCELERATOR)
    found = locate(vendor("rocm"), ["0", "1"], {}, str(machine.root))
    assert found == {"0": "0000:23:00.0", "1": "0000:23:00.0"}


def test_the_nth_file_is_the_nth_function_also_in_a_container(machine: Machine) -> None:
    root = built(machine, "mlu")
    (machine.root / "dev/cambricon_dev0").unlink()
    assert locate(vendor("mlu"), ["0", "1"], {}, root) == {"0": "0000:d8:00.0"}
