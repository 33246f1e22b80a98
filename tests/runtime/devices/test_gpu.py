"""The CUDA device: held to the signatures of CuPy where it is installed, run where a GPU is."""

import inspect
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from headrace.runtime.devices import open_device
from headrace.runtime.devices.device import OutOfMemory
from headrace.runtime.devices.gpu import GpuDevice
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
    assert hasattr(cupy.cuda.Device, "__enter__")
    assert issubclass(cupy.cuda.runtime.CUDARuntimeError, RuntimeError)
    failed: Any = cupy.cuda.runtime.CUDARuntimeError(2)  # Any: CuPy is optional
    assert failed.status == 2
    ways = ("memcpyHostToDevice", "memcpyDeviceToHost", "memcpyDeviceToDevice")
    assert [getattr(cupy.cuda.runtime, way) for way in ways] == [1, 2, 3]


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
