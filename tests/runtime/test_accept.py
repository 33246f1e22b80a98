"""The border of a pipeline: what a caller may give, and what the refusal says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dsl.types import Dim, DimArith, DimVar, DType, Field, ListType, TensorType
from headrace.runtime.accept import Acceptor, show_signature
from headrace.runtime.convert import Mismatch, converter
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.present import Presenter
from headrace.runtime.request import Code, Fault, RequestError
from headrace.runtime.rows import Rows
from tests.runtime.plans import PlanMaker, block, fields, kind


def pipeline(
    inputs: dict[str, str], defaults: dict[str, object] | None = None, batch: int | None = None
) -> PlanMaker:
    maker = PlanMaker()
    maker.pipeline(
        "ocr",
        fields(**inputs),
        fields(y="f32[N]"),
        block(range(len(inputs)), [], []),
        defaults=defaults,  # type: ignore[arg-type]
        batch=batch,
    )
    return maker


def accept(maker: PlanMaker, **inputs: object) -> list[Rows]:
    return Acceptor(maker.pipelines[0]).accept(inputs)


def refused(maker: PlanMaker, **inputs: object) -> str:
    with pytest.raises(RequestError) as caught:
        accept(maker, **inputs)
    assert caught.value.code is Code.INVALID
    assert show_signature(maker.pipelines[0]) in str(caught.value)
    return str(caught.value)


def test_the_signature_is_shown_as_it_is_written() -> None:
    maker = pipeline({"photo": "bytes", "low": "f32", "lang": "string"}, {"low": 0.5, "lang": "en"})
    shown = show_signature(maker.pipelines[0])
    assert shown == 'ocr(photo: bytes, low: f32 = 0.5, lang: string = "en") -> (y: f32[N])'


def test_a_wrong_name_is_named_with_the_nearest() -> None:
    text = refused(pipeline({"photo": "bytes"}), foto=b"")
    assert "`ocr` has no input `foto`; did you mean `photo`?" in text


def test_a_subclass_of_an_array_is_taken_as_an_array() -> None:
    given = np.zeros((2, 2), np.float32).view(np.recarray)
    taken = accept(pipeline({"x": "f32[2, N]"}), x=given)[0].item(0)
    assert type(taken) is np.ndarray
    assert np.shares_memory(taken, given)


def test_a_missing_input_is_named() -> None:
    text = refused(pipeline({"a": "f32", "b": "f32"}, {"b": 1.0}))
    assert "the input `a` is missing" in text


@pytest.mark.parametrize(
    ("declared", "value", "says"),
    [
        ("f32[2]", np.zeros(2), r"is f64[2], expected f32[2]; convert it: x.astype(np.float32)"),
        ("f32[2]", np.zeros(2, np.int32), "is i32[2], expected f32[2]"),
        ("i64", np.float32(1), "is f32, expected i64"),
        ("f32[2]", np.zeros(3, np.float32), "has shape [3], expected f32[2]"),
        ("f32[2]", np.zeros((2, 1), np.float32), "has shape [2, 1], expected f32[2]"),
        ("f32", "1.0", "is a str, expected f32"),
        ("f32[2]", [1, "a"], "holds a str, expected f32[2]"),
        ("f32[2, 2]", [[1, 2], [3]], "whose items differ in shape"),
        ("i8", 300, "is 300, which i8 cannot hold"),
        ("u8[2]", [1, -1], "is -1, which u8 cannot hold"),
        ("i64", 1.0, "is the float 1.0, expected i64"),
        ("i64", True, "is the bool True, expected i64"),
        ("bool", 1, "is the int 1, expected bool"),
        ("f32", 2**24 + 1, "is 16777217, which f32 cannot hold"),
        ("f32", 1e39, "is 1e+39, which f32 cannot hold"),
        ("bytes", "photo.png", "is a str, expected bytes; encode it, or read the file"),
        ("string", b"x", "is a bytes, expected string; decode it: x.decode()"),
        ("string[2]", ["a", 1], "is an int, expected string[2]"),
        ("string[2]", ["a"], "has shape [1], expected string[2]"),
        ("string", "a\udcff", r"holds '\udcff', half of a surrogate pair, which UTF-8 cannot hold"),
        ("string[2]", ["é", np.str_("\ud800")], r"holds '\ud800', half of a surrogate pair"),
        ("list<string>", ["a", "\ud800"], r"[1] holds '\ud800', half of a surrogate pair"),
        ("f32[1]", np.ma.masked_equal(np.zeros(1, np.float32), 0), "is a masked array"),
        ("f32[1]", [np.ma.masked], "is a masked array, expected f32[1]; say what stands for"),
        ("string[1]", np.ma.masked_equal(["a"], "a"), "is a masked array"),
        ("list<f32[2]>", [[1, 2], [1]], "[1] has shape [1], expected f32[2]"),
        ("list<f32[2]>", 3, "is an int, expected list<f32[2]>"),
        ("f32", None, "is None, expected f32"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_cure(
    declared: str, value: object, says: str
) -> None:
    assert says in refused(pipeline({"x": declared}), x=value)


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ("f32", 0.1, np.float32(0.1)),
        ("f32", 3, np.float32(3)),
        ("f32", np.float64(0.25), np.float32(0.25)),
        ("i32", 7, np.int32(7)),
        ("bool", True, np.bool_(True)),
        ("f32[2]", [1, 2.5], np.array([1, 2.5], np.float32)),
        ("f32[N]", (1, 2), np.array([1, 2], np.float32)),
        ("f32[N]", [], np.zeros(0, np.float32)),
        ("f32[2, 2]", [np.zeros(2, np.float32)] * 2, np.zeros((2, 2), np.float32)),
        ("f32[2]", np.array([1, 2], ">f4"), np.array([1, 2], np.float32)),
        ("f16[2]", [1, 2], np.array([1, 2], np.float16)),
    ],
)
def test_numbers_take_the_declared_dtype_when_nothing_is_lost(
    declared: str, value: object, expected: np.ndarray
) -> None:
    item = np.asarray(accept(pipeline({"x": declared}), x=value)[0].item(0))
    assert item.dtype == expected.dtype
    np.testing.assert_array_equal(item, expected)


def test_text_is_taken_in_every_usual_form() -> None:
    maker = pipeline({"b": "bytes", "s": "string", "t": "string[N]", "u": "string[M]"})
    columns = accept(
        maker, b=bytearray(b"x"), s=np.array("hé", object), t=np.array(["a", "bc"]), u=()
    )
    values = [column.item(0) for column in columns]
    assert values[:2] == [b"x", "hé"]
    assert np.asarray(values[2]).tolist() == ["a", "bc"]
    assert np.shape(values[3]) == (0,)  # type: ignore[arg-type]


def test_a_name_of_a_dimension_is_one_size_in_all_inputs() -> None:
    maker = pipeline({"a": "f32[N]", "b": "f32[N, 2]"})
    accept(maker, a=[1, 2], b=[[1, 2], [3, 4]])
    text = refused(maker, a=[1, 2], b=[[1, 2]])
    assert "`b` has shape [1, 2], expected f32[N, 2]: it has 1 in dimension 0, but `N` is 2" in text


def test_an_array_that_fits_is_not_copied() -> None:
    x = np.zeros(3, np.float32)
    assert accept(pipeline({"x": "f32[3]"}), x=x)[0].item(0) is x


def test_a_batch_pipeline_takes_a_leading_axis() -> None:
    maker = pipeline({"x": "f32[2]", "s": "string", "low": "f32"}, {"low": 0.5}, batch=4)
    x, s, low = accept(maker, x=np.zeros((3, 2), np.float32), s=["a", "b", "c"])
    assert (x.count, s.count, low.count) == (3, 3, 3)
    assert x.is_stacked
    assert s.items() == ["a", "b", "c"]
    assert float(np.asarray(low.item(2))) == 0.5


def test_b03_a_batch_above_the_largest_is_refused_with_both_numbers() -> None:
    text = refused(pipeline({"x": "f32"}, batch=8), x=np.zeros(20, np.float32))
    assert "the request has 20 rows" in text
    assert "at most 8" in text


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"x": 1.0, "y": [1]}, "`x` has no leading axis of rows"),
        ({"x": [1.0], "y": [1, 2]}, "differ in their number of rows: `x` has 1, `y` has 2"),
        ({"x": [1.0, "a"], "y": [1, 2]}, "row 1 of `x` is a str, expected f32"),
        (
            {"x": np.zeros(2), "y": [1, 2]},
            "`x` is f64[2], expected f32[_]; convert it: x.astype(np.float32) (rows first)",
        ),
    ],
)
def test_rows_that_do_not_fit_are_named(inputs: dict[str, object], says: str) -> None:
    text = refused(pipeline({"x": "f32", "y": "i64"}, batch=8), **inputs)
    assert says in text


@pytest.mark.parametrize("batch", [None, 4])
def test_computed_dimensions_are_held_to_names_that_come_later(batch: int | None) -> None:
    def ones(size: int) -> object:
        one = np.ones(size, np.float32)
        return one if batch is None else [one]

    m, n = DimVar("M"), DimVar("N")

    def taking(**dims: Dim) -> PlanMaker:
        maker = PlanMaker()
        inputs = tuple(Field(name, TensorType(DType.F32, (dim,))) for name, dim in dims.items())
        maker.pipeline("p", inputs, (), block(range(len(inputs)), [], []), batch=batch)
        return maker

    maker = taking(x=DimArith("+", m, n), m=m, n=n)
    accept(maker, x=ones(5), m=ones(2), n=ones(3))
    assert "`x` has shape [6]" in refused(maker, x=ones(6), m=ones(2), n=ones(3))
    assert "which `2 * M` cannot be" in refused(taking(x=DimArith("*", 2, m)), x=ones(3))


def test_a_result_of_more_items_than_its_type_has_is_a_fault() -> None:
    maker = PlanMaker()
    results = (Field("y", ListType(TensorType(DType.F32, ()), 2)),)
    maker.pipeline("p", fields(x="f32[N]"), results, block([0], [], [0]))
    present = Presenter(maker.pipelines[0], 0).present
    assert len(present(Rows.one(np.ones(2, np.float32)))) == 2  # type: ignore[arg-type]
    with pytest.raises(Fault, match="`y` has 3 items, expected list<f32, 2>"):
        present(Rows.one(np.ones(3, np.float32)))


def test_a_batch_gives_rows_that_are_nobody_elses_however_many_there_are() -> None:
    maker = PlanMaker()
    maker.pipeline("p", fields(x="f32[2]"), fields(y="f32[2]"), block([0], [], [0]), batch=8)
    present = Presenter(maker.pipelines[0], 0).present
    kept, lent = np.ones(2, np.float32), np.ones(2, np.float32)  # by a function, by the plan
    lent.flags.writeable = False
    for items in ([kept], [lent], [kept, lent]):
        result = present(Rows.of([*items]))
        assert isinstance(result, np.ndarray)
        result[...] = 2
    assert (kept == 1).all()
    assert (lent == 1).all()


def test_a_result_left_on_a_device_is_a_fault() -> None:
    device = SimDevice(config=SimConfig(capacity=4096))
    view = device.upload(np.zeros(1, np.float32), "m", device.stream())
    with pytest.raises(Fault, match="the result `y` is still in the memory of sim"):
        Presenter(pipeline({"x": "f32"}).pipelines[0], 0).present(Rows.one(view))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.sampled_from([np.float64(1), np.int8(1), np.array(1), np.zeros(2), np.array(["a"])]),
)
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=8)
types = st.sampled_from(
    ["f32", "i8[2]", "u64[N]", "f16[N, N]", "string", "bytes", "string[N]", "bool[1]",
     "list<f32[N]>", "list<string>"]
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=4 * settings().max_examples)
@given(types, anything)
def test_any_value_is_converted_or_refused(declared: str, value: object) -> None:
    try:
        item = converter(kind(declared))(value, {})
    except Mismatch:
        return
    again = converter(kind(declared))(item, {})
    np.testing.assert_equal(again, item)
