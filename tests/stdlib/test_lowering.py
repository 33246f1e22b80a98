"""Lowerings on drawn shapes, axes and indices, with and without the batch axis."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headrace.stdlib.catalog import load_catalog
from tests.stdlib.lowered import Model
from tests.stdlib.samples import bind

CATALOG = load_catalog()
TRIES = settings(max_examples=30, deadline=None)
BINARY = ("add", "sub", "mul", "div", "mod", "maximum", "minimum", "eq", "lt", "ge")
OPSETS = st.sampled_from([13, 18, 21])
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, max_side=4)


def numbers(shape: tuple[int, ...], seed: int) -> Any:
    values = np.random.default_rng(seed).integers(-4, 5, shape) / np.float32(3)
    return values.astype(np.float32)


@TRIES
@given(
    shapes=hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4),
    batched=st.tuples(st.booleans(), st.booleans()),
    opset=OPSETS,
)
def test_items_of_different_rank_broadcast_row_by_row(
    shapes: Any, batched: tuple[bool, bool], opset: int
) -> None:
    left, right = (numbers(shape, seed) for seed, shape in enumerate(shapes.input_shapes))
    model = Model(opset)
    for name in BINARY:
        op = CATALOG.op(f"math.{name}")
        model.add(op, bind(op, (left, right)), batched, name)
    where = CATALOG.op("core.where")
    model.add(where, bind(where, (left > 0, right, left)), (*batched, batched[0]), "where")
    model.check()


@TRIES
@given(data=st.data(), shape=SHAPES, batched=st.booleans(), opset=OPSETS)
def test_reductions_and_axes_count_an_item_s_axes(
    data: st.DataObject, shape: tuple[int, ...], batched: bool, opset: int
) -> None:
    x = numbers(shape, 0)
    rank = len(shape)
    some = data.draw(st.lists(st.integers(0, max(rank - 1, 0)), unique=True, max_size=rank))
    axes = data.draw(st.sampled_from([None, tuple(some), tuple(axis - rank for axis in some)]))
    keepdims = data.draw(st.booleans())
    model = Model(opset)

    def add(name: str, *sample: object) -> None:
        op = CATALOG.op(name)
        model.add(op, bind(op, sample), [batched, *[False] * (len(op.params) - 1)], name)

    for name in ("sum", "mean", "max", "min"):
        add(f"core.{name}", x, axes, keepdims)
    order = tuple(data.draw(st.permutations(range(rank))))
    add("core.transpose", x, order)
    add("core.expand_dims", x, data.draw(st.integers(-rank - 1, rank)))
    add("core.reshape", x, (-1,))
    if rank:
        axis = data.draw(st.integers(-rank, rank - 1))
        for name in ("core.argmax", "core.argmin"):
            add(name, x, axis, keepdims)
        for name in ("nn.softmax", "nn.l2_normalize"):
            add(name, x, axis)
        add("nn.topk", x, data.draw(st.integers(0, shape[axis])), axis)
        add("core.take", x, (0, -1), axis)
    model.check()


@TRIES
@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=3), batched=st.booleans())
def test_slices_are_cut_as_numpy_cuts_them(
    data: st.DataObject, shape: tuple[int, ...], batched: bool
) -> None:
    bound = st.none() | st.integers(-12, 12)
    step = st.none() | st.integers(-3, 3).filter(bool)
    model = Model(13)
    op = CATALOG.op("core.getitem")
    for _ in range(5):
        spec = tuple(
            data.draw(st.integers(-size, size - 1) | st.tuples(bound, bound, step))
            for size in shape[: data.draw(st.integers(0, len(shape)))]
        )
        model.add(op, bind(op, (numbers(shape, 1), spec)), [batched, False], str(spec))
    model.check()


@TRIES
@given(data=st.data(), batched=st.tuples(st.booleans(), st.booleans()))
def test_matrices_multiply_with_numpy_s_ranks(
    data: st.DataObject, batched: tuple[bool, bool]
) -> None:
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(signature="(m?,n),(n,p?)->(m?,p?)", max_dims=2)
    )
    left, right = (numbers(shape, seed) for seed, shape in enumerate(shapes.input_shapes))
    op = CATALOG.op("math.matmul")
    model = Model(13)
    model.add(op, bind(op, (left, right)), batched, str(shapes.input_shapes))
    model.check()
