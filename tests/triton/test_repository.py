"""Folders as they are laid out, and what is read from ONNX files beside them."""

from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from headrace.dsl.diagnostic import Diagnostic
from headrace.triton.check import check, subjects
from headrace.triton.complete import Defaults, served
from headrace.triton.config import Message
from headrace.triton.repository import read

FLOAT, STRING = TensorProto.FLOAT, TensorProto.STRING
Dims = Sequence[int | str]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def save(path: Path, x: Dims, y: Dims, kind: int = FLOAT, weight: bool = False) -> None:
    """Save a model from x (and an `w` that has a default) to y."""
    inputs = [helper.make_tensor_value_info("x", kind, x)]
    filled = []
    if weight:
        inputs.append(helper.make_tensor_value_info("w", kind, [1]))
        filled = [helper.make_tensor("w", kind, [1], [1.0])]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        inputs,
        [helper.make_tensor_value_info("y", kind, y)],
        filled,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph), path)


def completed(folder: Path, defaults: Defaults | None = None) -> Message:
    """Complete the only model of a repository, without mistakes."""
    repository = read(folder)
    assert check(repository, defaults) == ()
    (subject,) = subjects(repository, defaults)
    return subject.config


def wrong(folder: Path) -> list[str]:
    found = [one for one in check(read(folder)) if one.code == "HR615"]
    return [f"{_line(one)} {one.message}" for one in found]


def _line(one: Diagnostic) -> str:
    return f"{one.primary.span.line}:{one.primary.span.column}"


def test_a_model_without_a_configuration_is_that_of_its_file(tmp_path: Path) -> None:
    save(tmp_path / "m" / "1" / "model.onnx", ["B", 3, "W"], ["B", 3, "W"], weight=True)
    config = completed(tmp_path)
    assert (config.backend, config.platform) == ("onnxruntime", "onnxruntime_onnx")
    assert config.default_model_filename == "model.onnx"
    assert config.max_batch_size == 4
    assert config.dynamic_batching.preferred_batch_size == [4]
    assert [(one.name, one.data_type, list(one.dims)) for one in config.input] == [
        ("x", 11, [3, -1])
    ]
    assert [(one.name, list(one.dims)) for one in config.output] == [("y", [3, -1])]
    assert [(one.name, one.count, one.kind) for one in config.instance_group] == [("m", 2, 2)]
    assert completed(tmp_path, Defaults(max_batch_size=0)).input[0].dims == [-1, 3, -1]
    assert completed(tmp_path, Defaults(gpus=(1,))).instance_group[0].gpus == [1]


def test_a_model_with_a_first_axis_of_its_own_takes_no_batches(tmp_path: Path) -> None:
    save(tmp_path / "m" / "1" / "model.onnx", [1, 3], ["B", 3])
    config = completed(tmp_path)
    assert config.max_batch_size == 0
    assert config.WhichOneof("scheduling_choice") is None
    assert [list(one.dims) for one in (*config.input, *config.output)] == [[1, 3], [-1, 3]]


def test_a_value_of_an_item_is_reshaped(tmp_path: Path) -> None:
    save(tmp_path / "m" / "1" / "model.onnx", ["B"], ["B"])
    config = completed(tmp_path)
    assert config.input[0].dims == [1]
    assert config.input[0].HasField("reshape")
    assert config.input[0].reshape.shape == []


def test_what_is_written_stays(tmp_path: Path) -> None:
    save(tmp_path / "m" / "1" / "model.onnx", ["B", 3], ["B", 3])
    write(
        tmp_path / "m" / "config.pbtxt",
        "max_batch_size: 1 version_policy { all { } } "
        'output { name: "y" data_type: TYPE_FP32 dims: -1 label_filename: "a.txt" }',
    )
    write(tmp_path / "m" / "a.txt", "a\nb\nc\n")
    repository = read(tmp_path)
    assert wrong(tmp_path) == ["1:92 `y` is [-1, 3] in the model, not [-1, -1]"]  # as it is there
    (subject,) = subjects(repository)
    assert [list(one.dims) for one in subject.config.input] == [[3]]
    assert subject.config.output[0].label_filename == "a.txt"
    assert subject.config.WhichOneof("scheduling_choice") is None


