"""The CUDA device: held to the signatures of CuPy where it is installed, run where a GPU is."""

import gc
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headrace.runtime.devices import open_device
from headrace.runtime.devices.device import Capabilities, OutOfMemory
from headrace.runtime.devices.gpu import GpuDevice, probe
from headrace.runtime.load_error import LoadError
from headrace.runtime.onnx_providers import choose_providers

ONES = np.ones((2, 3), np.float32)
PROVIDERS = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]


def gpus() -> int:
    """Return how many GPUs CuPy finds."""
    if find_spec("cupy") is None:
        return 0
    import cupy  # pyright: ignore[reportMissingImports] CuPy is optional

    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except RuntimeError:
        return 0


@pytest.fixture
def cupy() -> Any:  # Any: CuPy is optional
    return pytest.importorskip("cupy", reason="CuPy is not installed: see the extra `gpu`")


@pytest.fixture
def device() -> Iterator[GpuDevice]:
    if gpus() == 0:
        pytest.skip("needs CuPy and a CUDA device")
    opened = GpuDevice(0)
    yield opened
    opened.close()


@pytest.mark.skipif(gpus() > 0, reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_an_error_that_says_what_is_missing() -> None:
    with pytest.raises(LoadError) as caught:
        open_device("gpu:0")
    assert caught.value.code == "HR502"
    assert "the plan asks for gpu:0" in caught.value.message
    if find_spec("cupy") is None:
        assert "needs CuPy, which is not installed" in caught.value.message
        assert "headrace[gpu]" in str(caught.value.help)
    else:
        assert "CUDA finds no device" in caught.value.message


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("malloc", "malloc(size_t size) -> intptr_t"),
        ("free", "free(intptr_t ptr)"),
        (
            "memcpyAsync",
            "memcpyAsync(intptr_t dst, intptr_t src, size_t size, int kind, intptr_t stream)",
        ),
        (
            "memcpyPeerAsync",
            "memcpyPeerAsync(intptr_t dst, int dstDevice, intptr_t src, int srcDevice, size_t size"
            ", intptr_t stream)",
        ),
        ("streamWaitEvent", "streamWaitEvent(intptr_t stream, intptr_t event"),
        ("eventRecord", "eventRecord(intptr_t event, intptr_t stream)"),
        ("getDeviceProperties", "getDeviceProperties(int device)"),
        ("runtimeGetVersion", "runtimeGetVersion() -> int"),
        ("memsetAsync", "memsetAsync(intptr_t ptr, int value, size_t size, intptr_t stream)"),
        ("getDeviceCount", "getDeviceCount() -> int"),
        ("memGetInfo", "memGetInfo()"),
    ],
)
def test_cupy_takes_what_it_is_given(cupy: Any, name: str, signature: str) -> None:
    assert getattr(cupy.cuda.runtime, name).__doc__.startswith(signature)


def test_cupy_makes_streams_and_events_as_they_are_asked_for(cupy: Any) -> None:
    made: list[tuple[Callable[..., object], tuple[str, ...], dict[str, object]]] = [
        (cupy.cuda.Stream.__init__, ("self",), {"non_blocking": True}),
        (cupy.cuda.Stream.wait_event, ("self", "event"), {}),
        (cupy.cuda.Event.__init__, ("self",), {"disable_timing": True}),
        (cupy.cuda.Event.record, ("self", "stream"), {}),
        (cupy.cuda.Event.synchronize, ("self",), {}),
    ]
    for function, given, named in made:
        inspect.signature(function).bind(*given, **named)
    for name in ("__enter__", "attributes", "compute_capability", "mem_info", "id"):
        assert hasattr(cupy.cuda.Device, name)
    assert "ptr (intptr_t)" in cupy.cuda.Event.__doc__
    assert issubclass(cupy.cuda.runtime.CUDARuntimeError, RuntimeError)
    failed: Any = cupy.cuda.runtime.CUDARuntimeError(2)  # Any: CuPy is optional
    assert failed.status == 2
    ways = ("memcpyHostToDevice", "memcpyDeviceToHost", "memcpyDeviceToDevice")
    assert [getattr(cupy.cuda.runtime, way) for way in ways] == [1, 2, 3]


def test_cupy_wraps_captures_and_pins_memory_as_it_is_asked_to(cupy: Any) -> None:
    said = {
        cupy.cuda.UnownedMemory: "UnownedMemory(intptr_t ptr, size_t size, owner, int device_id=-",
        cupy.cuda.MemoryPointer: "MemoryPointer(BaseMemory mem, ptrdiff_t offset)",
        cupy.cuda.alloc_pinned_memory: "alloc_pinned_memory(size_t size) -> PinnedMemoryPointer",
        cupy.cuda.Graph.launch: "Graph.launch(self, stream=None)",
        cupy.from_dlpack: "from_dlpack(array, *, device=None, copy=None)",
        cupy.ndarray.__dlpack__: "_ndarray_base.__dlpack__(self, *, stream=None, tuple max",
    }
    for thing, begins in said.items():
        assert (thing.__doc__ or "").strip().startswith(begins)
    assert cupy.ndarray.__doc__.strip().startswith("__init__(shape, dtype=float, memptr=None")
    inspect.signature(cupy.cuda.Stream.begin_capture).bind("self")
    inspect.signature(cupy.cuda.Stream.end_capture).bind("self")
    inspect.signature(cupy.ascontiguousarray).bind("array")
    assert hasattr(cupy.cuda.PinnedMemoryPointer, "ptr")


