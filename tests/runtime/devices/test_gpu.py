"""The CUDA device: held to the signatures of CuPy 13 and 14, and run where a GPU is."""

import gc
from collections.abc import Iterator
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
from tests.runtime.devices.cupy_signatures import HAVING, kept, said

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
    assert "a schedule whose devices are here" in str(caught.value.help)


CALLS: dict[str, tuple[str, ...]] = {
    "cuda.runtime.malloc": ("size",),
    "cuda.runtime.free": ("ptr",),
    "cuda.runtime.memcpyAsync": ("dst", "src", "size", "kind", "stream"),
    "cuda.runtime.memcpyPeerAsync": ("dst", "dstDevice", "src", "srcDevice", "size", "stream"),
    "cuda.runtime.memsetAsync": ("ptr", "value", "size", "stream"),
    "cuda.runtime.memGetInfo": (),
    "cuda.runtime.streamWaitEvent": ("stream", "event"),
    "cuda.runtime.eventRecord": ("event", "stream"),
    "cuda.runtime.getDeviceCount": (),
    "cuda.runtime.getDeviceProperties": ("device",),
    "cuda.runtime.runtimeGetVersion": (),
    "cuda.Stream.wait_event": ("event",),
    "cuda.Stream.begin_capture": (),
    "cuda.Stream.end_capture": (),
    "cuda.Event.record": ("stream",),
    "cuda.Event.synchronize": (),
    "cuda.Graph.launch": ("stream",),
    "cuda.alloc_pinned_memory": ("size",),
    "cuda.UnownedMemory": ("ptr", "size", "owner", "device_id"),
    "cuda.MemoryPointer": ("mem", "offset"),
    "from_dlpack": ("array",),
    "ascontiguousarray": ("a",),
    "ndarray": ("shape", "dtype", "memptr"),
}
"""What is given to each function by its place."""

NAMED: dict[str, tuple[str, ...]] = {
    "cuda.Stream.__init__": ("non_blocking",),
    "cuda.Event.__init__": ("disable_timing",),
    "ndarray.__dlpack__": ("stream", "max_version", "dl_device", "copy"),
}
"""What is given by name."""


def parameters(signature: str) -> dict[str, bool]:
    """Return the names of parameters, each with whether it may be left out."""
    inside = signature.partition("(")[2].rpartition(")")[0]
    pieces = [one.strip() for one in inside.split(",") if one.strip() not in ("", "self", "*")]
    return {one.partition("=")[0].split()[-1]: "=" in one for one in pieces}


@pytest.mark.parametrize("version", kept())
def test_cupy_takes_what_it_is_given(version: str) -> None:
    said = kept()[version]
    for name, given in CALLS.items():
        found = parameters(said[name])
        assert tuple(found)[: len(given)] == given, name
        assert all(tuple(found.values())[len(given) :]), name  # what is not given may be left out
    for name, given in NAMED.items():
        assert set(given) <= set(parameters(said[name])), name
    for name, attributes in HAVING.items():
        assert said[name].split() == list(attributes), name
    assert said["cuda.Event"] == "ptr"


def test_the_cupy_that_is_here_says_what_is_kept_of_its_version(cupy: Any) -> None:
    if cupy.__version__ not in kept():
        pytest.skip(f"nothing is kept of CuPy {cupy.__version__}")
    assert said(cupy) == kept()[cupy.__version__]
    failed: Any = cupy.cuda.runtime.CUDARuntimeError(2)  # Any: CuPy is optional
    assert failed.status == 2
    assert isinstance(failed, RuntimeError)
    ways = ("memcpyHostToDevice", "memcpyDeviceToHost", "memcpyDeviceToDevice")
    assert [getattr(cupy.cuda.runtime, way) for way in ways] == [1, 2, 3]


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