def test_a_file_may_be_a_folder_and_have_another_name(tmp_path: Path) -> None:
    save(tmp_path / "m" / "1" / "model.onnx" / "model.onnx", ["B", 3], ["B", 3])
    save(tmp_path / "n" / "1" / "net.onnx", ["B", 3], ["B", 3])
    write(tmp_path / "n/config.pbtxt", 'backend: "onnxruntime" default_model_filename: "net.onnx"')
    repository = read(tmp_path)
    assert check(repository) == ()
    assert [len(one.config.input) for one in subjects(repository)] == [1, 1]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('input { name: "z" data_type: TYPE_FP32 dims: 3 }', "the model has no input `z`"),
        ('input { name: "x" data_type: TYPE_INT32 dims: 3 }', "`x` is TYPE_FP32 in the model"),
        ('input { name: "x" data_type: TYPE_FP32 dims: [ 3, 3 ] }', "`x` is [-1, 3] in the model"),
        ('input { name: "x" data_type: TYPE_FP32 dims: 4 }', "`x` is [-1, 3] in the model"),
        (
            'input { name: "x" data_type: TYPE_FP32 dims: 3 allow_ragged_batch: true }',
            "a ragged input comes as [-1]",
        ),
        ('input { name: "w" data_type: TYPE_FP32 dims: 1 }', "the model's input `x` is not in"),
    ],
)
def test_a_configuration_is_held_to_its_file(tmp_path: Path, text: str, found: str) -> None:
    save(tmp_path / "m" / "1" / "model.onnx", ["B", 3], ["B", 3], weight=True)
    write(tmp_path / "m" / "config.pbtxt", f"max_batch_size: 8\n{text}\n")
    assert any(found in one for one in wrong(tmp_path))


def test_each_version_that_is_served_is_held_to_its_file(tmp_path: Path) -> None:
    save(tmp_path / "m" / "1" / "model.onnx", ["B", 3], ["B", 3])
    save(tmp_path / "m" / "2" / "model.onnx", ["B", 3], ["B", 4])
    write(tmp_path / "m" / "3" / "model.onnx", "no model")
    text = 'max_batch_size: 8\noutput { name: "y" data_type: TYPE_FP32 dims: 3 }\n'
    write(tmp_path / "m" / "config.pbtxt", text + "version_policy { latest { num_versions: 2 } }")
    assert wrong(tmp_path) == [
        f"1:1 `{tmp_path / 'm' / '3' / 'model.onnx'}` is no ONNX model",
        "2:47 `y` is [-1, 4] in the model, not [-1, 3]",
    ]


def test_batches_want_an_open_axis(tmp_path: Path) -> None:
    save(tmp_path / "m" / "1" / "model.onnx", [1, 3], [1, 3])
    write(tmp_path / "m" / "config.pbtxt", "max_batch_size: 8\n")
    assert all("with no open first axis for a batch" in one for one in wrong(tmp_path))
    assert wrong(tmp_path)


def test_names_of_versions_are_numbers(tmp_path: Path) -> None:
    for name in ("10", "9", "1", "007", "1a", "configs", "warmup", "notes"):
        write(tmp_path / "m" / name / "model.py", "")
    (model,) = read(tmp_path).models
    assert [one.number for one in model.versions] == [1, 9, 10]
    assert [one.name for one in model.passed_over] == ["007", "1a"]
    (subject,) = subjects(read(tmp_path))
    assert served(subject.model, subject.config) == (10,)


def test_what_is_hidden_or_a_file_is_no_model(tmp_path: Path) -> None:
    for path in ("m/1/model.py", ".git/config.pbtxt", "readme.md"):
        write(tmp_path / path, "")
    assert [one.name for one in read(tmp_path).models] == ["m"]


def test_a_configuration_may_have_a_name(tmp_path: Path) -> None:
    for name in ("m", "n"):
        write(tmp_path / name / "1" / "model.py", "")
        write(tmp_path / name / "config.pbtxt", "max_batch_size: 1")
    write(tmp_path / "n" / "configs" / "large.pbtxt", "max_batch_size: 8")
    sizes = [one.message.max_batch_size for one in read(tmp_path, "large").models]
    assert sizes == [1, 8]


def test_a_name_stands_in_one_repository(tmp_path: Path) -> None:
    folders = [tmp_path / one for one in "abc"]
    for folder in folders:
        write(folder / "m" / "1" / "model.py", "")
    (found,) = check(read(folders))
    assert (found.code, len(found.secondary)) == ("HR607", 2)


@pytest.mark.parametrize("content", [b'name: "\xff"', b"\x00\x01", b"\xef\xbb\xbfname: 3", b"\r\n"])
def test_no_file_stops_a_check(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "config.pbtxt").write_bytes(content)
    write(tmp_path / "n" / "1" / "model.py", "")
    assert {one.primary.span.source.name for one in check(read(tmp_path))} == {
        str(tmp_path / "m" / "config.pbtxt")
    }


def test_comments_are_in_any_encoding(tmp_path: Path) -> None:
    write(tmp_path / "m" / "1" / "model.py", "")
    inputs = 'input { name: "#x" data_type: TYPE_FP32 dims: [ 2 ] }'
    content = f'# 输入的 "大小\n{inputs} # é\n{inputs.replace("in", "out", 1)}\n'
    (tmp_path / "m" / "config.pbtxt").write_bytes(content.encode("gb18030"))
    assert not check(read(tmp_path))