@pytest.mark.parametrize(
    ("attributes", "sm", "runtime", "found"),
    [
        ({}, "90", 13000, Capabilities("H200", 141 << 30, False, True, "90", 0)),
        ({"Integrated": 1}, "87", 12060, Capabilities("H200", 141 << 30, True, False, "87")),
        (
            {"Integrated": 1, "ConcurrentManagedAccess": 1, "PageableMemoryAccess": 1},
            *("110", 13000),
            Capabilities("H200", 141 << 30, True, True, "110", None, True, True),
        ),
        ({"Integrated": 1}, "110", 12090, Capabilities("H200", 141 << 30, True, False, "110")),
    ],
)
def test_what_a_device_can_do_is_read_off_its_attributes(
    attributes: dict[str, int], sm: str, runtime: int, found: Capabilities
) -> None:
    """CuPy itself answers none of this without a driver, so its answers are put down here."""
    device = SimpleNamespace(attributes=attributes, compute_capability=sm, mem_info=(1, 141 << 30))

    def properties(_index: int) -> dict[str, bytes]:
        return {"name": b"H200"}

    def at(_index: int) -> object:
        return device

    calls = SimpleNamespace(getDeviceProperties=properties, runtimeGetVersion=lambda: runtime)
    assert probe(SimpleNamespace(Device=at, runtime=calls), 0) == found


@pytest.mark.parametrize("tensorrt", [False, True])
def test_a_session_on_a_gpu_runs_on_the_stream_that_its_values_are_ordered_by(
    tensorrt: bool,
) -> None:
    for _, options in choose_providers(PROVIDERS, "gpu:1", tensorrt, 4096):
        assert isinstance(options, dict)
        assert (options["device_id"], options["user_compute_stream"]) == (1, "4096")


@pytest.mark.gpu
def test_what_goes_up_comes_down(device: GpuDevice) -> None:
    one, two = device.stream(), device.stream()
    view = device.upload(ONES, "to gpu:0", one)
    np.testing.assert_array_equal(device.download(view, "to cpu", two), ONES)
    rows = device.concat([view[1], view[0]], "m", two)
    np.testing.assert_array_equal(device.download(rows, "to cpu", one), ONES)
    blank = device.zeros((2, 3), np.dtype(np.float32), "m", one)
    np.testing.assert_array_equal(device.download(blank, "to cpu", two), ONES * 0)
    ledger = device.ledger
    assert (ledger.h2d, ledger.d2h, ledger.d2d, ledger.syncs) == (1, 3, 2, 3)
    del view, rows, blank
    assert device.ledger.balanced


@pytest.mark.gpu
def test_memory_is_used_again_by_other_streams(device: GpuDevice) -> None:
    streams = [device.stream() for _ in range(4)]
    for number in range(100):
        stream = streams[number % 4]
        view = device.upload(ONES * number, "to gpu:0", stream)
        whole = device.copy(view, "m", streams[(number + 1) % 4])
        del view
        np.testing.assert_array_equal(device.download(whole, "to cpu", stream), ONES * number)
        del whole
    assert device.ledger.allocations == 2
    assert device.ledger.balanced


@pytest.mark.gpu
def test_memory_that_is_not_there_is_told(device: GpuDevice) -> None:
    with pytest.raises(OutOfMemory, match="gpu:0 is out of memory: `m` asks for"):
        device.allocate((1 << 42,), np.dtype(np.uint8), "m", device.stream())


@pytest.mark.gpu
def test_another_library_uses_values_in_place_and_in_order(device: GpuDevice, cupy: Any) -> None:
    stream = device.stream()
    view = device.upload(np.arange(6, dtype=np.float32).reshape(2, 3), "up", stream)
    theirs = cupy.from_dlpack(view)
    assert theirs.data.ptr == device.address(view)
    theirs *= 2
    del view
    assert not device.ledger.balanced  # it is theirs as long as they have it
    back = device.borrow(theirs, "m", stream)
    assert device.address(back) == theirs.data.ptr
    np.testing.assert_array_equal(device.download(back, "down", stream), [[0, 2, 4], [6, 8, 10]])
    del theirs, back
    gc.collect()
    assert device.ledger.balanced


@pytest.mark.gpu
def test_what_was_captured_runs_again_on_new_values(device: GpuDevice) -> None:
    stream = device.stream()
    source = device.upload(ONES, "up", stream)
    target = device.zeros((2, 3), np.dtype(np.float32), "m", stream)
    copy = partial(
        device.cuda.runtime.memcpyAsync,
        *(device.address(target), device.address(source), ONES.nbytes, 3, stream.pointer),
    )
    copy()
    graph = device.capture(stream, copy)
    fresh = device.upload(ONES * 5, "up", stream)
    device.cuda.runtime.memcpyAsync(
        device.address(source), device.address(fresh), ONES.nbytes, 3, stream.pointer
    )
    graph.launch(stream)
    np.testing.assert_array_equal(device.download(target, "down", stream), ONES * 5)


@pytest.mark.gpu
def test_what_the_host_writes_in_place_is_read_on_the_device(device: GpuDevice) -> None:
    stream = device.stream()
    view = device._map(ONES * 3, "up", stream)  # pyright: ignore[reportPrivateUsage] as on a Jetson
    own = device.copy(view, "m", stream)
    np.testing.assert_array_equal(device.download(own, "down", stream), ONES * 3)
    assert (device.ledger.h2d, device.ledger.mapped) == (0, 1)
