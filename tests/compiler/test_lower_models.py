"""Models: signatures read and declared, the batch axis, what a file is compared for."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from headrace.compiler.graph import ModelDef
from tests.compiler.onnx_files import write_model
from tests.compiler.sources import errors_in, found_in, graph_of, lowered


def model_of(
    folder: Path, declaration: str, call: str, params: str = "x: f32[3]", result: str = "f32[_]"
) -> ModelDef:
    """Return the model of a pipeline that calls it once."""
    graph = graph_of(
        f'model m = onnx "m.onnx" {declaration}\n'
        f"pipeline p({params}) -> (y: {result}) {{ return y = {call} }}",
        folder,
        need_models=True,
    )
    return graph.models[0]


def test_without_a_declaration_the_item_signature_comes_from_the_file(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", {"images.0": ["N", 3, "p2o.Dim.1", "?"]}, {"out:0": ["N", 7]})
    model = model_of(tmp_path, "", "m(x)", "x: f32[3, H, W]")
    assert str(model.signature) == "(images_0: f32[3, p2o_Dim_1, _]) -> (out_0: f32[7])"
    assert (model.input_names, model.output_names) == (("images.0",), ("out:0",))
    assert (model.input_axes, model.output_axes) == ((0,), (0,))
    assert model.content is not None


def test_a_file_that_fixes_axis_0_somewhere_does_not_batch(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", {"x": ["N", 3]}, {"y": [1, 3]})
    model = model_of(tmp_path, "", "m(x)", "x: f32[N, 3]", "f32[1, 3]")
    assert str(model.signature) == "(x: f32[N, 3]) -> (y: f32[1, 3])"
    assert not model.batches


def test_names_of_the_file_that_differ_may_be_declared_equal(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", {"a": ["N", "p"], "b": ["M", "q"]}, {"y": ["K", "r"]})
    model = model_of(
        tmp_path, "(a: f32[L], b: f32[L]) -> (y: f32[L])", "m(x, x)", "x: f32[L]", "f32[L]"
    )
    assert str(model.signature) == "(a: f32[L], b: f32[L]) -> (y: f32[L])"
    assert model.batches


def test_declared_names_are_found_by_name_else_by_position(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", {"ids": ["N", 3], "mask": ["N", 3]}, {"0": ["N", 3]})
    model = model_of(tmp_path, "(mask: f32[3], ids: f32[3]) -> (y: f32[3])", "m(x, x)")
    assert (model.input_names, model.output_names) == (("mask", "ids"), ("0",))
    model = model_of(tmp_path, "(a: f32[3], b: f32[3]) -> (y: f32[3])", "m(x, x)")
    assert model.input_names == ("ids", "mask")


def test_what_the_file_fixes_takes_the_place_of_an_unknown_size(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", {"x": ["N", 3]}, {"y": ["N", 5, "T"]})
    model = model_of(tmp_path, "(x: f32[_]) -> (y: f32[_, K])", "m(x)", result="f32[_, _]")
    assert str(model.signature) == "(x: f32[3]) -> (y: f32[5, K])"


def test_a_result_s_name_may_stand_for_a_size_that_the_file_fixes(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", {"x": ["N", 3]}, {"y": ["N", 5]})
    assert model_of(tmp_path, "(x: f32[3]) -> (y: f32[K])", "m(x)").batches


def test_batch_axes_are_as_written_and_inputs_without_one_are_shared(tmp_path: Path) -> None:
    write_model(
        tmp_path / "m.onnx",
        {"x": ["N", 576], "state": [2, "N", 128], "sr": []},
        {"p": ["N", 1], "stateN": [2, "N", 128]},
    )
    model = model_of(
        tmp_path,
        "(x: f32[576], h: f32[2, 128], sr: f32) -> (p: f32[1], hn: f32[2, 128])\n"
        "    batch axis { x = 0, h = 1, hn = 1 }",
        "m(x, h, 16000).p",
        "x: f32[576], h: f32[2, 128]",
    )
    assert (model.input_axes, model.output_axes) == ((0, 1, None), (0, 1))
    assert model.input_names == ("x", "state", "sr")


def test_batch_none_keeps_the_whole_shape(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", {"x": ["N", 3]}, {"y": ["N", 3]})
    model = model_of(
        tmp_path, "(x: f32[N, 3]) -> (y: f32[N, 3]) batch none", "m(x)", "x: f32[5, 3]", "f32[5, 3]"
    )
    assert not model.batches


def test_a_batch_axis_fixed_at_1_is_freed_in_the_packed_model(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", {"x": [1, 3]}, {"y": [1, 3]})
    model = model_of(tmp_path, "(x: f32[3]) -> (y: f32[3]) batch axis { x = 0 }", "m(x)")
    assert model.batches
    assert model.content is not None
    packed = onnx.ModelProto.FromString(model.content.content)
    dims = [
        value.type.tensor_type.shape.dim[0] for value in (*packed.graph.input, *packed.graph.output)
    ]
    assert [dim.WhichOneof("value") for dim in dims] == ["dim_param", "dim_param"]


def test_a_packed_model_is_the_file_itself(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.onnx", {"x": ["N", 3]}, {"y": ["N", 3]})
    model = model_of(tmp_path, "", "m(x)")
    assert model.content is not None
    assert model.content.content == path.read_bytes()


def test_external_weights_are_packed_into_the_model(tmp_path: Path) -> None:
    weights = np.arange(2000, dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2000])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(
        helper.make_model(graph),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="m.bin",
        size_threshold=0,
    )
    assert (tmp_path / "m.bin").exists()
    model = model_of(tmp_path, "", "m(x)", "x: f32[2000]")
    assert model.content is not None
    packed = onnx.ModelProto.FromString(model.content.content)
    assert np.array_equal(numpy_helper.to_array(packed.graph.initializer[0]), weights)
    (tmp_path / "m.bin").unlink()
    text = 'model m = onnx "m.onnx"\npipeline p(x: f32[2000]) -> (y: f32[2000]) { return y = m(x) }'
    assert found_in(text, tmp_path) == []
    assert [one.split()[0] for one in found_in(text, tmp_path, need_models=True)] == ["HR302"]


def test_inputs_with_a_value_in_the_file_may_be_left_out(tmp_path: Path) -> None:
    write_model(
        tmp_path / "m.onnx",
        {"x": ["N", 3], "scale": [3]},
        {"y": ["N", 3]},
        defaults={"scale": np.ones(3, np.float32)},
    )
    assert str(model_of(tmp_path, "", "m(x)").signature) == "(x: f32[3]) -> (y: f32[3])"
    declared = "(x: f32[3], scale: f32[3]?) -> (y: f32[3]) batch axis { x = 0 }"
    assert model_of(tmp_path, declared, "m(x)").input_names == ("x", "scale")


@pytest.mark.parametrize(
    ("declared", "code", "message"),
    [
        (
            "(x: f32[3]) -> (y: f32[3])",
            "HR303",
            "`m` declares 1 input, but the file has 2: `x`, `h`",
        ),
        (
            "(x: f32[3], h: f32[2, W]) -> (y: f32[3], z: f32)",
            "HR303",
            "`m` declares 2 outputs, but the file has 1: `y`",
        ),
        (
            "(x: i64[3], h: f32[2, W]) -> (y: f32[3])",
            "HR304",
            "`x` is declared i64, but the file has f32",
        ),
        (
            "(x: f32[3, 1], h: f32[2, W]) -> (y: f32[3])",
            "HR305",
            "`x` is declared with 2 axes, but the file has 1 axis beside the batch",
        ),
        (
            "(x: f32[4], h: f32[2, W]) -> (y: f32[3])",
            "HR306",
            "dimension 0 of `x` is declared `4`, but the file fixes it at 3",
        ),
        (
            "(x: f32[3], h: f32[H, W]) -> (y: f32[3])",
            "HR306",
            "dimension 0 of `h` is declared `H`, but the file fixes it at 2",
        ),
        (
            "(x: f32[3], h: f32[2, W]?) -> (y: f32[3])",
            "HR303",
            "`h` is declared optional, but the file needs it",
        ),
        (
            "(x: f32[3], h: f32[2, W]) -> (y: f32[3]) batch axis { z = 0 }",
            "HR307",
            "the model has no input or output `z`",
        ),
        (
            "(x: f32[3], h: f32[2, W]) -> (y: f32[3]) batch axis { x = 2 }",
            "HR307",
            "`x` has no place for a batch axis 2",
        ),
        (
            "(x: f32[3], h: list<f32[2, W]>) -> (y: f32[3])",
            "HR321",
            "`m` has `h`: list<f32[2, W]>, but a model takes and gives tensors that are always "
            "there",
        ),
        (
            "(x: f32[3], h: f32[2, W]) -> (y: f32[3]) where V > 2",
            "HR101",
            "`V` is no dimension of `m`",
        ),
    ],
)
def test_a_declaration_that_the_file_contradicts(
    tmp_path: Path, declared: str, code: str, message: str
) -> None:
    write_model(tmp_path / "m.onnx", {"x": ["N", 3], "h": ["N", 2, "W"]}, {"y": ["N", 3]})
    found = lowered(f'model m = onnx "m.onnx" {declared}\n', tmp_path).diagnostics
    assert [(one.code, one.message) for one in found] == [(code, message)]


def test_each_difference_is_reported_with_both_signatures(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", {"x": ["N", 3]}, {"y": ["N", 3, 7]})
    found = lowered('model m = onnx "m.onnx" (x: f64[4]) -> (y: f32[8, 3])\n', tmp_path).diagnostics
    assert [one.code for one in found] == ["HR304", "HR306", "HR306", "HR306"]
    assert {one.notes for one in found} == {
        (
            "declared: (x: f64[4]) -> (y: f32[8, 3])",
            "the file: (x: f32[N, 3]) -> (y: f32[N, 3, 7])",
        )
    }


def test_a_check_does_without_the_file_when_the_signature_is_declared(tmp_path: Path) -> None:
    text = 'model m = onnx "m.onnx" (x: f32[3]) -> (y: f32[3])\n'
    assert found_in(text, tmp_path) == []
    assert found_in(text, tmp_path, need_models=True) == ["HR301 1:16"]
    assert found_in('model m = onnx "m.onnx"\n', tmp_path) == ["HR301 1:16"]


def test_without_a_file_a_declared_model_is_taken_to_batch(tmp_path: Path) -> None:
    graph = graph_of(
        'model m = onnx "m.onnx" (x: f32[3]) -> (y: f32[3])\n'
        "pipeline p(x: f32[3]) -> (y: f32[3]) { return y = m(x) }",
        tmp_path,
    )
    assert graph.models[0].batches
    assert graph.models[0].content is None


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no model")
    (tmp_path / "empty.onnx").write_bytes(b"")
    text = 'model m = onnx "m.onnx"\nmodel e = onnx "empty.onnx"\nmodel g = onnx "n.onnx"\n'
    assert errors_in(text, tmp_path) == [
        "`m.onnx` is not an ONNX model: its bytes are not an ONNX model",
        "`empty.onnx` is not an ONNX model: it holds no graph with outputs",
        "no model file `n.onnx`",
    ]


def test_a_mistyped_path_names_the_file_that_is_there(tmp_path: Path) -> None:
    write_model(tmp_path / "detector.onnx", {"x": ["N"]}, {"y": ["N"]})
    (found,) = lowered('model m = onnx "detektor.onnx"\n', tmp_path).diagnostics
    assert found.help == 'did you mean `"detector.onnx"`?'


def test_a_package_is_looked_up_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "weights_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    write_model(package / "m.onnx", {"x": ["N", 3]}, {"y": ["N", 3]})
    monkeypatch.syspath_prepend(str(tmp_path))
    assert found_in('model m = onnx "pkg:weights_package/m.onnx"\n') == []
    (found,) = lowered('model m = onnx "pkg:no_such_package/m.onnx"\n').diagnostics
    assert (found.code, found.help) == ("HR313", "`pip install no-such-package`")


def test_backends_that_are_not_there_are_named() -> None:
    assert errors_in('model a = tensorrt "a"\nmodel b = onxn "b"\n') == [
        "the backend `tensorrt` is not available in this version",
        "there is no backend `onxn`",
    ]


def test_metadata_of_a_model_is_read_as_lines(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", {"x": ["N"]}, {"y": ["N"]}, metadata={"labels": "a\nb\n\nc"})
    head = 'const labels: string[K] = metadata("m.onnx", "labels")\n'
    graph = graph_of(head + "pipeline p() -> (l: string[4]) { return l = labels }", tmp_path)
    assert str(graph.body.results[0].type) == "string[4]"
    assert errors_in('const l: string[K] = metadata("m.onnx", "label")\n', tmp_path) == [
        "the metadata of `m.onnx` has no key `label`; it has `labels`"
    ]
    absent = 'const l: string[K] = metadata("n.onnx", "labels")\n'
    assert found_in(absent, tmp_path) == []
    assert found_in(absent, tmp_path, need_models=True) == ["HR311 1:31"]
