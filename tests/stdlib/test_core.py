"""What the ops of core mean at their edges."""

import numpy as np
import pytest

from headrace.dsl.dims import Dims
from headrace.dsl.types import DimVar, DType, ListType, TensorType
from headrace.stdlib.op import Argument, OpTypeError
from tests.stdlib.calls import call, refusal, tensor, types

F32, I64, U8, STRING = DType.F32, DType.I64, DType.U8, DType.STRING
WHOLE = (None, None, None)


@pytest.mark.parametrize("dtype", [DType.I8, DType.U8, DType.I32, DType.I64, DType.U64])
def test_casting_to_an_integer_stops_at_its_bounds(dtype: DType) -> None:
    info = np.iinfo(dtype.value.replace("i", "int").replace("u", "uint"))
    x = np.array([np.nan, -np.inf, np.inf, 1e30, 1.9, -0.9], np.float32)
    assert call("cast", x, dtype).tolist() == [0, info.min, info.max, info.max, 1, 0]


def test_casting_between_integers_keeps_the_low_bits() -> None:
    assert call("cast", np.array([300, -1]), DType.U8).tolist() == [44, 255]


def test_text_is_not_cast() -> None:
    assert refusal("cast", tensor(STRING), F32) == (
        "x: numbers or bools, not string: text is not converted"
    )


def test_an_index_outside_is_refused_when_the_size_is_known() -> None:
    spec = Argument(TensorType(I64), True, (5,))
    assert refusal("getitem", tensor(F32, 3), spec).startswith("x: an index from -3 to 2, not 5")


def test_an_index_outside_is_an_error_when_it_is_not() -> None:
    with pytest.raises(IndexError):
        call("getitem", np.zeros(3), (None,), np.array(3))


def test_a_slice_of_an_unknown_size_is_a_new_size() -> None:
    dims = Dims()
    n = dims.rigid("N")
    spec = Argument(TensorType(I64), True, ((1, None, None), WHOLE))
    found = types("getitem", tensor(F32, n, n), spec, dims=dims)
    assert found.dims[0] != n
    assert found.dims[1] == n


def test_an_item_of_a_list_has_the_item_s_type() -> None:
    boxes = ListType(tensor(F32, 4, 2), 1000)
    assert types("getitem", boxes, Argument(TensorType(I64), True, (0,))) == tensor(F32, 4, 2)
    tail = Argument(TensorType(I64), True, ((None, 10, None),))
    assert types("getitem", boxes, tail) == ListType(tensor(F32, 4, 2), 10)


def test_concatenated_sizes_add_up() -> None:
    dims = Dims()
    n = dims.rigid("N")
    found = types("concat", 0, tensor(F32, n, 3), tensor(F32, 2, 3), dims=dims)
    assert str(found) == "f32[N + 2, 3]"


def test_tensors_that_differ_elsewhere_do_not_concatenate() -> None:
    assert refusal("concat", 0, tensor(F32, 2, 3), tensor(F32, 2, 4)) == (
        "parts: like f32[2, 3] in axis 1, not f32[2, 4]: 3 and 4 differ"
    )


def test_a_list_of_different_shapes_does_not_stack() -> None:
    with pytest.raises(ValueError, match=r"item 1 of the list has shape \[2\], but item 0 has \[3"):
        call("stack", 0, [np.zeros(3), np.zeros(2)])


def test_an_empty_list_does_not_stack() -> None:
    with pytest.raises(ValueError, match="an empty list has no shape"):
        call("stack", 0, [])


def test_a_tensor_becomes_a_list_of_at_most_its_size() -> None:
    assert types("unstack", tensor(F32, 5, 2)) == ListType(tensor(F32, 2), 5)


def test_reshaping_keeps_the_number_of_elements() -> None:
    assert types("reshape", tensor(F32, 6, 4), (-1, 8)) == tensor(F32, 3, 8)
    assert (
        refusal("reshape", tensor(F32, 6, 4), (5, 5)) == "shape: 24 elements like f32[6, 4], not 25"
    )
    assert "a divisor of the 24 elements" in refusal("reshape", tensor(F32, 6, 4), (-1, 5))


def test_reshaping_a_fixed_but_unknown_number_of_elements_is_refused() -> None:
    dims = Dims()
    with pytest.raises(OpTypeError, match=r"as many elements as f32\[N, 4\] has, not 8"):
        types("reshape", tensor(F32, dims.rigid("N"), 4), (8,), dims=dims)


def test_flattening_multiplies_named_sizes() -> None:
    dims = Dims()
    h, w = dims.rigid("H"), dims.rigid("W")
    assert str(types("reshape", tensor(F32, h, w, 3), (-1, 3), dims=dims)) == "f32[H * W, 3]"


def test_squeezing_wants_an_axis_where_a_size_may_be_one() -> None:
    dims = Dims()
    found = types("squeeze", tensor(F32, 1, dims.rigid("N")), 0, dims=dims)
    assert isinstance(found.dims[0], DimVar)
    assert refusal("squeeze", tensor(F32, 2, 3), 0) == (
        "x: of size 1 in axis 0, not f32[2, 3]: 2 and 1 differ"
    )


def test_an_axis_that_is_not_there_is_refused() -> None:
    assert refusal("sum", tensor(F32, 2, 3), 2) == "axis: an axis of f32[2, 3] (-2 to 1), not 2"


