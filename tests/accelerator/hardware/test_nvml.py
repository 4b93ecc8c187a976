"""NVIDIA GPUs: with the real library if installed, with /proc trees, and without both."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from dsrun.accelerator.hardware import nvml
from dsrun.accelerator.hardware.nvml import Gpu, GpuProcess, Rows, ask, bits, from_proc, problems

from ...support.checkout import IMPORTABLE
from ...support.limits import HANG
from ...support.needs import need_modules

UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
GIB = 1 << 30

CLOSED = "NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023"
OPEN = (
    "NVIDIA UNIX Open Kernel Module for x86_64  550.54.15"
    "  Release Build  (builder@host-1.2)  Tue Mar  5 22:15:33 UTC 2024"
)


def shown(code: str, *options: str) -> str:
    """Return what a new Python prints, including standard error."""
    argv = [sys.executable, *options, "-c", f"from dsrun.accelerator.hardware import nvml\n{code}"]
    done = subprocess.run(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        timeout=HANG,
        env={**os.environ, **IMPORTABLE},
    )
    return done.stdout


def smi(fields: str) -> list[list[str]]:
    """Return what nvidia-smi reports of each GPU."""
    argv = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return [line.split(", ") for line in done.stdout.splitlines()]


def real() -> tuple[Gpu, ...]:
    """Return the GPUs of this machine, which has some."""
    gpus = nvml.read()
    assert gpus, "no NVIDIA GPU here"
    return gpus


@pytest.mark.gpu
def test_real_gpus_are_what_nvidia_smi_says_they_are() -> None:
    told = smi("index,name,uuid,pci.bus_id,memory.total,driver_version,ecc.mode.current")
    gpus = real()
    assert len(gpus) == len(told)
    for gpu, (index, name, uuid, address, total, driver, ecc) in zip(gpus, told, strict=True):
        assert (gpu.index, gpu.name, gpu.uuid) == (int(index), name, uuid)
        assert gpu.address == address.lower()[-12:]
        assert gpu.total is not None
        assert gpu.total >> 20 == int(total)
        assert gpu.driver == driver
        assert gpu.ecc == {"Enabled": True, "Disabled": False}.get(ecc)


@pytest.mark.gpu
def test_real_gpus_have_all_the_rest() -> None:
    for gpu in real():
        assert gpu.used is not None
        assert gpu.total is not None
        assert 0 <= gpu.used <= gpu.total
        assert gpu.cuda is not None
        assert re.fullmatch(r"\d+\.\d", gpu.cuda)
        assert gpu.minor is not None
        assert gpu.cpus
        assert all(mig.parent == gpu.uuid for mig in gpu.migs)
        assert all(re.fullmatch(r"[0-9a-f]{4}:[0-9a-f:.]+", peer) for peer in gpu.peers)


@pytest.mark.gpu
def test_real_gpus_are_the_same_in_proc() -> None:
    gpus, told = real(), from_proc()
    if not told:
        pytest.skip("/proc/driver/nvidia is hidden here")
    for gpu, same in zip(gpus, told, strict=True):
        assert (gpu.address, gpu.uuid, gpu.driver) == (same.address, same.uuid, same.driver)
        assert (gpu.index, gpu.minor, gpu.name) == (same.index, same.minor, same.name)


@pytest.mark.gpu
def test_the_library_is_closed_as_often_as_opened() -> None:
    assert real()
    code = (
        "nvml.read(); nvml.read()\n"
        "import pynvml\n"
        "try: pynvml.nvmlDeviceGetCount()\n"
        "except pynvml.NVMLError_Uninitialized: print('closed')"
    )
    assert shown(code) == "closed\n"


def test_without_a_driver_there_are_none_and_nothing_is_said() -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("an NVIDIA driver is here")
    need_modules("pynvml")
    assert shown("print(nvml.read())") == "()\n"


def test_without_the_bindings_there_are_none_and_nothing_is_said() -> None:
    # -S: no site-packages, so no pynvml.
    code = "import importlib.util; print(nvml.read(), importlib.util.find_spec('pynvml'))"
    assert shown(code, "-S") == "() None\n"


def test_the_bindings_are_imported_when_asked_and_no_sooner() -> None:
    assert shown("import sys; print('pynvml' in sys.modules)") == "False\n"


def test_the_bindings_have_every_name_that_is_asked_for() -> None:
    need_modules("pynvml")
    source = Path(nvml.__file__).read_text()
    names = set(re.findall(r"""(?:nvml\.|")(nvml[A-Z]\w+|NVML_\w+)""", source))
    assert len(names) > 20
    assert [name for name in sorted(names) if not hasattr(import_module("pynvml"), name)] == []


def refusing(error: str) -> Callable[[], object]:
    """A call that fails with one of NVML's errors."""
    need_modules("pynvml")
    pynvml = import_module("pynvml")

    def refuse() -> object:
        raise pynvml.NVMLError(getattr(pynvml, error))

    return refuse


REFUSALS = ("NOT_SUPPORTED", "NO_PERMISSION", "FUNCTION_NOT_FOUND", "GPU_IS_LOST", "UNKNOWN")


@pytest.mark.parametrize("error", REFUSALS)
def test_a_refused_question_has_no_answer(error: str) -> None:
    assert ask(refusing(f"NVML_ERROR_{error}")) is None


def test_a_name_that_is_no_text_is_no_answer() -> None:
    assert ask(b"\xff".decode) is None


def test_an_answer_is_passed_on_even_if_it_is_nothing() -> None:
    assert ask(divmod, 7, 2) == (3, 1)
    assert ask(int) == 0


