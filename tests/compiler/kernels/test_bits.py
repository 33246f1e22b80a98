"""Generated code gives the bits that the ops' references give, for every op and dtype."""

from pathlib import Path

import numpy as np
import pytest

from headrace.compiler.graph import Value
from headrace.dsl.types import DType, TensorType
from headrace.stdlib.catalog import load_catalog
from headrace.stdlib.op import Kernel, OpTypeError
from tests.compiler.graphs import Maker
from tests.compiler.kernels.made import (
    CHOOSING,
    NUMBERS,
    edges,
    kernel_of,
    referred,
    run,
    same_bits,
)

COUNT = 997
"""Elements; no power of two, so that there is a tail."""
LINES = [op for op in load_catalog() if isinstance(op.kernel, Kernel)]
LITERALS = {"math.shift_left": 3, "math.shift_right": 2}


def all_ops(dtype: DType, *, exact: bool) -> tuple[Maker, list[Value]]:
    """Make every op that a dtype has, over two inputs of it and a bool."""
    maker = Maker()
    kind = TensorType(dtype, (maker.size("n"),))
    x, y = maker.param("x", kind), maker.param("y", kind)
    flags = maker.param("flags", TensorType(DType.BOOL, kind.dims))
    outputs: list[Value] = []
    for op in LINES:
        assert isinstance(op.kernel, Kernel)
        if op.kernel.exact is not exact or op.name == "core.cast":
            continue
        if op.name == "math.pow" and dtype.is_integer:
            continue
        tensors = (flags, x, y) if op.name == "core.where" else (x, y, x)[: len(op.params)]
        given = (x, LITERALS[op.name]) if op.name in LITERALS else tensors
        if op.name in ("math.div", "math.mod") and dtype.is_integer:
            given = (x, -1 if not dtype.value.startswith("u") else 3)
        try:
            outputs.append(maker.op(op.name, *given))
        except OpTypeError:
            continue
    if exact:
        outputs += [maker.op("core.cast", x, to) for to in (DType.BOOL, *NUMBERS)]
    return maker, outputs


def inputs_of(dtype: DType) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [
        edges(dtype, random, COUNT),
        edges(dtype, random, COUNT),
        edges(DType.BOOL, random, COUNT),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [DType.BOOL, *NUMBERS], ids=lambda dtype: dtype.value)
def test_every_op_gives_the_bits_of_its_reference(dtype: DType, tmp_path: Path) -> None:
    maker, outputs = all_ops(dtype, exact=True)
    inputs = inputs_of(dtype)
    wanted = referred(maker, inputs)
    found = run(kernel_of(maker, *outputs), maker, inputs, tmp_path)
    for value, one in zip(outputs, found, strict=True):
        stage = stage_of(maker, value)
        assert same_bits(wanted[value], one, any_zero=stage in CHOOSING), stage


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [one for one in NUMBERS if one.is_float], ids=lambda d: d.value)
def test_functions_of_the_library_are_as_near_as_they_say(dtype: DType, tmp_path: Path) -> None:
    maker, outputs = all_ops(dtype, exact=False)
    inputs = inputs_of(dtype)
    wanted = referred(maker, inputs)
    near = {DType.F16: 2e-3, DType.BF16: 2e-2, DType.F32: 1e-6, DType.F64: 1e-12}[dtype]
    found = run(kernel_of(maker, *outputs), maker, inputs, tmp_path)
    for value, one in zip(outputs, found, strict=True):
        with np.errstate(all="ignore"):
            left, right = (array.astype(np.float64) for array in (one, wanted[value]))
            assert np.allclose(left, right, near, near, equal_nan=True), stage_of(maker, value)


def stage_of(maker: Maker, value: Value) -> str:
    return next(node.stage for node in maker.nodes if value in node.outputs)
