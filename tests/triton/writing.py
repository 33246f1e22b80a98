"""Small repositories for tests, written file by file."""

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from headrace.dsl.diagnostic import Severity
from headrace.triton.check import check
from headrace.triton.own_completion import OwnCompletions
from headrace.triton.repository import read
from headrace.triton.serving import Options, subjects_of
from headrace.triton.subject import Others, Subject
from headrace.triton.translate.draft import UNSERVED, Surroundings
from headrace.triton.translate.program import Program, translate
from headrace.triton.translate.schedule import Serving

FLOAT, INT32, UINT64, STRING = (
    TensorProto.FLOAT,
    TensorProto.INT32,
    TensorProto.UINT64,
    TensorProto.STRING,
)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def tensor(name: str, dims: Sequence[int | str], kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(dims))


def save(
    path: Path,
    nodes: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto] = (),
) -> None:
    """Write a model of nodes, each an op with what it reads and gives."""
    made = [helper.make_node(op, list(reads), list(gives)) for op, reads, gives in nodes]
    graph = helper.make_graph(made, "g", list(inputs), list(outputs), list(constants))
    path.parent.mkdir(parents=True, exist_ok=True)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def unary(path: Path, op: str, x: str, y: str, dims: Sequence[int | str] = ("N", 2)) -> None:
    """Write a model of one op on one tensor."""
    save(path, [(op, [x], [y])], [tensor(x, dims)], [tensor(y, dims)])


def ensemble(
    folder: Path,
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    steps: Sequence[str],
    rows: int = 4,
    dims: str = "[ 2 ]",
) -> None:
    """Write an ensemble. A step is `model: x=a y=b > z=c`, with `model@2` for a version."""

    def tensors(what: str, names: Sequence[str]) -> str:
        return "".join(
            f'{what} {{ name: "{one}" data_type: TYPE_FP32 dims: {dims} }}\n' for one in names
        )

    def entries(what: str, pairs: str) -> str:
        found = (pair.split("=") for pair in pairs.split())
        return "".join(f' {what} {{ key: "{inner}" value: "{outer}" }}' for inner, outer in found)

    def step(text: str) -> str:
        who, _, maps = text.partition(": ")
        model, _, version = who.partition("@")
        takes, _, gives = maps.partition(" > ")
        said = f'model_name: "{model}" model_version: {version or -1}'
        return f"step {{ {said}{entries('input_map', takes)}{entries('output_map', gives)} }}\n"

    (folder / name / "1").mkdir(parents=True)
    put(
        folder / name / "config.pbtxt",
        f'platform: "ensemble"\nmax_batch_size: {rows}\n'
        + tensors("input", inputs)
        + tensors("output", outputs)
        + "ensemble_scheduling {\n"
        + "".join(map(step, steps))
        + "}\n",
    )


def subjects(folder: Path) -> dict[str, Subject]:
    """Read a repository in which nothing is wrong."""
    repository = read(folder)
    found = [one for one in check(repository) if one.severity is Severity.ERROR]
    found = [one for one in found if one.code != UNSERVED]  # translating says it as well
    assert not found, "\n".join(map(str, found))
    own = OwnCompletions()
    return {one.name: one for one in subjects_of(repository, Options(), own)}


def program(folder: Path, name: str, version: int = 1, serving: Serving | None = None) -> Program:
    """Translate a model."""
    known = subjects(folder)
    others = Others(tuple(known.values()))
    return translate(known[name], version, Surroundings(others, folder, serving or Serving()))


def text(folder: Path, name: str, version: int = 1, serving: Serving | None = None) -> str:
    return program(folder, name, version, serving).text
