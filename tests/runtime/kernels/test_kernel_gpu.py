"""Kernels on a GPU, where one is: the bits of the C++ build, and of the references."""

from collections.abc import Iterator

import numpy as np
import pytest

from headrace.dsl.types import DType
from headrace.runtime.devices.gpu import GpuDevice
from headrace.runtime.kernels.session import ResidentSession
from headrace.runtime.load_error import LoadError
from headrace.stdlib.dtypes import to_numpy
from headrace.stdlib.op import Array
from tests.compiler.graphs import Maker, tensor
from tests.compiler.kernels.made import CHOOSING, NUMBERS, kernel_of, referred, same_bits
from tests.compiler.kernels.test_bits import all_ops, inputs_of, stage_of


@pytest.fixture
def device() -> Iterator[GpuDevice]:
    try:
        opened = GpuDevice(0)
    except LoadError as error:
        pytest.skip(error.message)
    yield opened
    opened.close()


def on_gpu(device: GpuDevice, session: ResidentSession, inputs: dict[str, Array]) -> list[Array]:
    """Run on rows, and return those of the results."""
    stream = device.stream()
    views = {name: device.upload(rows, "up", stream) for name, rows in inputs.items()}
    dtypes = [(None, dtype) for dtype in session.dtypes]
    made = session.run_on_device(views, dtypes, "kernel", stream)
    return [device.download(view, "down", device.stream()) for view in made]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [DType.BOOL, *NUMBERS], ids=lambda dtype: dtype.value)
def test_every_op_gives_the_bits_of_its_reference(device: GpuDevice, dtype: DType) -> None:
    maker, outputs = all_ops(dtype, exact=True)
    inputs = inputs_of(dtype)
    names = [value.name for value in maker.params]
    session = ResidentSession(kernel_of(maker, *outputs), names, device)
    rows = {name: array[None] for name, array in zip(names, inputs, strict=True)}
    wanted = referred(maker, inputs)
    for value, found in zip(outputs, on_gpu(device, session, rows), strict=True):
        stage = stage_of(maker, value)
        assert same_bits(wanted[value], found[0], any_zero=stage in CHOOSING), stage
    assert device.ledger.launches == 1


@pytest.mark.gpu
def test_broadcast_reduced_and_large(device: GpuDevice) -> None:
    maker = Maker()
    x, y = maker.param("x", tensor(DType.I32, 300, 40)), maker.param("y", tensor(DType.I32, 300))
    total = maker.op("core.sum", maker.op("math.mul", x, 3), 1, False)
    kernel = kernel_of(maker, maker.op("math.add", total, y))
    random = np.random.default_rng(0)
    rows = random.integers(-(2**31), 2**31, (50, 300, 40)).astype(np.int32)
    others = random.integers(-9, 9, (50, 300)).astype(np.int32)
    session = ResidentSession(kernel, ["x", "y"], device)
    (found,) = on_gpu(device, session, {"x": rows, "y": others})
    np.testing.assert_array_equal(found, np.add.reduce(rows * np.int32(3), 2, np.int32) + others)
    assert found.dtype == to_numpy(DType.I32)


@pytest.mark.gpu
def test_more_elements_than_threads(device: GpuDevice) -> None:
    maker = Maker()
    x = maker.param("x", tensor(DType.U8, maker.size("n")))
    session = ResidentSession(kernel_of(maker, maker.op("math.bit_not", x)), ["x"], device)
    rows = np.arange(1 << 24, dtype=np.uint8)[None]  # 32,768 blocks of 256 are half of them
    np.testing.assert_array_equal(on_gpu(device, session, {"x": rows})[0], ~rows)
