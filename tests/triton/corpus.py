"""Small repositories in `corpus/`, one trait or fault each, with what is found in them.

    == a title
    finds: MODEL LINE:COLUMN CODE   what `headrace check` finds, with ~ before the code of a warning
    refused: MODEL why              a model that a tritonserver does not load, and its words
    why: ...                        why headrace decides otherwise
    unserved: MODEL why             a model that headrace does not serve, though nothing is wrong
    differs: WORD why               what the two servers tell differently (see comparing.py)
    unjudged                        a tritonserver is not asked to load it
    unanswered                      nor for answers
    versions: MODEL 1 3             its versions, if they are not 1 alone
    bare                            no version holds a model's file
    asks: PATH JSON                 what both servers are asked at v2/models/PATH besides
    -- MODEL/config.pbtxt           a file, with all that follows; `<plain>` stands for three lines,
                                    `<bom>` and its likes for characters that cannot be seen

Each model that is no ensemble is the Python model below, unless the case has another; what stands
for the head of one is below, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_X = 'input { name: "x" data_type: TYPE_FP32 dims: [ 3 ] }\n'
_Y = 'output { name: "y" data_type: TYPE_FP32 dims: [ 3 ] }\n'
_SAID = 'output { name: "y" data_type: TYPE_STRING dims: [ 1 ] }\n'
_MODEL = '''\
import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Gives each output the values of the input in its place."""

    def initialize(self, args):
        outputs = json.loads(args["model_config"])["output"]
        self.names = [one["name"] for one in outputs]
        self.types = [pb_utils.triton_string_to_numpy(one["data_type"]) for one in outputs]

    def execute(self, requests):
        return [self.answer(request.inputs()) for request in requests]

    def answer(self, inputs):
        pairs = enumerate(zip(self.names, self.types))
        outputs = [
            pb_utils.Tensor(name, inputs[i % len(inputs)].as_numpy().astype(kind))
            for i, (name, kind) in pairs
        ]
        return pb_utils.InferenceResponse(outputs)
'''
_HEAD = '''\
import json
import os
import sys

import numpy as np
import triton_python_backend_utils as pb_utils


def get(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()


def say(*values):
    """Answer with values as JSON."""
    text = np.array([json.dumps(values).encode()], np.object_)
    return give(y=text)


def give(**tensors):
    return pb_utils.InferenceResponse([pb_utils.Tensor(*one) for one in tensors.items()])


def ask(model, x, **more):
    inputs = [pb_utils.Tensor("x", x)]
    return pb_utils.InferenceRequest(
        model_name=model, requested_output_names=["y"], inputs=inputs, **more
    )


def found(response):
    """Return what another model has answered."""
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, "y").as_numpy()


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(one) for one in requests]

'''
_STANDS_FOR = {
    "<plain>\n": f'backend: "python"\n{_X}{_Y}',
    "<batched>\n": f'backend: "python"\n{_X}{_Y}max_batch_size: 8\n',
    "<ensemble>\n": f'platform: "ensemble"\n{_X}{_Y}',
    "<says>\n": f'backend: "python"\n{_X}{_SAID}',
    "<model>\n": _MODEL,
    "<head>\n": _HEAD,
    "<bom>": "\ufeff",
    "<nul>": "\0",
    "<nbsp>": "\u00a0",
    "<open>": "\u201c",
    "<close>": "\u201d",
}


@dataclass(slots=True)
class Case:
    group: str
    title: str
    finds: list[str] = field(default_factory=list[str])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    why: str = ""
    unserved: dict[str, str] = field(default_factory=dict[str, str])
    differs: dict[str, str] = field(default_factory=dict[str, str])
    judged: bool = True
    answers: bool = True
    versions: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    bare: bool = False
    asks: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    files: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def models(self) -> list[str]:
        return sorted({path.partition("/")[0] for path in self.files})

    def write(self, folder: Path) -> Path:
        """Write the repository into a folder."""
        for path, text in self.files.items():
            (folder / path).parent.mkdir(exist_ok=True, parents=True)
            if not path.endswith("/"):
                (folder / path).write_text(text)
        for name in self.models:
            ensemble = "ensemble" in self.files.get(f"{name}/config.pbtxt", "")
            for version in self.versions.get(name, ["1"]):
                (folder / name / version).mkdir(exist_ok=True, parents=True)
                file = folder / name / version / "model.py"
                if not self.bare and not ensemble and not file.exists():
                    file.write_text(_MODEL)
        return folder


def read_corpus() -> Iterator[Case]:
    """Yield the cases of all files."""
    for path in sorted((Path(__file__).parent / "corpus").glob("*.txt")):
        for text in path.read_text("utf-8").split("\n\n== "):
            yield _read(path.stem, text.removeprefix("== ").rstrip("\n") + "\n")


def _read(group: str, text: str) -> Case:
    head, *files = text.split("\n-- ")
    title, *lines = head.splitlines()
    case = Case(group, title)
    for line in lines:
        name, _, rest = line.partition(": ")
        first, _, more = rest.partition(" ")
        match name:
            case "finds":
                case.finds.append(rest)
            case "refused":
                case.refused[first] = more
            case "unserved":
                case.unserved[first] = more
            case "differs":
                case.differs[first] = more
            case "unanswered":
                case.answers = False
            case "why":
                case.why = rest
            case "versions":
                case.versions[first] = more.split()
            case "unjudged":
                case.judged = False
            case "asks":
                case.asks.append((first, more))
            case "bare":
                case.bare = True
            case _:
                raise ValueError(f"{group}: {title}: {line}")
    for file in files:
        path, _, content = file.partition("\n")
        content = content if content.endswith("\n") else content + "\n"
        for short, long in _STANDS_FOR.items():
            content = content.replace(short, long)
        case.files[path] = content
    return case


CASES = tuple(read_corpus())
