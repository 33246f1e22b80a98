"""Scripts that call other models: read, written in the language, and held to what they do."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest
import tritonclient.http as http_client

import headrace
from headrace.triton.importing import Imported, write
from headrace.triton.repository import read
from headrace.triton.serving import Options
from tests.triton.test_run import following
from tests.triton.writing import put, save, tensor

pytestmark = pytest.mark.slow  # all are imported; and each is a process

TOP = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sure = 0.5
        self.names = ["twice", "minus"]

"""
BODY = """
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X")
{body}
        return responses
"""


@dataclass(frozen=True)
class Script:
    """A model that asks others, and what it has become: lines that are in the source, or the
    reason why it is kept."""

    name: str
    text: str
    written: tuple[str, ...] = ()
    kept: str = ""
    rows: bool = False


def ask(model: str, tensor: str = "x", target: str = "answer") -> str:
    return f"""
{target} = pb_utils.InferenceRequest(
    model_name="{model}", requested_output_names=["Y"], inputs=[{tensor}]
).exec()
if {target}.has_error():
    raise pb_utils.TritonModelException({target}.error().message())
"""


def body(*parts: str) -> str:
    return TOP + BODY.format(body=indent("\n".join(parts), " " * 12))


GIVE = """
y = pb_utils.get_output_tensor_by_name(answer, "Y")
responses.append(pb_utils.InferenceResponse(output_tensors=[y]))
"""
GIVE_ARRAY = 'responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", y)]))'

