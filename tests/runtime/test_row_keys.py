"""What rows have in common that share an execution: told from the signature where it can be."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.compiler.plan import Batching, Plan
from headrace.dsl.types import Field, OptionalType
from headrace.runtime.accept import Acceptor
from headrace.runtime.request import Request
from headrace.runtime.row_keys import Input, RowKeys
from headrace.runtime.rows import Constant, Rows, size_of
from tests.runtime.drivers import Simulated, right
from tests.runtime.plans import PlanMaker, block, call, fields, kind, model

FLOAT = np.dtype(np.float32)
STACKED: Input = ("x", 0, FLOAT, False)
SHARED: Input = ("k", None, FLOAT, True)


def row(*values: object) -> list[Rows]:
    return [Rows.of([np.asarray(one, np.float32)]) for one in values]


def test_rows_meet_whatever_they_hold_where_no_size_is_open() -> None:
    keys = RowKeys(fields(x="f32[2]"), (STACKED,), None)
    assert keys.of(row([1, 2]), 0) == keys.of(row([3, 4]), 0)


def test_rows_of_different_size_do_not_meet_where_one_is_open() -> None:
    keys = RowKeys(fields(x="f32[N]"), (STACKED,), None)
    assert keys.of(row([1, 2]), 0) == keys.of(row([3, 4]), 0) != keys.of(row([1, 2, 3]), 0)


@pytest.mark.parametrize("size", ["2", "N"])
def test_rows_meet_only_with_an_equal_value_of_what_a_model_takes_once(size: str) -> None:
    params = (Field("x", kind(f"f32[{size}]")), Field("k", OptionalType(kind("f32"))))
    keys = RowKeys(params, (STACKED, SHARED), None)
    first = keys.of(row([1, 2], 5), 0)
    assert keys.of(row([3, 4], 5), 0) == first
    assert keys.of([*row([3, 4]), Constant(np.float32(5), 5.0, 1)], 0) == first
    assert keys.of(row([3, 4], 6), 0) != first
    assert keys.of([*row([3, 4]), Rows.of([None])], 0) != first


def as_it_likes() -> Plan:
    """A model that says it gives two numbers, and gives as many as it is given, before another that
    says it takes two."""
    maker = PlanMaker()
    names = ["same", "twice"]
    inputs = [fields(x="f32[N]"), fields(x="f32[2]")]
    for name, kinds in zip(names, inputs, strict=True):
        file = model(
            [helper.make_node("Add", ["x", "x"], ["y"])],
            [("x", TensorProto.FLOAT, ["B", "N"])],
            [("y", TensorProto.FLOAT, ["B", "N"])],
            {},
        )
        batching = Batching(2, 10.0, ()) if name == "twice" else None
        maker.onnx(name, file, kinds, fields(y="f32[2]"), batching=batching)
    steps = [call(0, [0], [1]), call(1, [1], [2])]
    maker.pipeline("p", inputs[0], fields(y="f32[N]"), block([0], steps, [2]))
    return maker.plan()


def test_rows_that_are_not_as_a_model_says_are_answered_each_alone() -> None:
    driver = Simulated(as_it_likes())
    given = [np.ones(size, np.float32) for size in (2, 3)]
    answers = driver.ask(*(Request("p", {"x": x}) for x in given))
    driver.close()
    for x, answer in zip(given, answers, strict=True):
        np.testing.assert_array_equal(right(answer)["y"], 4 * x)  # type: ignore[arg-type]
    assert driver.metrics.stage("twice").sizes == {2: 1, 1: 2}  # together, which failed, and alone


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ({"x": "f32[3]", "k": "bool"}, {"x": np.zeros(3, np.float32), "k": True}),
        ({"x": "f16[2, 2]"}, {"x": np.zeros((2, 4), np.float16)[:, ::2]}),
        ({"x": "bf16"}, {"x": 1.0}),
    ],
)
def test_all_requests_are_as_large_where_no_size_is_open(
    declared: dict[str, str], value: dict[str, object]
) -> None:
    acceptor = acceptor_of(declared)
    assert acceptor.size == size_of(acceptor.accept(value))


@pytest.mark.parametrize("declared", ["f32[N]", "string", "list<f32>"])
def test_nothing_is_said_of_sizes_that_are_open(declared: str) -> None:
    assert acceptor_of({"x": declared}).size is None


def acceptor_of(declared: dict[str, str]) -> Acceptor:
    maker = PlanMaker()
    inputs = fields(**declared)
    maker.pipeline("p", inputs, fields(y="f32"), block(range(len(inputs)), [], []))
    return Acceptor(maker.pipelines[0])
