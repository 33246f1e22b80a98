"""Random chains over arrays that lie in any way give the bits that their references give."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.compiler.graph import Value
from headrace.dsl.types import DType, TensorType
from headrace.runtime.kernels.session import HostSession
from headrace.runtime.kernels.strides import contiguous, plan_launch
from headrace.stdlib.catalog import load_catalog
from headrace.stdlib.dtypes import to_numpy
from headrace.stdlib.op import Array, Kernel, OpTypeError
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

TRIES = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
OPS = [
    op
    for op in load_catalog()
    if isinstance(op.kernel, Kernel) and op.kernel.exact and op.name != "core.cast"
]
SIZES = st.sampled_from([1, 2, 3, 5, 33])
LITERALS = (0.5, -3.0, 7, 1)


@dataclass(frozen=True, repr=False)
class Drawn:
    """A graph, its results, and three rows of each input."""

    maker: Maker
    outputs: list[Value]
    inputs: list[Array]

    def __repr__(self) -> str:
        given = [f"{one.dtype}{list(one.shape)} by {one.strides}" for one in self.inputs]
        stages = [f"{n.stage} -> {n.outputs[0].type}" for n in self.maker.nodes if n.inputs]
        return f"{', '.join(given)}: {', '.join(stages)}"


@st.composite
def chains(draw: st.DrawFn) -> Drawn:
    """Draw a graph of some twenty ops, its results of one shape, and three rows of inputs."""
    maker, random = Maker(), np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = tuple(draw(st.lists(SIZES, max_size=3)))
    if draw(st.integers(0, 9)) == 0 and shape:
        shape = (0, *shape[1:])
    values: list[Value] = []
    inputs: list[Array] = []
    dtypes = draw(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=2))  # so that they meet
    for number in range(draw(st.integers(1, 4))):
        dtype = draw(st.sampled_from(dtypes))
        own = shape if number == 0 else _broadcast(draw, shape)
        values.append(maker.param(f"x{number}", TensorType(dtype, own)))
        rows = edges(dtype, random, 3 * int(np.prod(own))).reshape(3, *own)
        inputs.append(_laid_out(draw, rows))
    for _ in range(draw(st.integers(3, 20))):
        made = _step(draw, maker, values)
        if made is not None:
            values.append(made)
    full = [one for one in values[len(inputs) :] if one.type.dims == shape]  # type: ignore[union-attr]
    return Drawn(maker, full or [maker.op("core.cast", values[0], DType.F64)], inputs)


def _step(draw: st.DrawFn, maker: Maker, values: list[Value]) -> Value | None:
    """Call an op on values of one dtype; None where it has none for them."""
    x = draw(st.sampled_from(values))
    assert isinstance(x.type, TensorType)
    dtype = x.type.dtype
    if draw(st.integers(0, 3)) == 0:
        return maker.op("core.cast", x, draw(st.sampled_from((DType.BOOL, *NUMBERS))))
    op = draw(st.sampled_from(OPS))
    if op.name in CHOOSING and dtype.is_float:  # NumPy's zero depends on how arrays lie
        return None
    alike = [one for one in values if one.type.dtype is dtype]  # type: ignore[union-attr]
    literals = [one for one in LITERALS if dtype.is_float or isinstance(one, int)]
    given: list[Any] = [x]
    if "shift" in op.name:
        given.append(draw(st.integers(0, 7)))
    elif op.name == "core.where":
        flags = [one for one in values if one.type.dtype is DType.BOOL]  # type: ignore[union-attr]
        if not flags:
            return None
        given = [draw(st.sampled_from(flags)), x, draw(st.sampled_from(alike))]
    elif op.name in ("math.div", "math.mod") and dtype.is_integer:
        given.append(draw(st.sampled_from([1, 3, 7])))
    else:
        others = [*alike, *literals] if dtype.is_number else alike
        given += [draw(st.sampled_from(others)) for _ in op.params[1:]]
    before = len(maker.nodes)
    try:
        return maker.op(op.name, *given)
    except OpTypeError:
        del maker.nodes[before:]
        return None


def _broadcast(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Draw a shape that goes along with another."""
    own = tuple(1 if draw(st.booleans()) else size for size in shape)
    return own[draw(st.integers(0, len(own))) :]


def _laid_out(draw: st.DrawFn, rows: Array) -> Array:
    """Return equal rows that lie in another way: backwards, with gaps, by columns, not aligned."""
    way = draw(st.sampled_from(["plain", "backwards", "gaps", "columns", "unaligned", "same"]))
    match way:
        case "backwards":
            return np.ascontiguousarray(rows[..., ::-1])[..., ::-1] if rows.ndim > 1 else rows
        case "gaps":
            apart = np.repeat(rows, 2, axis=-1)
            return apart[..., ::2]
        case "columns":
            return np.asfortranarray(rows)
        case "unaligned":
            space = np.empty(rows.nbytes + 1, np.uint8)
            space[1:] = np.frombuffer(rows.tobytes(), np.uint8)
            return np.frombuffer(space.data, rows.dtype, rows.size, 1).reshape(rows.shape)
        case "same" if rows.size:
            return np.broadcast_to(rows[:1], rows.shape)
        case _:
            return rows


