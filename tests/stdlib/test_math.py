"""What the operators mean where languages differ."""

import numpy as np
import pytest

from headrace.dsl.types import DType
from tests.stdlib.calls import call, refusal, tensor, types

I32, F32, U8, STRING = DType.I32, DType.F32, DType.U8, DType.STRING


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_integers_are_divided_towards_zero() -> None:
    quotient = call("math.div", ints(7, -7, 7, -7), ints(2, 2, -2, -2))
    assert quotient.tolist() == [3, -3, -3, 3]
    assert quotient.dtype == np.int32


def test_a_remainder_has_the_sign_of_the_left_side() -> None:
    assert call("math.mod", ints(7, -7, 7, -7), ints(3, 3, -3, -3)).tolist() == [1, -1, 1, -1]
    assert call("math.mod", np.float32(-7.5), 2) == np.float32(-1.5)


@pytest.mark.parametrize("name", ["div", "mod"])
def test_dividing_an_integer_by_zero_is_an_error(name: str) -> None:
    with pytest.raises(ZeroDivisionError, match="divided by zero"):
        call(f"math.{name}", ints(1, 2), ints(1, 0))


def test_dividing_a_float_by_zero_is_infinite() -> None:
    assert call("math.div", np.float32(1), 0) == np.inf


def test_integers_wrap_around() -> None:
    assert call("math.add", np.array([250], np.uint8), 10).tolist() == [4]
    assert call("math.neg", ints(-(2**31))).tolist() == [-(2**31)]


def test_number_literals_take_the_dtype_of_the_other_side() -> None:
    assert types("math.mul", tensor(DType.F16, 3), 2) == tensor(DType.F16, 3)
    assert call("math.mul", np.float16(3), 2).dtype == np.float16
    assert call("math.sub", 1, np.array([1], np.uint8)).dtype == np.uint8


def test_literals_alone_are_i64_and_f32() -> None:
    assert types("math.add", 1, 2) == tensor(DType.I64)
    assert types("math.add", 1, 0.5) == tensor(F32)
    assert call("math.add", 1, 2).dtype == np.int64
    assert call("math.add", 1, 0.5).dtype == np.float32


def test_tensors_of_two_dtypes_are_refused_with_a_cast() -> None:
    assert refusal("math.add", tensor(F32, 3), tensor(I32, 3)) == (
        "right: f32 like `left`, not i32[3]: dtypes are never converted implicitly"
    )


def test_a_literal_that_the_dtype_cannot_hold_is_refused() -> None:
    assert refusal("math.add", tensor(I32, 3), 0.5) == "right: an integer (i32), not 0.5"
    assert refusal("math.lt", tensor(U8, 3), 300) == "right: a value of u8 (0 to 255), not 300"
    assert refusal("math.add", tensor(STRING), 3) == "right: string, not the number 3"


def test_shapes_that_do_not_broadcast_are_refused_with_both() -> None:
    assert refusal("math.add", tensor(F32, 2, 3), tensor(F32, 4)) == (
        "right: of a shape that broadcasts with f32[2, 3], not f32[4]: "
        "3 and 4 differ and neither is 1"
    )


def test_strings_are_joined_and_compared() -> None:
    assert call("math.add", "ab", "c") == "abc"
    words = np.array(["a", "b"], object)
    assert call("math.add", words, "-").tolist() == ["a-", "b-"]
    assert call("math.eq", words, "b").tolist() == [False, True]
    assert call("math.eq", "a", "a").dtype == np.bool_


def test_arithmetic_on_bools_is_refused() -> None:
    assert refusal("math.mul", tensor(DType.BOOL, 2), tensor(DType.BOOL, 2)) == (
        "left: numbers, not bool[2]"
    )
    assert refusal("math.and", tensor(F32), tensor(F32)) == "left: bools, not f32"


def test_unsigned_numbers_have_no_sign_to_change() -> None:
    assert refusal("math.neg", tensor(U8, 2)) == "x: signed numbers, not u8[2]"


def test_an_integer_has_no_negative_power() -> None:
    with pytest.raises(ValueError, match="no negative power"):
        call("math.pow", ints(2), ints(-1))


def test_nan_passes_through_bounds() -> None:
    x = np.array([np.nan, -3, 3], np.float32)
    np.testing.assert_array_equal(call("math.clip", x, 0, 1), np.array([np.nan, 0, 1], np.float32))


def test_matrices_whose_inner_sizes_differ_are_refused() -> None:
    assert refusal("math.matmul", tensor(F32, 2, 3), tensor(F32, 4, 5)) == (
        "right: of as many rows as f32[2, 3] has columns, not f32[4, 5]: 3 and 4 differ"
    )
