"""`headrace check --batch`: declarations that hold, and those that do not."""

from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from headrace.compiler import compile_as_written
from headrace.compiler.plan import Plan
from headrace.dsl.read import read_source
from headrace.runtime.check_batch import Finding, check_batch
from tests.runtime.padded_models import python_source, write_models
from tests.runtime.plans import model

FLOAT = int(TensorProto.FLOAT)


def toy_plan(folder: Path, nodes: list[NodeProto], clauses: str) -> Plan:
    """A model of `x: f32[L]` that gives `y: f32[L]`, and a pipeline that calls it."""
    weights = {"two": np.float32(2), "first": np.array([0]), "second": np.array([1])}
    content = model(nodes, [("x", FLOAT, ["B", "L"])], [("y", FLOAT, ["B", "L"])], {**weights})
    (folder / "toy.onnx").write_bytes(content)
    path = folder / "toy.pipe"
    path.write_text(
        f'model toy = onnx "toy.onnx" (x: f32[L]) -> (y: f32[L]) {clauses}\n'
        "pipeline p(x: f32[L]) -> (y: f32[L]) {\n    return y = toy(x)\n}\n"
        "schedule p { toy { batch { max = 4 } } }\n"
        'schedule p on "other" { }\n',
        encoding="utf-8",
    )
    return compile_as_written(read_source(path))


def verdicts(found: tuple[Finding, ...]) -> dict[str, bool | None]:
    return {f"{one.model} {one.declares}": one.holds for one in found}


def test_padding_that_takes_a_share_is_found_and_neutral_padding_is_not(tmp_path: Path) -> None:
    plan = compile_as_written(read_source(write_models(tmp_path)))
    found = check_batch(plan, {})
    assert verdicts(found) == {
        "mean batch": True,
        "mean pads L": True,
        "share batch": True,
        "share pads L": False,
    }
    neutral, harmful = found[1], found[3]
    assert (neutral.rows, neutral.difference, neutral.first) == (4, 0.0, "")
    assert harmful.difference is not None
    assert harmful.difference > 0.01
    assert harmful.first == "1 (L = 48)"
    assert harmful.reason.startswith("`y` differs by ")


def test_models_in_python_are_compared_alike(tmp_path: Path) -> None:
    plan = compile_as_written(read_source(python_source(tmp_path)))
    assert verdicts(check_batch(plan, {})) == {
        "mean batch": True,
        "mean pads L": True,
        "share batch": True,
        "share pads L": False,
    }


def test_lists_and_texts_of_a_model_in_python_are_compared_item_by_item(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "class Names:\n"
        "    def __call__(self, x):\n"
        "        names = [[str(len(x))] * len(row) for row in x]\n"
        "        return [[row, row] for row in x], names\n",
        encoding="utf-8",
    )
    path = tmp_path / "m.pipe"
    path.write_text(
        'model m = python "m.py:Names" (x: f32[L]) -> (y: list<f32[L]>, names: list<string>)\n'
        "pipeline p(x: f32[L]) -> (names: list<string>) {\n"
        "    _, names = m(x)\n    return names = names\n}\n",
        encoding="utf-8",
    )
    (found,) = check_batch(compile_as_written(read_source(path)), {})
    assert (found.holds, found.reason) == (False, "`names` differs by 1")


def test_rows_of_samples_are_compared_as_they_come_to_the_model(tmp_path: Path) -> None:
    plan = compile_as_written(read_source(write_models(tmp_path)))
    rows = [np.array(row) for row in ([1, 2, 3], [4], [5, 6])]
    found = check_batch(plan, {"many": {"rows": rows}, "divide": {"x": np.ones(6, np.float32)}})
    assert [(one.rows, one.holds) for one in found] == [
        *((2, True), (3, True)),  # no two of the rows have one shape: the first meets itself
        *((2, True), (2, False)),  # the one row, and half of it
    ]


def test_a_model_whose_rows_see_each_other_does_not_batch(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0]),
        helper.make_node("Sub", ["x", "mean"], ["y"]),
    ]
    (found,) = check_batch(toy_plan(tmp_path, nodes, ""), {})
    assert (found.holds, found.first) == (False, "0")


def test_rounding_is_no_difference(tmp_path: Path) -> None:
    """Each row is a little off in a batch, by less than floats of its dtype tell."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], start=0, end=1),
        helper.make_node("Cast", ["shape"], ["rows"], to=FLOAT),
        helper.make_node("Mul", ["rows", "little"], ["off"]),
        helper.make_node("Add", ["x", "off"], ["y"]),
    ]
    nodes.insert(0, helper.make_node("Constant", [], ["little"], value_float=1e-6))
    (found,) = check_batch(toy_plan(tmp_path, nodes, ""), {})
    assert found.holds
    assert found.difference is not None
    assert 0 < found.difference < 1e-4


def test_sizes_that_the_model_refuses_are_left_out(tmp_path: Path) -> None:
    nodes = [  # of an even size only
        helper.make_node("Constant", [], ["pairs"], value_ints=[0, -1, 2]),
        helper.make_node("Constant", [], ["rows"], value_ints=[0, -1]),
        helper.make_node("Reshape", ["x", "pairs"], ["paired"]),
        helper.make_node("ReduceSum", ["paired", "last"], ["sums"]),
        helper.make_node("Constant", [], ["last"], value_ints=[2]),
        helper.make_node("Sub", ["paired", "sums"], ["apart"]),
        helper.make_node("Reshape", ["apart", "rows"], ["y"]),
    ]
    nodes.insert(0, nodes.pop(4))
    plan = toy_plan(tmp_path, nodes, "pads L with (x = 0)")
    batch, even = check_batch(plan, {"p": {"x": np.ones(8, np.float32)}})  # 8 and 4
    assert (batch.holds, even.holds, even.rows) == (True, True, 2)
    batch, odd = check_batch(plan, {"p": {"x": np.ones(6, np.float32)}})  # 6 and 3
    assert (batch.holds, odd.holds) == (True, None)
    assert odd.reason.startswith("alone the model failed")


def test_results_that_are_shorter_in_a_batch_are_found(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Slice", ["x", "first", "second", "second"], ["y"]),
    ]
    found = check_batch(toy_plan(tmp_path, nodes, "pads L with (x = 0)"), {})
    assert [one.holds for one in found] == [True, False]
    assert found[1].reason == "together the model gave 1 of `L`, and a row has 64"


@pytest.mark.parametrize("fill", ["1e30", "-3.5"])
def test_the_fill_that_is_declared_is_what_is_compared(tmp_path: Path, fill: str) -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], axes=[1]),
        helper.make_node("Sub", ["x", "most"], ["y"]),
    ]
    found = check_batch(toy_plan(tmp_path, nodes, f"pads L with (x = {fill})"), {})
    assert found[1].holds == (fill == "-3.5")
