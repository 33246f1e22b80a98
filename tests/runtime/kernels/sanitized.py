"""Runs kernels whose code checks its own memory and arithmetic; the sanitizers end the process.

`python -m tests.runtime.kernels.sanitized sound|overflow|beyond` with libasan loaded first.
"""

import os
import sys
from dataclasses import replace

import numpy as np

from headrace.compiler.kernel_file import Kernel
from headrace.dsl.types import DType, TensorType
from headrace.runtime.kernels.host import OPTIONS, HostKernel
from headrace.runtime.kernels.strides import Launch, contiguous, plan_launch
from headrace.stdlib.dtypes import to_numpy
from tests.compiler.graphs import Maker
from tests.compiler.kernels.made import edges, kernel_of
from tests.compiler.kernels.test_bits import all_ops, inputs_of

CHECKED = (
    *(one for one in OPTIONS if one != "-O3"),
    *("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
)


def start(kernel: Kernel, arrays: list[np.ndarray], launch: Launch | None = None) -> None:
    """Run a kernel over rows; `launch` in place of the right one."""
    rows = [array[None].copy() for array in arrays]
    launch = launch or plan_launch(kernel, [contiguous(row.shape) for row in rows])
    results = [np.empty(launch.shape, to_numpy(dtype)) for dtype in kernel.outputs]
    given = [rows[walk.input] for walk in kernel.walks]
    host = HostKernel(kernel, None, CHECKED)
    host.start(launch, [one.ctypes.data for one in (*given, *results)])


def sound() -> None:
    for dtype in (DType.BOOL, DType.I8, DType.U32, DType.I64, DType.F16, DType.BF16, DType.F32):
        maker, outputs = all_ops(dtype, exact=True)
        start(kernel_of(maker, *outputs), inputs_of(dtype))
    maker = Maker()
    x, y = (
        maker.param("x", TensorType(DType.I16, (7, 300))),
        maker.param("y", TensorType(DType.I16)),
    )
    total = maker.op("core.sum", maker.op("math.mul", x, (*range(300),)), -1, True)
    kernel = kernel_of(maker, maker.op("math.sub", total, y))
    random = np.random.default_rng(0)
    start(kernel, [edges(DType.I16, random, 2100).reshape(7, 300), np.array(3, np.int16)])


def simple() -> tuple[Kernel, list[np.ndarray]]:
    maker = Maker()
    x = maker.param("x", TensorType(DType.I32, (maker.size("n"),)))
    kernel = kernel_of(maker, maker.op("math.mul", x, x))
    return kernel, [np.full(5000, 2**30, np.int32)]


def overflow() -> None:
    kernel, arrays = simple()
    text = kernel.text.replace("(u32)x0 * (u32)x0", "x0 * x0")
    assert text != kernel.text
    start(replace(kernel, text=text), arrays)


def beyond() -> None:
    kernel, arrays = simple()
    right = plan_launch(kernel, [contiguous((1, 5000))])
    start(kernel, arrays, Launch(right.entry, (5001, *right.numbers[1:]), right.shape))


if __name__ == "__main__":
    del os.environ["LD_PRELOAD"]  # the compiler is not what is tested
    {"sound": sound, "overflow": overflow, "beyond": beyond}[sys.argv[1]]()
    print("done")