@TRIES
@given(drawn=chains())
@pytest.mark.slow
def test_random_chains(drawn: Drawn, tmp_path: Path) -> None:
    maker, outputs, inputs = drawn.maker, drawn.outputs, drawn.inputs
    kernel = kernel_of(maker, *outputs)
    names = [value.name for value in maker.params]
    found = HostSession(kernel, names, tmp_path).run(dict(zip(names, inputs, strict=True)))
    for row in range(3):
        wanted = referred(maker, [array[row] for array in inputs])
        for value, one in zip(outputs, found, strict=True):
            assert same_bits(np.broadcast_to(wanted[value], one[row].shape), one[row]), value


FOLDS = [
    (name, axis, keepdims)
    for axis, keepdims in ((None, False), (1, False), ((0, -1), True), (-1, True))
    for name in ("core.sum", "core.max", "core.min", "core.mean")
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: dtype.value)
def test_what_is_reduced_is_as_the_reference_has_it(dtype: DType, tmp_path: Path) -> None:
    """Of floating-point numbers sums are not added in the same order."""
    random = np.random.default_rng(5)
    for name, axis, keepdims in FOLDS[NUMBERS.index(dtype) % 4 :: 4]:  # all of them over dtypes
        if name == "core.mean" and not dtype.is_float:
            continue
        maker = Maker()
        x, y = maker.param("x", TensorType(dtype, (3, 4, 5))), maker.param("y", TensorType(dtype))
        scaled = maker.op("math.mul", x, y)
        least = maker.op(name, scaled, axis, keepdims)
        result = maker.op("math.add", least, 1)
        count = 2 * 3 * 4 * 5
        rows = random.integers(-9, 9, count).astype(to_numpy(dtype)).reshape(2, 3, 4, 5)
        if name in ("core.max", "core.min"):
            rows = edges(dtype, random, count).reshape(rows.shape)
        scale = np.array([2, 3], to_numpy(dtype))
        names = ["x", "y"]
        session = HostSession(kernel_of(maker, result), names, tmp_path)
        found = session.run({"x": rows, "y": scale})[0]
        for row in range(2):
            wanted = referred(maker, [rows[row], scale[row]])[result]
            if dtype.is_float and name in ("core.sum", "core.mean"):
                near = {DType.F16: 1e-2, DType.BF16: 5e-2}.get(dtype, 1e-6)
                left, right = (one.astype(np.float64) for one in (found[row], wanted))
                np.testing.assert_allclose(left, right, near, near)
            else:
                assert same_bits(wanted, found[row], any_zero=True), (name, axis, keepdims)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=lambda dtype: dtype.value)
def test_a_product_is_rounded_before_it_is_added_to(dtype: DType, tmp_path: Path) -> None:
    maker, random = Maker(), np.random.default_rng(0)
    x, y, z = (maker.param(name, TensorType(dtype, (999,))) for name in "xyz")
    result = maker.op("math.add", maker.op("math.mul", x, y), z)
    arrays = [random.standard_normal(999).astype(to_numpy(dtype)) for _ in range(3)]
    (found,) = run(kernel_of(maker, result), maker, arrays, tmp_path)
    assert same_bits(referred(maker, arrays)[result], found)


@pytest.mark.parametrize("between", [DType.I8, DType.I32, DType.I64], ids=lambda one: one.value)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=lambda dtype: dtype.value)
def test_an_integer_between_has_no_sign_of_zero(
    dtype: DType, between: DType, tmp_path: Path
) -> None:
    maker = Maker()
    x = maker.param("x", TensorType(dtype, (4,)))
    result = maker.op("core.cast", maker.op("core.cast", x, between), dtype)
    values = np.array([-0.5, -0.0, -1e-7, 0.5], to_numpy(dtype))
    (found,) = run(kernel_of(maker, result), maker, [values], tmp_path)
    assert same_bits(np.zeros(4, to_numpy(dtype)), found)


def test_what_is_broadcast_is_read_again(tmp_path: Path) -> None:
    maker = Maker()
    x = maker.param("x", TensorType(DType.I32, (3, 1, 5)))
    y = maker.param("y", TensorType(DType.I32, (4, 1)))
    result = maker.op("math.sub", x, y)
    arrays: list[Array] = [np.arange(15, dtype=np.int32).reshape(3, 1, 5)]
    arrays.append(np.arange(4, dtype=np.int32).reshape(4, 1) * 100)
    (found,) = run(kernel_of(maker, result), maker, arrays, tmp_path)
    np.testing.assert_array_equal(found, np.subtract(*arrays))


def test_arrays_that_do_not_go_together_are_refused() -> None:
    maker = Maker()
    kind = TensorType(DType.F32, (maker.size("n"),))
    x, y = maker.param("x", kind), maker.param("y", kind)
    kernel = kernel_of(maker, maker.op("math.add", x, y))
    for shapes in ([(1, 3), (1, 4)], [(2, 3), (3, 3)], [(1, 3), (1, 3, 1)]):
        with pytest.raises(ValueError, match=r"go together|axes here"):
            plan_launch(kernel, [contiguous(shape) for shape in shapes])
