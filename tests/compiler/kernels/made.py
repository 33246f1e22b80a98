"""Kernels of ops that tests put together, run as C++ beside the ops' own references."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from headrace.compiler.graph import OpCall, Value
from headrace.compiler.kernel_file import Kernel
from headrace.compiler.kernels.write import Chain, write_kernel
from headrace.dsl.types import DType
from headrace.runtime.kernels.session import HostSession
from headrace.stdlib.dtypes import to_numpy
from headrace.stdlib.op import Array
from tests.compiler.graphs import Maker

NUMBERS = tuple(dtype for dtype in DType if dtype.is_number)
CHOOSING = ("math.maximum", "math.minimum", "math.clip", "math.sign", "nn.relu")
"""Where two zeros meet these give either: NumPy does it one way in f16, another in f32, and in f32
as the arrays lie."""


def kernel_of(maker: Maker, *outputs: Value) -> Kernel:
    """Return the kernel of all ops that were made so far."""
    nodes = tuple(node for node in maker.nodes if isinstance(node.kind, OpCall))
    return write_kernel(Chain(nodes, tuple(maker.params), outputs, maker.literals))


def run(kernel: Kernel, maker: Maker, inputs: Sequence[Array], folder: Path) -> list[Array]:
    """Run a kernel on items, each as one row, and return the items of its results."""
    names = [value.name for value in maker.params]
    session = HostSession(kernel, names, folder)
    feeds = {name: array[None] for name, array in zip(names, inputs, strict=True)}
    return [result[0] for result in session.run(feeds)]


def referred(maker: Maker, inputs: Sequence[Array]) -> dict[Value, Array]:
    """Return what each op's reference makes of the inputs."""
    made: dict[Value, Array] = dict(zip(maker.params, inputs, strict=True))
    for node in maker.nodes:
        if not isinstance(node.kind, OpCall):
            continue
        given = [
            maker.literals[value] if value in maker.literals else made[value]
            for value in node.inputs
        ]
        with np.errstate(all="ignore"):
            made[node.outputs[0]] = np.asarray(node.kind.op.reference(*given))
    return made


def same_bits(one: Array, other: Array, *, any_zero: bool = False) -> bool:
    """Whether arrays are equal to the bit, but for which NaN a NaN is: processors differ there.

    With `any_zero` one zero is as good as the other."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    nan = np.zeros(one.shape, np.bool_)
    if one.dtype.kind not in "biu":
        nan = np.isnan(one)
        if not np.array_equal(nan, np.isnan(other)):
            return False
    with np.errstate(all="ignore"):
        either = nan | ((one == 0) & (other == 0)) if any_zero else nan
    bits = f"u{one.dtype.itemsize}"
    left, right = (np.ascontiguousarray(array).view(bits) for array in (one, other))
    return bool(np.all((left == right) | either.reshape(left.shape)))


def edges(dtype: DType, random: np.random.Generator, count: int) -> Array:
    """Return numbers of a dtype, most of which are hard: bounds, zeros of both signs, subnormal
    ones, infinities, NaN; and some of any bits."""
    kind = to_numpy(dtype)
    if dtype is DType.BOOL:
        return random.integers(0, 2, count).astype(np.bool_)
    bits = random.integers(0, 256, (count, kind.itemsize), np.uint8).view(kind)[:, 0]
    if dtype.is_integer:
        info = np.iinfo(kind)
        hard = [info.min, info.min + 1, -1, 0, 1, 2, 7, info.max - 1, info.max]
        hard = [one for one in hard if info.min <= one <= info.max]
        known = np.array(hard, kind)
    else:
        least = np.array(1, f"u{kind.itemsize}").view(kind)
        with np.errstate(all="ignore"):
            halves = np.array([-2.5, -1.5, -1, -0.5, 0.5, 1, 1.5, 2.5, 255, 65504], kind)
            limits = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-5, -1e-7, 3e38], kind)
            known = np.concatenate([halves, limits, np.stack([least, -least])])
            if dtype is DType.F64:  # next to the middle of two f16: f32 would see the middle
                middles = [1 + 2**-11, 1 + 3 * 2**-11]
                near = [one + sign * 2**-40 for one in middles for sign in (-1, 0, 1)]
                known = np.concatenate([known, np.array(near * 2)])
            bits = np.where(np.isnan(bits), known.dtype.type(np.nan), bits)  # none that signals
    chosen = random.choice(known, count)
    return np.where(random.random(count) < 0.7, chosen, bits)


def values(made: Mapping[Value, Array], outputs: Sequence[Value]) -> list[Array]:
    return [made[value] for value in outputs]