SCRIPTS = [
    Script("straight", body(ask("twice"), GIVE), ("pipeline straight(X: f32[2]) -> (Y: f32[2])",)),
    Script(
        "chain",
        body(
            ask("twice"),
            """
            y = pb_utils.get_output_tensor_by_name(answer, "Y")
            x = pb_utils.Tensor.from_dlpack("X", y.to_dlpack())
            """.replace("\n            ", "\n"),
            ask("minus"),
            GIVE,
        ),
        ("return Y = minus(Y)",),
    ),
    Script(
        "cascade",
        body(
            ask("twice"),
            'y = pb_utils.get_output_tensor_by_name(answer, "Y").as_numpy()',
            "if y[0] < self.sure:",
            indent(ask("minus"), "    "),
            '    y = pb_utils.get_output_tensor_by_name(answer, "Y").as_numpy()',
            GIVE_ARRAY,
        ),
        ("if Y[0] < 0.5 {",),
    ),
    Script(
        "parted",
        body(
            ask("both", target="first").replace('["Y"]', '["Y", "TOP"]'),
            'top = pb_utils.get_output_tensor_by_name(first, "TOP").as_numpy().item()',
            "if top > 1.5 or not top >= -1:",
            '    y = pb_utils.get_output_tensor_by_name(first, "Y")',
            "    responses.append(pb_utils.InferenceResponse([y]))",
            "    continue",
            ask("minus"),
            GIVE,
        ),
        ("if cast(TOP[0], f64) > 1.5 or not cast(TOP[0], f64) >= -1.0 {",),
    ),
    Script(
        "loop",
        body(
            "for _ in range(5):",
            indent(ask("twice"), "    "),
            '    y = pb_utils.get_output_tensor_by_name(answer, "Y").as_numpy()',
            '    x = pb_utils.Tensor("X", y)',
            "    if np.max(y) > 20:",
            "        break",
            "y = x.as_numpy()",
            GIVE_ARRAY,
        ),
        ("max 5 {", "stop when max(Y) > 20.0"),
    ),
    Script(
        "gathered",
        TOP.replace("import numpy", "import asyncio\n\nimport numpy")
        + """
    async def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X")
            waiting = []
            for name in self.names:
                asked = pb_utils.InferenceRequest(
                    model_name=name, requested_output_names=["Y"], inputs=[x]
                )
                waiting.append(asked.async_exec())
            answers = await asyncio.gather(*waiting)
            for answer in answers:
                if answer.has_error():
                    raise pb_utils.TritonModelException(answer.error().message())
            one = pb_utils.get_output_tensor_by_name(answers[0], "Y").as_numpy()
            other = pb_utils.get_output_tensor_by_name(answers[1], "Y").as_numpy()
            y = one + other * 3
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", y)]))
        return responses
""",
        ("return Y = Y + Y_2 * 3.0",),
    ),
    Script(
        "helped",
        TOP
        + '''
    def ask(self, model, tensor, output="Y"):
        """Ask a model for one output."""
        request = pb_utils.InferenceRequest(
            model_name=model, requested_output_names=[output], inputs=[tensor]
        )
        response = request.exec()
        if response.has_error():
            raise pb_utils.TritonModelException(response.error().message())
        return pb_utils.get_output_tensor_by_name(response, output)

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X")
        try:
            y = self.ask("twice", x)
            z = self.ask(model="minus", tensor=pb_utils.Tensor("X", y.as_numpy()))
            if x.as_numpy()[1] >= 0 and len(x.as_numpy()) == 2:
                return pb_utils.InferenceResponse(output_tensors=[z])
            return pb_utils.InferenceResponse(output_tensors=[y])
        except Exception as error:
            return pb_utils.InferenceResponse(
                output_tensors=[], error=pb_utils.TritonError(str(error))
            )

    def execute(self, requests):
        pb_utils.Logger.log_info(f"{len(requests)} requests")
        return [self.answer(request) for request in requests]
''',
        ("if X[1] >= 0.0 {",),
    ),
    Script(
        "rows",
        body(ask("twices"), GIVE),
        ("pipeline rows(X: f32[2]) -> (Y: f32[2]) batch 8 {", "return Y = twices(X)"),
        rows=True,
    ),
    Script(
        "looks",
        body(
            ask("twices"),
            "if x.as_numpy()[0][0] > 0:",
            indent(ask("minuses"), "    "),
            GIVE,
        ),
        ("pipeline looks(X: f32[_, 2]) -> (Y: f32[_, 2]) {", "if X[0][0] > 0.0 {", "in X {"),
        rows=True,
    ),
    # what stays a Python stage, and why
    Script(
        "dynamic",
        body("model = 'twice' if x.as_numpy()[0] > 0 else 'minus'", ask("twice"), GIVE).replace(
            'model_name="twice"', "model_name=model"
        ),
        kept="which model is asked, or for what, is computed",
    ),
    Script(
        "endless",
        body("while True:", indent(ask("twice"), "    "), "    break", GIVE),
        kept="a loop whose turns nothing bounds",
    ),
    Script(
        "counts",
        body("self.seen = 1", ask("twice"), GIVE),
        kept="`self.seen` is changed, which outlives a request",
    ),
    Script(
        "forgiving",
        body(ask("twice"), GIVE).replace(
            "raise pb_utils.TritonModelException(answer.error().message())", "answer = None"
        ),
        kept="it goes on behind an error",
    ),
    Script(
        "computes",
        body(ask("twice"), "y = np.linalg.norm(x.as_numpy())", GIVE_ARRAY),
        kept="`np.linalg.norm` is called in a way that is not known here",
    ),
    Script(
        "elsewhere",
        body(ask("nobody"), GIVE),
        kept="it asks `nobody`, which is not in the repository",
    ),
    Script(
        "carries",
        body(ask("twice"), GIVE)
        .replace("responses = []", "responses, last = [], None")
        .replace("            y =", "            last = last or x\n            y ="),
        kept="`last` goes from one request to the next",
    ),
    Script(
        "raises",
        body(ask("twice"), "if x.as_numpy()[0] > 3:", "    raise ValueError('large')", GIVE),
        kept="a condition decides whether a request fails",
    ),
    Script(
        "told",
        body(ask("twice"), "if request.request_id() == 'a':", indent(ask("minus"), "    "), GIVE),
        kept="`request_id` tells of the request what is not in its tensors",
    ),
    Script(
        "collects",
        body(ask("twice"), "self.names.append('other')", GIVE),
        kept="`append` is called, and what it does is not known here",
    ),
    Script(
        "aliases",
        body(ask("twice"), "names = self.names", "names.append('other')", GIVE),
        kept="`names` is changed, which may outlive a request",
    ),
    Script(
        "in_place",
        body(
            ask("twice"),
            'y = pb_utils.get_output_tensor_by_name(answer, "Y").as_numpy()',
            "other = y",
            "y += 1",
            "y = other",
            GIVE_ARRAY,
        ),
        kept="`y` is changed in its place",
    ),
    Script(
        "grows",
        body(
            "found = []",
            "for _ in range(3):",
            indent(ask("twice"), "    "),
            "    found.append(answer)",
            "answer = found[0]",
            GIVE,
        ),
        kept="`found` grows in a loop",
    ),
    Script(
        "first_alone",
        body(ask("twice"), GIVE).replace(
            "for request in requests:", "for request in requests[:1]:"
        ),
        kept="one of several requests is picked",
    ),
    Script(
        "decorated",
        body(ask("twice"), GIVE).replace("    def execute", "    @timed\n    def execute"),
        kept="`execute` is decorated",
    ),
    Script(
        "several_values",
        body(
            "if x.as_numpy()[0] > 0:",
            indent(ask("twice"), "    "),
            "else:",
            indent(ask("minus"), "    "),
            GIVE,
        ).replace(
            "self.sure = 0.5", "self.sure = 0.5\n        self.sure = float(args.get('sure', 1))"
        ),
        ("if X[0] > 0.0 {",),
    ),
    Script(
        "unknown_bound",
        body(
            ask("twice"), "if x.as_numpy()[0] > self.sure:", indent(ask("minus"), "    "), GIVE
        ).replace("self.sure = 0.5", "self.sure = float(open(args['model_name']).read())"),
        kept="`open` is called, and what it does is not known here",
    ),
    Script(
        "senders",
        body(ask("twice"), "request.get_response_sender()", GIVE),
        kept="it calls `get_response_sender` of its request",
    ),
]
WRITTEN = [one for one in SCRIPTS if not one.kept]
ROWS = np.array([[0.1, -2], [3, 4]], np.float32)


