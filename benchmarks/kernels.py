"""A generated kernel beside NumPy on the same chain of five ops, for 4 MB and for 64 KB.

The kernel is its C++ build, which computes on one core as NumPy does. NumPy is asked in two ways:
as a pipeline's ops ask it, a new array for each result, beside a kernel that makes a new one as
well; and by hand into arrays that are kept, beside a kernel that writes into one that is kept.
"""

import sys
from collections.abc import Iterator

import numpy as np
from harness import Contender, Outcome, cores, measure, options, report

from headrace.compiler.front import read_front
from headrace.compiler.graph import Constant
from headrace.compiler.kernel_file import Kernel
from headrace.compiler.kernels.write import Chain, write_kernel
from headrace.dsl.source import Source
from headrace.runtime.kernels.host import HostKernel
from headrace.runtime.kernels.session import HostSession
from headrace.runtime.kernels.strides import contiguous, plan_launch
from headrace.stdlib.dtypes import to_numpy

CHAINS = {
    "f32": """
use math
pipeline p(x: f32[N]) -> (y: f32[N]) {
    return y = math.minimum(math.maximum((x - 0.5) * 2.0 + 0.25, 0.0), 6.0)
}
""",
    "u8 to f16": """
use math
pipeline p(x: u8[N]) -> (y: f16[N]) {
    return y = cast(math.maximum((cast(x, f32) - 127.5) / 64.0, -1.0), f16)
}
""",
    "i32 bits": """
use math
pipeline p(x: i32[N]) -> (y: i32[N]) {
    return y = math.bit_xor(math.shift_right(math.bit_and(x * 3 + 1, 65535), 2), 85)
}
""",
}
SIZES = {"4 MB": 4 << 20, "64 KB": 1 << 16}
LEAST = 3.0
"""How many times faster a kernel is to be at 4 MB than its ops one by one."""


def kernel_of(text: str) -> Kernel:
    graph = read_front(Source("p.pipe", text), None, need_models=True, choose=False).graphs[0]
    literals = {
        value: node.kind.literal
        for node in graph.body.nodes
        if isinstance(node.kind, Constant)
        for value in node.outputs
    }
    nodes = tuple(node for node in graph.body.nodes if not isinstance(node.kind, Constant))
    return write_kernel(Chain(nodes, graph.body.params, graph.body.results, literals))


class IntoKept:
    """A kernel that writes into an array that is kept."""

    def __init__(self, kernel: Kernel, x: np.ndarray) -> None:
        self.x, self.y = x, np.empty(x.shape, to_numpy(kernel.outputs[0]))
        self.host = HostKernel(kernel)
        self.launch = plan_launch(kernel, [contiguous((1, *x.shape))])
        self.addresses = [x.ctypes.data, self.y.ctypes.data]

    def __call__(self) -> np.ndarray:
        self.host.start(self.launch, self.addresses)
        return self.y


class ByHand:
    """NumPy into arrays that are kept; each as quick as we know how to write it."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x
        self.wide = np.empty(x.shape, np.float32 if x.dtype.kind != "i" else x.dtype)
        self.half = np.empty(x.shape, np.float16)

    def __call__(self) -> np.ndarray:
        x, wide = self.x, self.wide
        match x.dtype.name:
            case "float32":
                np.subtract(x, np.float32(0.5), out=wide)
                np.multiply(wide, np.float32(2), out=wide)
                np.add(wide, np.float32(0.25), out=wide)
                np.maximum(wide, np.float32(0), out=wide)
                return np.minimum(wide, np.float32(6), out=wide)
            case "uint8":
                np.copyto(wide, x)
                np.subtract(wide, np.float32(127.5), out=wide)
                np.divide(wide, np.float32(64), out=wide)
                np.maximum(wide, np.float32(-1), out=wide)
                self.half[:] = wide
                return self.half
            case _:
                np.multiply(x, np.int32(3), out=wide)
                np.add(wide, np.int32(1), out=wide)
                np.bitwise_and(wide, np.int32(65535), out=wide)
                np.right_shift(wide, np.int32(2), out=wide)
                return np.bitwise_xor(wide, np.int32(85), out=wide)


def as_ops(x: np.ndarray) -> np.ndarray:
    """NumPy as the ops of a pipeline call it."""
    match x.dtype.name:
        case "float32":
            y = x - np.float32(0.5)
            y = y * np.float32(2)
            y = y + np.float32(0.25)
            y = np.maximum(y, np.float32(0))
            return np.minimum(y, np.float32(6))
        case "uint8":
            y = x.astype(np.float32)
            y = y - np.float32(127.5)
            y = y / np.float32(64)
            y = np.maximum(y, np.float32(-1))
            return y.astype(np.float16)
        case _:
            y = x * np.int32(3)
            y = y + np.int32(1)
            y = np.bitwise_and(y, np.int32(65535))
            y = np.right_shift(y, np.int32(2))
            return np.bitwise_xor(y, np.int32(85))


def measured(name: str, text: str, size: str, rounds: int) -> Iterator[Outcome]:
    kernel, nbytes = kernel_of(text), SIZES[size]
    session = HostSession(kernel, ["x"])
    dtype = to_numpy(kernel.inputs[0])
    random = np.random.default_rng(0)
    x = (random.standard_normal(nbytes // dtype.itemsize) * 40).astype(np.int32).astype(dtype)
    feeds, by_hand, into_kept = {"x": x[None]}, ByHand(x), IntoKept(kernel, x)
    for peer in (as_ops(x), by_hand(), into_kept()):
        np.testing.assert_array_equal(session.run(feeds)[0][0], peer)
    calls = 5 if nbytes > 1 << 20 else 200
    for subject, contenders in (
        (
            f"{name}, {size}, new",
            [
                Contender("kernel", lambda: session.run(feeds)),
                Contender("NumPy, op by op", lambda: as_ops(x)),
            ],
        ),
        (
            f"{name}, {size}, kept",
            [Contender("kernel", into_kept), Contender("NumPy, by hand", by_hand)],
        ),
    ):
        yield measure(subject, contenders, rounds=rounds, calls=calls, warmup=5)


def main() -> int:
    arguments = options("A generated kernel beside NumPy", rounds=31).parse_args()
    with cores(1):
        outcomes = [
            outcome
            for name, text in CHAINS.items()
            for size in SIZES
            for outcome in measured(name, text, size, arguments.rounds)
        ]
    report("kernels", outcomes)
    slow = [one for one in outcomes if "4 MB, new" in one.subject and one.ratios[0].median < LEAST]
    for one in slow:
        print(
            f"{one.subject}: {one.ratios[0].median:.2f} times as fast, and {LEAST:g} is asked for"
        )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
