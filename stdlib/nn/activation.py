"""Activations of one element."""

from collections.abc import Sequence

import numpy as np

from ...dsl.types import Type
from ..dtypes import to_numpy
from ..elementwise import float_function, function, is_float, is_number, same_type
from ..lowering import ARITHMETIC, FLOATS, elementwise, require, tensor_type
from ..op import Array, Emitter, Kernel, Op, Operand, Param, Sample
from ..real import SIGMOID, real_samples, sigmoid


def relu(x: Array) -> Array:
    return np.maximum(x, x.dtype.type(0))


def lower_relu(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    dtype = tensor_type(operands[0].type).dtype
    require(dtype, ARITHMETIC, "Max")
    # Relu itself may make 0 of NaN.
    zero = emit.constant(np.zeros((), to_numpy(dtype)))
    return emit.node("Max", [emit.tensor(operands[0]), zero])


def relu_samples(random: np.random.Generator) -> Sequence[Sample]:
    return [*real_samples(random), (np.array([-3, 4], np.int32),), (np.array([3], np.uint8),)]


OPS = (
    Op(
        name="nn.relu",
        summary="Gives x, and 0 where it is negative; NaN stays NaN.",
        params=(Param("x", "Numbers."),),
        results=("y",),
        types=same_type(("x",), is_number, "numbers"),
        reference=function(relu),
        lowering=lower_relu,
        example="y = nn.relu(x)",
        kernel=Kernel("{0} > 0 || {0} != {0} ? {0} : 0"),
        samples=relu_samples,
    ),
    Op(
        name="nn.sigmoid",
        summary="Gives 1 / (1 + exp(-x)).",
        params=(Param("x", "Floating-point numbers."),),
        results=("y",),
        types=same_type(("x",), is_float, "floating-point numbers"),
        reference=float_function(sigmoid),
        lowering=elementwise("Sigmoid", FLOATS),
        exact=False,
        example="p = nn.sigmoid(logits)",
        kernel=Kernel(SIGMOID, exact=False),
        samples=real_samples,
    ),
)