def test_ctrl_c_is_no_refusal() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(interrupted)


MASKS = {(): (), (0,): (), (0b1011,): (0, 1, 3), (0, 1 << 63 | 1): (64, 127)}


@pytest.mark.parametrize(("words", "cpus"), MASKS.items())
def test_words_of_a_mask_are_numbers_of_cpus(words: tuple[int, ...], cpus: tuple[int, ...]) -> None:
    assert bits(words) == cpus


def information(root: Path, address: str, **others: str) -> None:
    fields = {
        "Model": "NVIDIA H100 80GB HBM3",
        "IRQ": "345",
        "GPU UUID": UUID,
        "Video BIOS": "96.00.89.00.01",
        "Bus Type": "PCIe",
        "DMA Size": "52 bits",
        "DMA Mask": "0xfffffffffffff",
        "Bus Location": address,
        "Device Minor": "0",
        "GPU Excluded": "No",
        **{name.replace("_", " "): text for name, text in others.items()},
    }
    folder = root / "proc/driver/nvidia/gpus" / address
    folder.mkdir(parents=True)
    text = "".join(f"{name + ':':<8} \t {text}\n" for name, text in fields.items())
    (folder / "information").write_text(text)


def version(root: Path, text: str) -> None:
    file = root / "proc/driver/nvidia/version"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"NVRM version: {text}\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n")


def test_proc_without_a_driver_has_no_gpus(tmp_path: Path) -> None:
    assert from_proc(str(tmp_path)) == ()


def test_a_driver_without_gpus_has_none(tmp_path: Path) -> None:
    version(tmp_path, CLOSED)
    assert from_proc(str(tmp_path)) == ()


def test_proc_says_who_a_gpu_is_and_no_more(tmp_path: Path) -> None:
    version(tmp_path, CLOSED)
    information(tmp_path, "0000:17:00.0", Device_Minor="3")
    (gpu,) = from_proc(str(tmp_path))
    assert (gpu.index, gpu.minor) == (0, 3)
    assert (gpu.name, gpu.uuid) == ("NVIDIA H100 80GB HBM3", UUID)
    assert (gpu.address, gpu.driver) == ("0000:17:00.0", "535.129.03")
    assert (gpu.total, gpu.ecc, gpu.rows, gpu.cpus) == (None, None, None, ())
    assert problems(gpu) == ()


@pytest.mark.parametrize(("text", "driver"), [(CLOSED, "535.129.03"), (OPEN, "550.54.15")])
def test_both_kinds_of_driver_say_their_version(tmp_path: Path, text: str, driver: str) -> None:
    version(tmp_path, text)
    information(tmp_path, "0000:17:00.0")
    assert from_proc(str(tmp_path))[0].driver == driver


def test_gpus_are_counted_by_address_without_the_excluded(tmp_path: Path) -> None:
    for address, excluded in (
        ("0000:65:00.0", "No"),
        ("0000:17:00.0", "Yes"),
        ("0000:ca:00.0", "No"),
    ):
        information(tmp_path, address, GPU_Excluded=excluded)
    gpus = from_proc(str(tmp_path))
    assert [(gpu.index, gpu.address) for gpu in gpus] == [(0, "0000:65:00.0"), (1, "0000:ca:00.0")]
    assert gpus[0].driver is None


def test_a_uuid_that_the_driver_does_not_know_yet_is_none(tmp_path: Path) -> None:
    information(tmp_path, "0000:17:00.0", GPU_UUID="GPU-????????-????-????-????-????????????")
    (gpu,) = from_proc(str(tmp_path))
    assert (gpu.uuid, problems(gpu)) == (None, ())


def test_a_gpu_that_says_nothing_has_its_address(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia/gpus/0000:17:00.0").mkdir(parents=True)
    (gpu,) = from_proc(str(tmp_path))
    assert (gpu.address, gpu.uuid, gpu.name, gpu.minor) == ("0000:17:00.0", None, None, None)


def rows(*, pending: bool = False, failed: bool = False) -> Rows:
    return Rows(correctable=4, uncorrectable=2, pending=pending, failed=failed)


TROUBLES = [
    (Gpu(index=0, uuid=UUID, rows=rows(), uncorrected=0, ecc=True), ()),
    (Gpu(index=0, uuid=UUID, used=GIB, processes=(GpuProcess(pid=7, held=GIB),)), ()),
    (
        Gpu(index=0),
        ("the driver does not report it: search the kernel log for NVRM and Xid",),
    ),
    (
        Gpu(index=0, uuid=UUID, rows=rows(failed=True)),
        ("a bad memory row could not be remapped: have the GPU replaced",),
    ),
    (
        Gpu(index=0, uuid=UUID, rows=rows(pending=True), uncorrected=1),
        (
            "a bad memory row is waiting to be remapped: reset the GPU",
            "1 uncorrected memory error since the driver was loaded",
        ),
    ),
    (
        Gpu(index=0, uuid=UUID, uncorrected=3),
        ("3 uncorrected memory errors since the driver was loaded",),
    ),
    (
        Gpu(
            index=0,
            uuid=UUID,
            processes=(
                GpuProcess(pid=1234, held=74 * GIB + GIB // 2),
                GpuProcess(pid=88, held=None),
            ),
        ),
        ("process 1234 holds 74.5 GiB of its memory", "process 88 holds some of its memory"),
    ),
]


@pytest.mark.parametrize(("gpu", "lines"), TROUBLES)
def test_what_a_person_should_know_is_said(gpu: Gpu, lines: tuple[str, ...]) -> None:
    assert problems(gpu, own=[7]) == lines