def config(rows: int) -> str:
    return (
        f'backend: "python"\nmax_batch_size: {rows}\n'
        'input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }\n'
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }\n'
    )


def write_repository(folder: Path, scripts: list[Script]) -> None:
    for name, front in (
        ("twice", []),
        ("minus", []),
        ("both", []),
        ("twices", ["N"]),
        ("minuses", ["N"]),
    ):
        x, y = tensor("X", [*front, 2]), tensor("Y", [*front, 2])
        nodes = [("Neg", ["X"], ["Y"]) if "minus" in name else ("Add", ["X", "X"], ["Y"])]
        outputs = [y]
        if name == "both":
            nodes.append(("ReduceMax", ["X"], ["TOP"]))
            outputs.append(tensor("TOP", [1]))
        save(folder / name / "1/model.onnx", nodes, [x], outputs)
        put(folder / name / "config.pbtxt", "")
    for one in scripts:
        put(folder / one.name / "1/model.py", one.text)
        put(folder / one.name / "config.pbtxt", config(8 if one.rows else 0))


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Imported]:
    folder = tmp_path_factory.mktemp("scripts")
    write_repository(folder / "models", SCRIPTS)
    return folder, write(read(folder / "models"), folder / "app", Options())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.name)
def test_a_script_is_written_in_the_language_or_the_reason_is_told(
    imported: tuple[Path, Imported], script: Script
) -> None:
    folder, found = imported
    assert not found.mistakes
    (note,) = (one for one in found.notes if one.startswith(f"{script.name}:"))
    text = (folder / "app" / f"{script.name}.pipe").read_text()
    assert ("triton_python" in text) == bool(script.kept)
    if script.kept:
        assert note.endswith(f": {script.kept}")
        line = int(note.partition("line ")[2].partition(":")[0])
        assert script.text.splitlines()[line - 1].strip()
    for written in script.written:
        assert written in text, text
    headrace.compile(folder / "app" / f"{script.name}.pipe")


def test_both_answer_the_same(imported: tuple[Path, Imported], tmp_path: Path) -> None:
    folder, _ = imported
    write_repository(tmp_path, WRITTEN)
    random = np.random.default_rng(3).normal(0, 3, (6, 2)).astype(np.float32)
    with following(tmp_path) as (follower, http, _):
        assert not follower.failures
        client: Any = http_client.InferenceServerClient(http)
        for script in WRITTEN:
            with headrace.load(folder / "app" / f"{script.name}.pipe") as app:
                for one in (*ROWS, *random):
                    x = np.stack([one, -one]) if script.rows else one
                    given = http_client.InferInput("X", list(x.shape), "FP32")
                    given.set_data_from_numpy(x)
                    theirs = client.infer(script.name, [given]).as_numpy("Y")
                    ours = getattr(app, script.name)(X=x)
                    np.testing.assert_array_equal(ours.Y if hasattr(ours, "Y") else ours, theirs)
        client.close()
