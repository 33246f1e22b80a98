"""Ops written for models of old opsets: what is let through means the same, in every batch form."""

import numpy as np
import pytest

from headrace.compiler.onnx_emit import Sheet, try_op
from headrace.dsl.types import DType, TensorType
from headrace.stdlib.catalog import load_catalog
from headrace.stdlib.op import Decline, Operand
from tests.stdlib.lowered import Model, is_tensor
from tests.stdlib.samples import Given, Sizes, samples_of

LOWERED = [op for op in load_catalog() if op.lowering is not None]
ROW = TensorType(DType.F32, (2, 3))
ITEM = Operand(ROW, tensor="x", batched=True)


def operand(sizes: Sizes, given: Given, batched: bool) -> Operand:
    argument = sizes.argument(given)
    if given.literal:
        return Operand(argument.type, None, given.value)
    return Operand(argument.type, "x", None, batched)


@pytest.mark.parametrize("batched", [False, True], ids=["alone", "batch"])
@pytest.mark.parametrize("opset", [8, 9, 11, 12])
@pytest.mark.slow
def test_what_an_old_opset_takes_means_what_the_reference_says(opset: int, batched: bool) -> None:
    model = Model(opset)
    for op in LOWERED:
        for number, givens in enumerate(samples_of(op)):
            if all(given.literal for given in givens) or not all(map(is_tensor, givens)):
                continue
            sizes = Sizes(float("inf"))
            types = sizes.result_types(op, givens)
            try:
                try_op(op, [operand(sizes, one, batched) for one in givens], types, opset)
            except Decline:
                continue
            rows = [batched and not given.literal for given in givens]
            model.add(op, givens, rows, f"{op.name} sample {number}")
    assert model.calls
    model.check()


def test_a_form_that_the_opset_lacks_is_declined_with_the_reason() -> None:
    op = load_catalog().op("math.ge")
    zero = Operand(TensorType(DType.F32), literal=0.0)
    with pytest.raises(Decline, match="not valid in the model's opset 11"):
        try_op(op, [ITEM, zero], [TensorType(DType.BOOL, (2, 3))], 11)
    try_op(op, [ITEM, zero], [TensorType(DType.BOOL, (2, 3))], 12)


def test_softmax_of_an_inner_axis_is_declined_where_it_flattened() -> None:
    op = load_catalog().op("nn.softmax")
    axis = Operand(TensorType(DType.I64), literal=0)
    with pytest.raises(Decline, match="flattens"):
        try_op(op, [ITEM, axis], [ROW], 11)
    try_op(op, [ITEM, axis], [ROW], 13)


def test_an_op_without_a_lowering_says_so() -> None:
    with pytest.raises(Decline, match="it has no ONNX form"):
        try_op(load_catalog().op("image.decode"), [ITEM], [ROW], 17)


def test_a_model_that_is_too_old_takes_nothing() -> None:
    with pytest.raises(Decline, match="the model's opset 7 is older than 8"):
        try_op(load_catalog().op("math.neg"), [ITEM], [ROW], 7)


def test_equal_constants_are_one_and_unread_ones_are_none() -> None:
    sheet = Sheet(17, ["constant"])
    one, other = (sheet.constant(np.zeros(3, np.float32)) for _ in range(2))
    assert one == other != "constant"
    assert sheet.constant(np.zeros(3, np.float64)) != one
    positive, negative = (np.array([zero], np.float32) for zero in (0.0, -0.0))
    assert sheet.constant(positive) != sheet.constant(negative)
    assert sheet.initializers() == []
