"""The interface for training code: on the CPU, and with `-m gpu` on a CUDA device."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.accelerator.vendors import VENDORS

from ...support.checkout import IMPORTABLE
from ...support.late import Late
from ...support.limits import HANG

if TYPE_CHECKING:
    import torch
    from torch import profiler

    from dsrun.accelerator import training
    from dsrun.accelerator.training import TrainingAccelerator, chosen
else:
    torch, profiler = Late("torch"), Late("torch.profiler")
    training = Late("dsrun.accelerator.training")
    chosen = Late("dsrun.accelerator.training.chosen")

MIB = 1 << 20

# DeepSpeed 0.19.8: its abstract accelerator, the version of the communication backend that its
# CUDA accelerator adds, and `amp`, which older versions have.
NAMES = """
    is_synchronized_device use_host_timers resolves_data_dependency handles_memory_backpressure
    device_name device set_device current_device current_device_name device_count synchronize
    random set_rng_state get_rng_state manual_seed manual_seed_all initial_seed default_generator
    Stream stream current_stream default_stream Event
    empty_cache memory_allocated max_memory_allocated reset_max_memory_allocated
    memory_cached max_memory_cached reset_max_memory_cached memory_stats reset_peak_memory_stats
    memory_reserved max_memory_reserved total_memory available_memory
    is_bf16_supported is_fp16_supported is_fp64_supported supported_dtypes amp
    is_available range_push range_pop supports_nvtx_domain lazy_call
    communication_backend_name communication_backend_version
    is_triton_supported prefer_triton_grouped_mm
    is_current_stream_capturing create_graph capture_to_graph replay_graph
    BFloat16Tensor ByteTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
    pin_memory pin_empty pin_empty_like unpin_memory is_pinned pin_memory_alignment
    register_host_memory unregister_host_memory on_accelerator
    op_builder_dir create_op_builder get_op_builder build_extension
    export_envs visible_devices_envs set_visible_devices_envs
    get_compile_backend set_compile_backend