def test_nothing_has_no_greatest_element() -> None:
    with pytest.raises(ValueError, match="has no element to choose from"):
        call("max", np.zeros((0, 3), np.float32))
    with pytest.raises(ValueError, match="has nothing to choose from"):
        call("argmax", np.zeros((2, 0), np.float32))


def test_the_first_of_equal_elements_is_chosen() -> None:
    assert call("argmax", np.array([1, 3, 3], np.float32)) == 1
    assert call("argsort", np.array([2, 1, 2, 1]), descending=True).tolist() == [0, 2, 1, 3]
    values, indices = call("nn.topk", np.array([2, 5, 5, 2], np.float32), 3)
    assert (values.tolist(), indices.tolist()) == ([5, 5, 2], [1, 2, 0])


def test_range_counts_like_a_slice() -> None:
    assert types("range", 2, 11, 3) == tensor(I64, 3)
    assert call("range", 2, 11, 3).tolist() == [2, 5, 8]
    assert call("range", np.array(3)).tolist() == [0, 1, 2]


def test_lengths_of_all_kinds() -> None:
    lengths = [call("len", value) for value in (np.zeros((4, 2)), [1, 2], "héé", b"\x00\x01")]
    assert [int(length) for length in lengths] == [4, 2, 3, 2]
    assert refusal("len", tensor(F32)).startswith("x: a tensor with an axis")


def test_padding_adds_to_named_sizes() -> None:
    dims = Dims()
    found = types("pad", tensor(F32, dims.rigid("N")), 1, 2, dims=dims)
    assert str(found) == "f32[N + 3]"


def test_a_class_outside_gives_a_row_of_zeros() -> None:
    rows = call("nn.one_hot", np.array([1, 5, -1]), 3)
    assert rows.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_what_sorts_is_what_is_picked_also_with_nan() -> None:
    x = np.array([[1, np.nan, -np.inf, 3, np.nan, np.inf, 3]], np.float16)
    for descending in (False, True):
        order = call("argsort", x, descending=descending)
        picked = call("take_along", x, order)
        np.testing.assert_array_equal(picked, call("sort", x, descending=descending))
    values, indices = call("nn.topk", x, 4)
    assert indices.tolist() == [[1, 4, 5, 3]], "NaN counts as infinity, and the first comes first"
    np.testing.assert_array_equal(values, call("take_along", x, indices))


def test_rows_without_elements_elsewhere_still_have_a_greatest() -> None:
    assert call("max", np.zeros((0, 3), np.float32), -1).shape == (0,)
    assert call("mean", np.zeros((0, 3), np.float32), -1).shape == (0,)
    assert np.isnan(call("mean", np.zeros((0, 3), np.float32), 0)).all()


def test_integers_that_overflow_wrap_around_and_stay_out_of_models() -> None:
    big = np.array([2**62, 2**62, 5])
    assert call("sum", big) == -(2**63) + 5
    assert call("prod", big) == 0
    assert call("cumsum", big).tolist() == [2**62, -(2**63), -(2**63) + 5]


def test_products_of_bf16_are_bf16() -> None:
    x = call("cast", np.eye(2, dtype=np.float32), DType.BF16)
    assert call("math.matmul", x, x).dtype == call("nn.cosine", x, x).dtype == x.dtype


def test_of_equal_indices_the_last_counts() -> None:
    assert call("put_along", np.zeros(3), np.array([1, 1, -1]), np.array([5.0, 6, 7])).tolist() == [
        0,
        6,
        7,
    ]
    assert refusal("put_along", tensor(F32, 3), tensor(I64, 2), tensor(F32, 3)).startswith("values")


def test_indices_of_what_is_set() -> None:
    assert call("nonzero", np.array([0, 3, np.nan])).tolist() == [1, 2]
    assert call("nonzero", np.eye(2, dtype=bool)).tolist() == [[0, 0], [1, 1]]


def test_different_values_with_their_places_and_counts() -> None:
    words = np.array(["b", "a", "b"], object)
    values, places, counts = call("unique", words)
    assert (values.tolist(), places.tolist(), counts.tolist()) == (["a", "b"], [1, 0, 1], [1, 2])


def test_of_nothing_all_hold_and_none_does() -> None:
    nothing = np.zeros((2, 0), np.bool_)
    assert call("all", nothing, 1).tolist() == [True, True]
    assert call("any", nothing, 1).tolist() == [False, False]
    assert "bool, not f32[3]" in refusal("any", tensor(F32, 3))


def test_sizes_of_what_is_repeated_are_products() -> None:
    dims = Dims()
    n = dims.rigid("N")
    assert str(types("tile", tensor(F32, n, 2), (3, 2), dims=dims)) == "f32[3 * N, 4]"
    assert str(types("repeat", tensor(F32, n), 2, dims=dims)) == "f32[2 * N]"
    assert str(types("diff", tensor(F32, n), dims=dims)) == "f32[N - 1]"
    assert "no 1, not 4" in refusal("broadcast_to", tensor(F32, 3), (2, 4))


def test_as_many_axes_as_numpy_has_go_through() -> None:
    x = np.zeros((1,) * 64, np.float32)
    for name in ("transpose", "flip", "sum", "sort", "cumsum", "squeeze", "nonzero", "all"):
        given = x > 0 if name == "all" else x
        assert call(name, given).size <= 64
    with pytest.raises(ValueError, match="64"):
        call("expand_dims", x, 0)