"""

needs_no_cuda = pytest.mark.skipif("torch.cuda.is_available()", reason="torch sees a CUDA device")


@pytest.fixture
def cpu() -> TrainingAccelerator:
    return chosen.choose({"DSRUN_ACCELERATOR": "cpu"})


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> TrainingAccelerator:
    """What must be the same on both."""
    return chosen.choose({"DSRUN_ACCELERATOR": request.param})


def python(text: str, **environ: str) -> str:
    """Return what a new interpreter prints."""
    ran = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **IMPORTABLE, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def machine_with_a_gpu(root: Path) -> str:
    (root / "dev").mkdir()
    (root / "dev" / "nvidia0").touch()
    return str(root)


# -- which one ----------------------------------------------------------------------------------


def test_all_of_deepspeeds_names_are_there_and_no_others(device: TrainingAccelerator) -> None:
    # Looked up on the class: there a property exists without being evaluated.
    assert {name for name in dir(type(device)) if not name.startswith("_")} == set(NAMES.split())


def test_torch_is_imported_by_the_first_call_only() -> None:
    said = python(
        "import sys, dsrun.accelerator as accelerator\n"
        "print('torch' in sys.modules, 'dsrun.accelerator.training' in sys.modules)\n"
        "print(accelerator.get_accelerator().device_name(), 'torch' in sys.modules)",
        DSRUN_ACCELERATOR="cpu",
    )
    assert said.splitlines() == ["False False", "cpu True"]


def test_a_process_has_one_until_another_is_set() -> None:
    said = python(
        "from dsrun.accelerator import get_accelerator, set_accelerator\n"
        "from dsrun.accelerator.training.chosen import choose\n"
        "first = get_accelerator()\n"
        "other = choose({'DSRUN_ACCELERATOR': 'cpu'})\n"
        "print(get_accelerator() is first, other is first)\n"
        "set_accelerator(other)\n"
        "print(get_accelerator() is other)",
        DSRUN_ACCELERATOR="cpu",
    )
    assert said.splitlines() == ["True False", "True"]


@needs_no_cuda
def test_gpus_that_torch_cannot_use_leave_the_cpu_and_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dsrun"):
        assert chosen.choose({}, machine_with_a_gpu(tmp_path)).device_name() == "cpu"
    (warning,) = caplog.messages
    assert warning == (
        "dsrun: this machine has NVIDIA GPUs,"
        f" but torch {torch.__version__} sees no cuda device: using the CPU"
    )


@needs_no_cuda
@pytest.mark.parametrize("variable", ["DSRUN_ACCELERATOR", "DS_ACCELERATOR"])
def test_an_accelerator_that_was_named_must_be_usable(variable: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=rf"^{variable}=cuda: torch \S+ sees no cuda device"):
        chosen.choose({variable: "cuda"}, machine_with_a_gpu(tmp_path))


def test_a_name_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="DS_ACCELERATOR: no accelerator 'abacus'"):
        chosen.choose({"DS_ACCELERATOR": "abacus"})


def test_what_torch_lacks_for_a_vendor_is_said_when_it_is_asked() -> None:
    with pytest.raises(NotImplementedError, match=r"^torch \S+ has no MPSGraph for mps$"):
        training.TrainingAccelerator(VENDORS["mps"]).create_graph()


# -- devices and random numbers -----------------------------------------------------------------


def test_the_cpu_is_one_device_whatever_the_index(cpu: TrainingAccelerator) -> None:
    cpu.set_device(3)
    assert cpu.is_available()
    assert (cpu.device_count(), cpu.current_device()) == (1, 0)
    assert [cpu.device_name(), cpu.device_name(3), cpu.current_device_name()] == ["cpu"] * 3
    assert cpu.device(3) == torch.device("cpu")
    cpu.synchronize()
    cpu.synchronize(3)


def test_the_cpu_has_done_its_work_when_a_call_returns(cpu: TrainingAccelerator) -> None:
    assert cpu.is_synchronized_device()
    assert cpu.use_host_timers()
    assert cpu.resolves_data_dependency()
    assert cpu.handles_memory_backpressure()


@pytest.mark.gpu
def test_cuda_devices_have_an_index_and_work_on_their_own() -> None:
    cuda = chosen.choose({"DSRUN_ACCELERATOR": "cuda"})
    last = torch.cuda.device_count() - 1
    cuda.set_device(last)
    assert (cuda.device_count(), cuda.current_device()) == (last + 1, last)
    assert [cuda.device_name(), cuda.current_device_name()] == ["cuda", f"cuda:{last}"]
    assert cuda.device(last) == torch.device("cuda", last)
    cuda.synchronize(last)
    cuda.set_device(0)
    assert not cuda.is_synchronized_device()
    assert not cuda.use_host_timers()
    assert not cuda.resolves_data_dependency()
    assert not cuda.handles_memory_backpressure()
    assert cuda.communication_backend_version() >= (2,)


def test_random_numbers_are_drawn_again_from_a_seed_or_a_state(device: TrainingAccelerator) -> None:
    def draw() -> list[float]:
        numbers: list[float] = torch.rand(4, device=device.device()).tolist()
        return numbers

    for seed in (device.manual_seed, device.manual_seed_all):
        seed(7)
        assert device.initial_seed() == 7
        first = draw()
        seed(7)
        state = device.get_rng_state()
        assert draw() == first
        second = draw()
        assert second != first
        device.set_rng_state(state, device.current_device())
        assert [draw(), draw()] == [first, second]


def test_the_generator_is_the_one_that_the_device_draws_from(device: TrainingAccelerator) -> None:
    generator = device.default_generator(device.current_device())
    generator.manual_seed(11)
    assert device.initial_seed() == 11
    assert torch.equal(generator.get_state(), device.get_rng_state(device.current_device()))
    assert device.random() is torch.random


# -- streams, events, graphs, ranges ------------------------------------------------------------


def test_a_stream_is_current_inside_its_context(device: TrainingAccelerator) -> None:
    default, stream = device.default_stream(), device.Stream()
    assert device.current_stream() == default
    with device.stream(stream):
        assert device.current_stream() == stream
        with device.stream(None):
            assert device.current_stream(device.current_device()) == stream
        assert stream != default
    assert device.current_stream() == default


def test_streams_wait_for_each_other(device: TrainingAccelerator) -> None:
    stream, event = device.Stream(priority=-1), device.Event()
    with stream:
        result = torch.ones(4, device=device.device()) * 2
    stream.record_event(event)
    device.current_stream().wait_event(event)
    device.current_stream().wait_stream(stream)
    assert (result + 1).tolist() == [3.0] * 4
    stream.synchronize()
    assert stream.query()
    assert stream.record_event() is not event


def test_a_stream_is_current_in_its_own_thread_only(device: TrainingAccelerator) -> None:
    seen = []
    with device.stream(device.Stream()):
        other = threading.Thread(target=lambda: seen.append(device.current_stream()))
        other.start()
        other.join()
    assert seen == [device.default_stream()]


def test_events_measure_milliseconds(device: TrainingAccelerator) -> None:
    start, end = (device.Event(enable_timing=True) for _ in range(2))
    device.synchronize()
    begin = time.perf_counter()
    start.record()
    torch.rand(512, 512, device=device.device()).sum()
    end.record(device.current_stream())
    end.synchronize()
    assert end.query()
    assert 0 < start.elapsed_time(end) <= (time.perf_counter() - begin) * 1000
    end.wait()


def test_events_without_a_time_measure_nothing(cpu: TrainingAccelerator) -> None:
    timed = cpu.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        timed.elapsed_time(timed)
    with pytest.raises(RuntimeError, match="enable_timing"):
        cpu.Event().elapsed_time(timed)


def test_a_graph_computes_again_from_what_its_tensors_hold(device: TrainingAccelerator) -> None:
    taken = torch.ones(4, device=device.device())

    def compute() -> tuple[torch.Tensor, torch.Tensor]:
        given = (taken * 2).view(2, 2).t() + 1
        return given, given.sum()

    compute()  # a device loads its kernels before it captures them
    graph = device.create_graph()
    with device.capture_to_graph(graph):
        assert device.is_current_stream_capturing()
        given, total = compute()
    assert not device.is_current_stream_capturing()
    for number in (5.0, 6.0):
        taken.fill_(number)
        device.replay_graph(graph)
        assert given.tolist() == [[number * 2 + 1] * 2] * 2
        assert total.item() == 4 * (number * 2 + 1)


def test_a_whole_training_step_can_be_replayed(cpu: TrainingAccelerator) -> None:
    def step(weight: torch.Tensor, batch: torch.Tensor) -> None:
        weight.grad = None
        torch.autograd.backward((weight * batch).sum().square())
        with torch.no_grad():
            assert weight.grad is not None
            weight.sub_(weight.grad, alpha=0.01)

    kept, eager = (torch.full((3,), 2.0, requires_grad=True) for _ in range(2))
    batch, graph = torch.tensor([1.0, 2.0, 3.0]), cpu.create_graph()
    with cpu.capture_to_graph(graph):
        step(kept, batch)
    step(eager, batch)
    batch.copy_(torch.tensor([3.0, 1.0, 0.5]))
    for _ in range(3):
        cpu.replay_graph(graph)
        step(eager, batch)
    assert torch.equal(kept, eager)


def test_a_failed_capture_ends(cpu: TrainingAccelerator) -> None:
    with pytest.raises(ZeroDivisionError), cpu.capture_to_graph(cpu.create_graph()):
        raise ZeroDivisionError
    assert not cpu.is_current_stream_capturing()


def test_a_profiler_shows_the_ranges(cpu: TrainingAccelerator) -> None:
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as ranges:
        cpu.range_push("outer", domain="ours", category="step")
        cpu.range_push("inner")
        cpu.range_pop()
        cpu.range_pop(domain="ours")
        cpu.range_pop()  # one too many hurts nobody
    assert not cpu.supports_nvtx_domain
    spans = {event.name: event.time_range for event in ranges.events()}
    assert spans["outer"].start <= spans["inner"].start
    assert spans["inner"].end <= spans["outer"].end


@pytest.mark.gpu
def test_ranges_on_cuda_are_nvtxs() -> None:
    cuda = chosen.choose({"DSRUN_ACCELERATOR": "cuda"})
    nvtx: Any = torch.cuda.nvtx
    depth = nvtx.range_push("here")
    cuda.range_push("deeper")
    assert nvtx.range_push("deepest") == depth + 2
    nvtx.range_pop()
    cuda.range_pop()
    assert nvtx.range_pop() == depth


def test_a_lazy_call_is_made_once_the_device_is_up(device: TrainingAccelerator) -> None:
    called: list[int] = []
    device.lazy_call(lambda: called.append(1))
    torch.ones(1, device=device.device())
    assert called == [1]


# -- memory -------------------------------------------------------------------------------------


def test_memory_is_counted_while_it_is_used_and_the_most_of_it_after(
    device: TrainingAccelerator,
) -> None:
    device.empty_cache()
    before = device.memory_allocated()
    tensor = torch.ones(64 * MIB // 4, device=device.device())
    used = device.memory_allocated(device.current_device())
    assert used >= before + 48 * MIB
    # On CPUs both are the resident memory, which other threads change between two looks.
    assert device.memory_reserved() >= device.memory_allocated() - MIB
    assert device.memory_cached() >= before + 48 * MIB
    del tensor
    assert device.memory_allocated() <= used - 48 * MIB
    for most in (
        device.max_memory_allocated,
        device.max_memory_reserved,
        device.max_memory_cached,
    ):
        assert most() >= before + 48 * MIB


@pytest.mark.parametrize(
    "reset", ["reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached"]
)
def test_the_most_is_counted_anew_after_a_reset(device: TrainingAccelerator, reset: str) -> None:
    torch.ones(64 * MIB // 4, device=device.device())
    most = device.max_memory_allocated()
    device.empty_cache()
    getattr(device, reset)()
    assert device.max_memory_allocated() <= most - 48 * MIB


def test_statistics_have_torchs_names(device: TrainingAccelerator) -> None:
    tensor = torch.ones(4 * MIB, device=device.device())
    stats = device.memory_stats()
    for kind in ("allocated_bytes.all", "reserved_bytes.all"):
        assert tensor.nbytes <= stats[f"{kind}.current"] <= stats[f"{kind}.peak"]


def test_a_device_has_memory_and_some_of_it_is_free(device: TrainingAccelerator) -> None:
    assert 64 * MIB < device.available_memory() < device.total_memory()
    index = device.current_device()
    assert device.total_memory(index) == device.total_memory()


def test_the_memory_of_the_cpu_is_the_machines(cpu: TrainingAccelerator) -> None:
    assert cpu.total_memory() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_the_cpu_needs_no_pinned_memory(cpu: TrainingAccelerator) -> None:
    tensor = torch.ones(4)
    assert cpu.pin_memory(tensor) is tensor
    assert not cpu.is_pinned(tensor)
    assert not cpu.register_host_memory(tensor.data_ptr(), tensor.nbytes)
    cpu.unregister_host_memory(tensor.data_ptr())
    cpu.unpin_memory(tensor)
    assert tensor.tolist() == [1.0] * 4


@pytest.mark.gpu
def test_pinned_memory_is_pinned() -> None:
    cuda, tensor = chosen.choose({"DSRUN_ACCELERATOR": "cuda"}), torch.ones(2, 3)
    pinned = cuda.pin_memory(tensor)
    assert cuda.is_pinned(pinned)
    assert not cuda.is_pinned(tensor)
    assert torch.equal(pinned, tensor)
    assert cuda.pin_memory(tensor, make_copy=False).shape == (2, 3)
    flat = cuda.pin_memory(tensor, make_copy=False, match_shape=False)
    assert cuda.is_pinned(flat)
    assert flat.shape == (6,)
    page = torch.empty(1 << 16, dtype=torch.uint8)
    assert cuda.register_host_memory(page.data_ptr(), page.nbytes)
    assert cuda.is_pinned(page)
    cuda.unregister_host_memory(page.data_ptr())


def test_new_pinned_memory_has_the_shape_that_was_asked_for(device: TrainingAccelerator) -> None:
    plain, like = torch.empty(2, 3, dtype=torch.int), torch.long
    made = [
        device.pin_empty(2, 3, dtype=torch.int),
        device.pin_empty((2, 3), dtype=torch.int),
        device.pin_empty_like(plain),
        device.pin_empty_like(plain, dtype=like),
    ]
    assert [(tensor.shape, tensor.device.type) for tensor in made] == [((2, 3), "cpu")] * 4
    assert [tensor.dtype for tensor in made] == [torch.int] * 3 + [like]
    assert {device.is_pinned(tensor) for tensor in made} == {device.device_name() != "cpu"}
    assert device.pin_memory_alignment() == 1


def test_only_the_hosts_memory_is_pinned(device: TrainingAccelerator) -> None:
    with pytest.raises(ValueError, match=r"^device=cuda:0: only host memory can be pinned"):
        device.pin_empty(2, dtype=torch.int, device="cuda:0")


def test_a_tensor_is_on_the_accelerator_or_not(device: TrainingAccelerator) -> None:
    assert device.on_accelerator(torch.ones(1, device=device.device()))
    assert not device.on_accelerator(torch.ones(1, device="meta"))


# -- numbers ------------------------------------------------------------------------------------


def test_what_is_supported_is_what_the_device_can_add(device: TrainingAccelerator) -> None:
    claims = {
        torch.bfloat16: device.is_bf16_supported(),
        torch.half: device.is_fp16_supported(),
        torch.double: device.is_fp64_supported(),
    }
    for dtype in (dtype for dtype, claimed in claims.items() if claimed):
        one = torch.ones(2, dtype=dtype, device=device.device())
        assert (one + one).tolist() == [2.0, 2.0]
    assert claims[torch.double]
    assert device.supported_dtypes() == [
        torch.float,
        *(dtype for dtype in (torch.half, torch.bfloat16) if claims[dtype]),
    ]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("BFloat16Tensor", "bfloat16"),
        ("ByteTensor", "uint8"),
        ("DoubleTensor", "double"),
        ("FloatTensor", "float"),
        ("HalfTensor", "half"),
        ("IntTensor", "int"),
        ("LongTensor", "long"),
    ],
)
def test_tensors_are_made_on_the_device(device: TrainingAccelerator, name: str, dtype: str) -> None:
    tensor = getattr(device, name)([1, 2, 3])
    assert (tensor.dtype, tensor.tolist()) == (getattr(torch, dtype), [1, 2, 3])
    assert device.on_accelerator(tensor)


def test_mixed_precision_is_for_this_device(device: TrainingAccelerator) -> None:
    square = torch.ones(8, 8, device=device.device())
    with device.amp().autocast(dtype=torch.bfloat16):
        assert (square @ square).dtype == torch.bfloat16
    scaler = device.amp().GradScaler(init_scale=4.0)
    assert scaler.scale(square).sum().item() == 256.0


def test_triton_is_supported_where_it_is_installed_and_compiles(
    device: TrainingAccelerator,
) -> None:
    may = device.device_name() == "cuda" and torch.cuda.get_device_capability() >= (8, 0)
    assert device.is_triton_supported() == (may and find_spec("triton") is not None)
    assert not device.prefer_triton_grouped_mm()


# -- the job ------------------------------------------------------------------------------------


def test_the_cpu_talks_gloo_and_hides_nothing(cpu: TrainingAccelerator) -> None:
    assert cpu.communication_backend_name() == "gloo"
    assert cpu.communication_backend_version() is None
    assert "OMP_" in cpu.export_envs()
    environ: dict[str, str] = {}
    cpu.set_visible_devices_envs(environ, [0, 1])
    assert (cpu.visible_devices_envs(), environ) == ([], {})


def test_cuda_talks_nccl_and_hides_devices_by_its_variable() -> None:
    cuda = training.TrainingAccelerator(VENDORS["cuda"])
    assert cuda.communication_backend_name() == "nccl"
    assert "NCCL_" in cuda.export_envs()
    environ = {"CUDA_VISIBLE_DEVICES": "7", "HOME": "/"}
    cuda.set_visible_devices_envs(environ, [2, 0])
    assert cuda.visible_devices_envs() == ["CUDA_VISIBLE_DEVICES"]
    assert environ == {"CUDA_VISIBLE_DEVICES": "2,0", "HOME": "/"}


def test_another_compile_backend_must_be_one_of_torchs(device: TrainingAccelerator) -> None:
    assert device.get_compile_backend() == "inductor"
    device.set_compile_backend("eager")
    with pytest.raises(ValueError, match=r"no compile backend 'steam' .*inductor"):
        device.set_compile_backend("steam")
    assert device.get_compile_backend() == "eager"


# -- op builders --------------------------------------------------------------------------------


@pytest.mark.skipif(find_spec("deepspeed") is not None, reason="deepspeed is installed")
def test_op_builders_are_deepspeeds(device: TrainingAccelerator) -> None:
    for ask in (device.create_op_builder, device.get_op_builder):
        with pytest.raises(ModuleNotFoundError, match="deepspeed is not installed"):
            ask("FusedAdamBuilder")
    with pytest.raises(ModuleNotFoundError, match="deepspeed is not installed"):
        device.op_builder_dir()


@pytest.mark.peer
def test_deepspeeds_op_builders_are_found_where_it_is_installed() -> None:
    said = python(
        "from dsrun.accelerator import get_accelerator\n"
        "accelerator = get_accelerator()\n"
        "found = accelerator.get_op_builder('CPUAdamBuilder')\n"
        "print(found.__name__, type(accelerator.create_op_builder('CPUAdamBuilder')) is found)\n"
        "print(accelerator.op_builder_dir())",
        DS_ACCELERATOR="cpu",
    )
    assert said.splitlines()[-2:] == ["CPUAdamBuilder True", "deepspeed.ops.op_builder.cpu"]


def test_extensions_are_built_by_torchs_command(device: TrainingAccelerator) -> None:
    assert "build_ext" in [command.__name__ for command in device.build_extension().mro()]
